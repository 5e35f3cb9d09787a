// Programs that count what comes to experts in another way than once for each routed microbatch.
#include "catch.h"
#include "core/error.h"
#include "runtime/program/expert_loads.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::expert_loads_faults_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Access;
using runtime::Op;
using runtime::OpId;
using runtime::OpKind;
using runtime::Program;
using runtime::ProgramSet;
using runtime::Role;
using runtime::Use;

namespace {

struct Subject {
  runtime::Layout layout;
  ProgramSet set;

  // Two microbatches through two layers of experts, in one piece or in runs of parts.
  explicit Subject(int tensor) {
    Setting s;
    s.ranks = 2, s.stage = 2, s.tensor = tensor, s.accumulation = s.reduce_every = 2;
    models::LlamaConfig config;
    config.layers = 2, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.ffn = 40;
    config.sequence = 8, config.vocab = 31, config.tied = false, config.degrees = {tensor};
    config.experts = {.number = 4, .ffn = 24, .top_k = 2};
    const models::Model model = models::make_llama(config);
    layout = make_layout(model, s);
    set = runtime::compile(layout, {"init", "step", "eval"}).set;
  }

  // The verifier must say `why` of the broken programs.
  template <class Break>
  void refused(Break damage, const char* why) const {
    ProgramSet broken = set;
    damage(broken);
    std::string error;
    try {
      runtime::verify(broken, layout);
    } catch (const core::ProgramError& e) {
      error = e.what();
    }
    INFO("message: " << error << "\nmissing: " << why);
    CHECK(error.find(why) != std::string::npos);
  }
  const Program& step() const { return set.program("step"); }
};

bool counts_loads(const Op& op) {
  return std::any_of(op.accesses.begin(), op.accesses.end(), [](const Access& a) { return a.role == Role::loads; });
}
Op& op_of(ProgramSet& set, OpId id) {
  return program_of(set, "step").ops[id];
}

}  // namespace

TEST_CASE("a program that counts no loads of a routed microbatch, or those of none, is refused") {
  const Subject subject(GENERATE(1, 2));
  runtime::verify(subject.set, subject.layout);
  const auto loads = std::find_if(subject.set.buffers.begin(), subject.set.buffers.end(),
                                  [](const runtime::Buffer& b) { return b.name == runtime::expert_loads; });
  REQUIRE(loads != subject.set.buffers.end());
  const auto buffer = static_cast<runtime::BufferId>(loads - subject.set.buffers.begin());
  size_t counting = 0, others = 0;
  for (OpId id = 0; id < subject.step().ops.size(); ++id) {
    const Op& op = subject.step().ops[id];
    CAPTURE(op.name);
    if (op.kind == OpKind::begin) {
      CHECK(counts_loads(op));
      subject.refused([&](ProgramSet& set) { op_of(set, id).accesses.pop_back(); }, "expert loads");
    }
    if (op.kind != OpKind::backward) continue;
    if (!counts_loads(op)) {
      ++others;
      subject.refused(
          [&](ProgramSet& set) {
            op_of(set, id).accesses.push_back({buffer, Role::loads, Use::update, {}});
          },
          "counts loads of experts that another run of parts routes to");
      continue;
    }
    ++counting;
    subject.refused(
        [&](ProgramSet& set) {
          std::erase_if(op_of(set, id).accesses, [](const Access& a) { return a.role == Role::loads; });
        },
        "does not count the loads of the experts that it routes to");
    // The control block is large enough, and no begin empties it.
    subject.refused(
        [&](ProgramSet& set) {
          Op& one = op_of(set, id);
          const auto control = std::find_if(one.accesses.begin(), one.accesses.end(),
                                            [](const Access& a) { return a.role == Role::control; });
          for (Access& access : one.accesses) {
            if (access.role == Role::loads) access.buffer = control->buffer;
          }
        },
        "no begin has emptied it");
  }
  CHECK(counting >= 2);
  CHECK(others >= 2);
  subject.refused([&](ProgramSet& set) { set.buffers[buffer].bytes -= 8; }, "uses 128 bytes of buffer 'expert loads'");
}

}  // namespace zrt::expert_loads_faults_test
