// Every op of a step dropped, neighbours swapped, every wait removed: the verifier rejects the program, or it was
// harmless and trains to the same bits.
#include <atomic>
#include <chrono>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/mutate.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::verifier_faults_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::OpId;

namespace {

struct Subject {
  Setting setting;
  bool tied;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  auto add = [&](int stage, uint32_t accumulation, uint32_t every, bool overlap, bool tied) {
    Setting s;
    s.ranks = 2, s.steps = 2, s.unit_elements = 100, s.bucket = 300;
    s.stage = stage, s.accumulation = accumulation, s.reduce_every = every, s.overlap = overlap;
    all.push_back({s, tied});
  };
  add(0, 3, 3, false, true);
  add(0, 4, 2, true, false);
  add(1, 1, 1, true, false);
  add(2, 4, 2, false, true);
  add(2, 3, 1, true, false);
  add(3, 3, 1, true, true);
  add(3, 4, 2, true, false);
  add(3, 1, 1, false, false);
  auto add_groups = [&](int stage, uint32_t accumulation, uint32_t every, const Islands& groups) {
    add(stage, accumulation, every, true, stage == 3);
    all.back().setting.ranks = 4;
    all.back().setting.groups = groups;
    all.back().setting.persistence = stage == 3 ? 20 : 0;
  };
  add_groups(2, 4, 2, {2, true});
  add_groups(3, 3, 1, {2, false, true});
  add_groups(3, 1, 1, {2, false, false, true});
  return all;
}

models::Model model_of(const Subject& subject) {
  return make_toy(3, 12, 17, 5, subject.tied, false);
}

// Delays by a few hundred microseconds, different for every rank, block and call.
void jitter() {
  static std::atomic<uint64_t> calls{0};
  const uint32_t word = core::random_word({3, 1, 4}, calls++);
  if (word % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(word / 4 % 300));
}

std::string verdict(const runtime::ProgramSet& set, const runtime::Layout& layout) {
  try {
    runtime::verify(set, layout);
  } catch (const core::ProgramError& error) {
    return error.what();
  }
  return "";
}

// Trains with changed programs that the verifier accepts, under delays that shake the lanes. A moved buffer with
// several slots may share bytes between two windows, when the executor still counts it as live: not for runs that
// poison.
void check_harmless(const Subject& subject, const runtime::Compiled& changed, const Outcome& good, bool moved = false) {
  const models::Model model = wrap(model_of(subject), {[](const auto&, const auto&, bool) { jitter(); }, {}});
  Setting s = subject.setting;
  s.on_batch = [](int, uint32_t, uint32_t) { jitter(); };
  for (bool serialize : {false, true}) {
    if (serialize && moved && poisons) continue;
    static unsigned number = 0;
    if (!full_tests() && serialize != (++number % 4 / 2 == 0)) continue;
    s.serialize = serialize;
    runtime::Compiled wrapped = changed;
    wrapped.layout = make_layout(model, s);
    const Outcome outcome = run_compiled(std::move(wrapped), s);
    CHECK(outcome.state == good.state);
    CHECK(outcome.losses == good.losses);
    CHECK(outcome.norms == good.norms);
  }
}

}  // namespace

TEST_CASE("a step without one of its ops is rejected, or the op is a gather of what is still there") {
  size_t repeated = 0;
  for (const Subject& subject : subjects()) {
    const models::Model model = model_of(subject);
    const runtime::Layout layout = make_layout(model, subject.setting);
    const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"});
    for (OpId id = 0; id < compiled.set.program("step").ops.size(); ++id) {
      runtime::Compiled changed = compiled;
      const runtime::Op& op = compiled.set.program("step").ops[id];
      drop_op(program_of(changed.set, "step"), id);
      const std::string error = verdict(changed.set, layout);
      INFO("stage " << subject.setting.stage << ", " << op.name << ": " << error);
      if (!error.empty()) {
        CHECK(error.find('\'') != std::string::npos);
        continue;
      }
      ++repeated;
      CHECK(op.kind == runtime::OpKind::gather);
      check_harmless(subject, changed, run(model, subject.setting));
    }
  }
  CHECK(repeated < 10);
}

TEST_CASE("a step with two near ops swapped is rejected, or harmless") {
  size_t rejected = 0, harmless = 0;
  for (const Subject& subject : subjects()) {
    const models::Model model = model_of(subject);
    const runtime::Layout layout = make_layout(model, subject.setting);
    const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"});
    const Outcome good = run(model, subject.setting);
    const runtime::Program& step = compiled.set.program("step");
    for (const runtime::Segment& segment : step.segments) {
      for (OpId a = segment.first; a < segment.first + segment.count; ++a) {
        const OpId end = std::min(segment.first + segment.count, a + (full_tests() ? 9u : 3u));
        for (OpId b = a + 1; b < end; ++b) {
          runtime::Compiled changed = compiled;
          swap_ops(program_of(changed.set, "step"), a, b);
          const std::string error = verdict(changed.set, layout);
          INFO("stage " << subject.setting.stage << ", '" << step.ops[a].name << "' and '" << step.ops[b].name
                        << "': " << error);
          if (!error.empty()) {
            ++rejected;
            CHECK(error.find('\'') != std::string::npos);
          } else {
            ++harmless;
            check_harmless(subject, changed, good);
          }
        }
      }
    }
  }
  CAPTURE(rejected, harmless);
  CHECK(rejected > harmless);
}

TEST_CASE("a step without one of its waits is rejected, or the wait only bounds how far a lane runs ahead") {
  size_t rejected = 0, redundant = 0;
  for (const Subject& subject : subjects()) {
    const models::Model model = model_of(subject);
    const runtime::Layout layout = make_layout(model, subject.setting);
    const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"});
    const Outcome good = run(model, subject.setting);
    const runtime::Program& step = compiled.set.program("step");
    for (OpId id = 0; id < step.ops.size(); ++id) {
      for (OpId wait : step.ops[id].waits) {
        runtime::Compiled changed = compiled;
        std::erase(program_of(changed.set, "step").ops[id].waits, wait);
        const std::string error = verdict(changed.set, layout);
        INFO("stage " << subject.setting.stage << ", '" << step.ops[id].name << "' without waiting for '"
                      << step.ops[wait].name << "': " << error);
        if (!error.empty()) {
          ++rejected;
          CHECK(error.find("a wait is missing") != std::string::npos);
          continue;
        }
        const auto computes = [&](OpId op) {
          return step.ops[op].kind == runtime::OpKind::forward || step.ops[op].kind == runtime::OpKind::backward;
        };
        const auto communicates = [&](OpId op) {
          return compiled.set.lanes[step.ops[op].lane].kind == runtime::LaneKind::comm;
        };
        // Waits that only bound how far a lane runs ahead are not needed for safety.
        const bool bound = (communicates(id) && computes(wait)) || (computes(id) && communicates(wait));
        CHECK(bound);
        ++redundant;
        check_harmless(subject, changed, good);
      }
    }
  }
  CAPTURE(rejected, redundant);
  CHECK(rejected > redundant);
}

TEST_CASE("a buffer moved into the red zone before it is rejected, or meets only dead buffers") {
  size_t rejected = 0;
  for (const Subject& subject : subjects()) {
    const models::Model model = model_of(subject);
    const runtime::Layout layout = make_layout(model, subject.setting);
    const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"});
    const Outcome good = run(model, subject.setting);
    for (size_t b = 0; b < compiled.set.buffers.size(); ++b) {
      const runtime::Buffer& buffer = compiled.set.buffers[b];
      if (buffer.offset == 0) continue;
      runtime::Compiled changed = compiled;
      changed.set.buffers[b].offset -= core::red_zone_bytes;
      const std::string error = verdict(changed.set, layout);
      INFO("stage " << subject.setting.stage << ", " << buffer.name << ": " << error);
      if (error.empty()) {
        check_harmless(subject, changed, good, true);
      } else {
        ++rejected;
        CHECK((error.find(buffer.name) != std::string::npos || error.find("same bytes") != std::string::npos ||
               error.find("its bytes") != std::string::npos));
      }
      // A state always has a neighbour that is kept.
      if (buffer.life != runtime::Life::transient) CHECK(error.find("kept between programs") != std::string::npos);
    }
  }
  CHECK(rejected > 100);
}

}  // namespace zrt::verifier_faults_test
