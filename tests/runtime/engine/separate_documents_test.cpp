// Samples of several documents: a run learns the same bits whatever else it chooses, and each stage of a pipeline knows
// where documents begin.
#include <algorithm>

#include "catch.h"
#include "core/error.h"
#include "runtime/ops/spec.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/small_models.h"

namespace zrt::separate_documents_test {

using namespace zrt;
using namespace zrt::testing;
using Catch::Matchers::Contains;
using core::DType;
using runtime::Recompute;
using runtime::ScheduleKind;

namespace {

constexpr ModelType decoders[] = {ModelType::gpt2, ModelType::llama, ModelType::qwen3, ModelType::gemma};

// Documents of some five tokens.
int32_t position(uint64_t sample, int64_t t) {
  int64_t start = t;
  while (start > 0 && core::random_word({17, 0, 2}, sample * 1000 + static_cast<uint64_t>(start)) % 5 != 0) --start;
  return static_cast<int32_t>(t - start);
}

Setting setting_of(unsigned turn) {
  Setting s;
  s.positions = position;
  s.accumulation = s.reduce_every = 2;
  s.steps = 3, s.eval = true;
  s.compute = std::array{DType::f32, DType::bf16, DType::f16}[turn % 3];
  if (s.compute == DType::f16) s.loss_scale.initial = 128;
  return s;
}

models::Model small(ModelType type, const Setting& s, bool tied, int64_t layers = 2) {
  return make_small(type, {.layers = layers, .tied = tied, .degrees = {s.tensor, s.rows}});
}

}  // namespace

TEST_CASE("packed documents change no bit under any stage, placement, recomputation and lane") {
  unsigned turn = 0;
  for (const ModelType type : decoders) {
    for (int times = 0; times < 3; ++times) {
      if (left_to_processor(++turn)) continue;
      Setting s = setting_of(turn);
      s.ranks = 1 + static_cast<int>(turn % 3);
      const models::Model model = small(type, s, turn % 2 == 0);
      const Outcome reference = run(model, s);
      Setting joined = s;
      joined.positions = nullptr;
      CHECK(run(model, joined).losses != reference.losses);
      for (s.stage = 0; s.stage < 4; ++s.stage) {
        Setting other = s;
        const unsigned choice = turn * 3 + static_cast<unsigned>(s.stage);
        other.unit_elements = choice & 1 ? 3000 : 100000;
        other.overlap = choice & 2, other.serialize = choice & 4;
        const auto all = placings();
        other.placement = choice % 5 == 4 ? nullptr : all[choice % all.size()].place;
        const Recompute kept[] = {Recompute::full, Recompute::selective, Recompute::none, Recompute::never};
        other.recompute = {kept[(choice + turn) % 4]};
        CAPTURE(static_cast<int>(type), turn, s.ranks, s.stage, choice);
        const Outcome outcome = run(model, other);
        CHECK(outcome.state == reference.state);
        CHECK(outcome.losses == reference.losses);
        CHECK(outcome.eval_loss == reference.eval_loss);
        CHECK(outcome.measured == outcome.planned);
        CHECK(outcome.measured_behind == outcome.planned_behind);
      }
    }
  }
}

TEST_CASE("packed documents change no bit on tensor-parallel ranks and in pipelines of every schedule") {
  unsigned turn = 0;
  for (const ModelType type : decoders) {
    for (const auto& [tensor, rows] : {std::pair{1, false}, {2, false}, {2, true}}) {
      constexpr std::array<std::pair<ScheduleKind, int>, 4> kinds{{{ScheduleKind::one_f_one_b, 1},
                                                                   {ScheduleKind::zb_h1, 1},
                                                                   {ScheduleKind::interleaved, 2},
                                                                   {ScheduleKind::gpipe, 1}}};
      for (const auto& [kind, chunks] : kinds) {
        if (left_to_processor(++turn)) continue;
        Setting s = setting_of(turn);
        s.accumulation = s.reduce_every = 4, s.micro_batch = 1;
        s.tensor = tensor, s.rows = rows, s.ranks = 1 + static_cast<int>(turn % 2);
        const models::Model model = small(type, s, false, 4);
        const Outcome reference = run(model, s);
        Setting other = s;
        other.stage = static_cast<int>(turn % 3), other.overlap = turn % 2 == 0;
        if (kind != ScheduleKind::zb_h1) other.recompute = {turn % 2 == 0 ? Recompute::full : Recompute::none};
        const int stages = chunks > 1 || turn % 3 == 0 ? 2 : 3;
        CAPTURE(static_cast<int>(type), tensor, rows, turn, other.stage, stages);
        const Outcome outcome = run_pipeline(model, other, kind, stages, chunks);
        CHECK(outcome.state == reference.state);
        CHECK(outcome.losses == reference.losses);
        CHECK(outcome.eval_loss == reference.eval_loss);
        CHECK(outcome.measured == outcome.planned);
      }
    }
  }
}

TEST_CASE("a batch whose positions neither begin anew nor go on is refused") {
  Setting s = setting_of(0);
  s.steps = 1, s.eval = false;
  for (const int64_t wrong : {0, 5}) {
    s.positions = [wrong](uint64_t, int64_t t) { return static_cast<int32_t>(t == wrong ? t + 1 : t); };
    CHECK_THROWS_AS(run(small(ModelType::llama, s, true), s), core::DataError);
  }
}

TEST_CASE("a block that does not read positions, or reads what no batch has brought, is refused") {
  using runtime::OpKind;
  Setting s = setting_of(0);
  s.recompute = {Recompute::full};
  const runtime::Layout layout = make_layout(small(ModelType::llama, s, true), s);
  const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "eval"});
  CHECK_NOTHROW(runtime::verify(compiled.set, layout));
  for (const OpKind kind :
       {OpKind::load_batch, OpKind::forward, OpKind::recompute, OpKind::backward, OpKind::evaluate}) {
    runtime::ProgramSet set = compiled.set;
    const auto is_positions = [](const runtime::Access& access) { return access.role == runtime::Role::positions; };
    size_t erased = 0;
    for (runtime::Program& program : set.programs) {
      for (runtime::Op& op : program.ops) {
        if (erased == 0 && op.kind == kind) erased += std::erase_if(op.accesses, is_positions);
      }
    }
    CAPTURE(runtime::op_kind_name(kind));
    REQUIRE(erased == 1);
    CHECK_THROWS_WITH(runtime::verify(set, layout), Contains("positions"));
  }
}

}  // namespace zrt::separate_documents_test
