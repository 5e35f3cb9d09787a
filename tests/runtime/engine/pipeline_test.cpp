// Pipelines with every ZeRO stage inside: the bits of a run without a pipeline.
#include "tests/runtime/pipeline.h"

#include <optional>

#include "catch.h"
#include "core/error.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::pipeline_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::GatheredFor;
using runtime::ScheduleKind;

namespace {

Setting setting(int stage, uint32_t microbatches) {
  Setting s;
  s.stage = stage, s.accumulation = microbatches, s.reduce_every = microbatches;
  s.steps = 3, s.micro_batch = 1;
  return s;
}

}  // namespace

TEST_CASE("a pipeline has the bits of no pipeline, whatever its depth, schedule, ZeRO stage and the tier of moments") {
  const models::Model model = make_toy(5, 12, 17, 5, false, false);
  using core::Tier;
  unsigned turn = 0;
  for (const uint32_t microbatches : {1u, 3u, 8u, 16u}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const uint32_t every : {1u, microbatches}) {
        Setting s = setting(stage, microbatches);
        s.reduce_every = every;
        s.ranks = 1 + static_cast<int>(turn % 2);
        if (every > 1) s.unit_elements = 100;
        const Outcome reference = run(model, s);
        for (const int stages : {2, 3, 4}) {
          for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
            ++turn;
            if (!full_tests() && turn % 7 != 0) continue;  // prime to the number of each choice
            if (left_to_processor(turn / 7)) continue;
            Setting other = s;
            const std::array<Tier, 3> tiers{Tier::device, Tier::host, Tier::nvme};
            const Tier moments = tiers[turn / 7 % 3];
            if (moments != Tier::device) {
              other.placement = [moments](const runtime::Layout& layout) {
                return uniform(layout, Tier::device, Tier::device, Tier::device, moments, Tier::device, Tier::device);
              };
            }
            other.overlap = turn % 2 == 0;
            other.gathered_for = turn % 4 == 0 ? GatheredFor::use : GatheredFor::step;
            other.stress_seed = turn % 5 == 0 ? turn : 0;
            CAPTURE(microbatches, stage, every, other.ranks, stages, runtime::schedule_name(kind),
                    static_cast<int>(moments), turn);
            const Outcome outcome = run_pipeline(model, other, kind, stages);
            CHECK(outcome.state == reference.state);
            CHECK(outcome.losses == reference.losses);
            CHECK(outcome.norms == reference.norms);
            CHECK(outcome.measured == outcome.planned);
            CHECK(outcome.measured_behind[0] == outcome.planned_behind[0]);
          }
        }
      }
    }
  }
}

TEST_CASE("an interleaved pipeline has the bits of no pipeline, whatever its chunks, groups and ZeRO stage", "[long]") {
  const models::Model model = make_toy(10, 12, 17, 5, false, false);
  unsigned turn = 0;
  for (const uint32_t microbatches : {4u, 8u, 12u}) {
    for (int stage = 0; stage < 4; ++stage) {
      Setting s = setting(stage, microbatches);
      s.reduce_every = turn % 2 == 0 ? 1 : microbatches;
      s.ranks = 1 + static_cast<int>(turn % 3 == 0);
      const Outcome reference = run(model, s);
      for (const int stages : {2, 3, 4}) {
        for (const int chunks : {2, 3}) {
          for (const int group : {stages, 2 * stages, 5}) {
            ++turn;
            const auto rest = static_cast<int>(microbatches) % group;
            const bool legal =
                group >= stages && group <= static_cast<int>(microbatches) && (rest == 0 || rest >= stages);
            if (!legal || (!full_tests() && turn % 5 != 0)) continue;
            Setting other = s;
            other.overlap = turn % 4 == 1;
            other.gathered_for = std::array{GatheredFor::use, GatheredFor::run, GatheredFor::step}[turn % 3];
            other.stress_seed = turn % 10 == 0 ? turn : 0;
            const Outcome outcome = run_pipeline(model, other, ScheduleKind::interleaved, stages, chunks, group);
            CAPTURE(microbatches, stage, s.reduce_every, s.ranks, stages, chunks, group, turn);
            CHECK(outcome.state == reference.state);
            CHECK(outcome.losses == reference.losses);
            CHECK(outcome.norms == reference.norms);
            CHECK(outcome.measured == outcome.planned);
          }
        }
      }
    }
  }
}

TEST_CASE("gradients of weights that come later have the bits of 1F1B, in windows of any length, tied or not") {
  for (const bool tied : {false, true}) {
    const models::Model model = make_toy(5, 12, 17, 5, tied, false);
    for (const uint32_t every : {2u, 3u}) {
      for (const int stages : {2, 4}) {
        for (const int stage : {0, 3}) {
          Setting s = setting(stage, 12);
          s.reduce_every = every, s.overlap = stage > 0, s.eval = true, s.ranks = 2;
          const Outcome reference = run_pipeline(model, s, ScheduleKind::one_f_one_b, stages);
          const Outcome outcome = run_pipeline(model, s, ScheduleKind::zb_h1, stages);
          CAPTURE(tied, every, stages, stage);
          CHECK(outcome.state == reference.state);
          CHECK(outcome.losses == reference.losses);
          CHECK(outcome.eval_loss == reference.eval_loss);
          CHECK(outcome.measured == outcome.planned);
        }
      }
    }
  }
}

TEST_CASE("groups far longer than the pipeline have the bits of no pipeline, with activations on every tier") {
  const models::Model model = make_toy(10, 12, 17, 5, false, false);
  using core::Tier;
  for (const int chunks : {2, 3}) {
    Setting s = setting(1, 8);
    s.overlap = true;
    const Outcome reference = run(model, s);
    for (const Tier activations : {Tier::device, Tier::host, Tier::nvme}) {
      s.placement = [activations](const runtime::Layout& layout) {
        return uniform(layout, Tier::device, Tier::device, Tier::device, Tier::device, activations, Tier::device);
      };
      CAPTURE(chunks, static_cast<int>(activations));
      const Outcome outcome = run_pipeline(model, s, ScheduleKind::interleaved, 2, chunks, 8);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.measured == outcome.planned);
      CHECK(outcome.measured_behind[0] == outcome.planned_behind[0]);
    }
  }
}

TEST_CASE("a stage gathers its weights for each use, for runs of microbatches through a chunk, or once a step") {
  const models::Model model = make_toy(10, 12, 17, 5, false, false);
  for (const int chunks : {1, 2}) {
    for (const ScheduleKind kind :
         {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
      if ((kind == ScheduleKind::interleaved) != (chunks > 1)) continue;
      const uint32_t microbatches = 12, group = 4;
      Setting s = setting(3, microbatches);
      s.ranks = 2, s.reuse_at_turn = false;  // of which the closed forms know nothing
      const std::string plain = run(model, s).state;
      uint64_t before = 0, gathered_before = 0;
      for (const GatheredFor longer : {GatheredFor::step, GatheredFor::run, GatheredFor::use}) {
        for (const bool overlap : {false, true}) {
          s.gathered_for = longer, s.overlap = overlap;
          CAPTURE(chunks, runtime::schedule_name(kind), static_cast<int>(longer), overlap);
          const Outcome outcome = run_pipeline(model, s, kind, 3, chunks, chunks > 1 ? static_cast<int>(group) : 0);
          CHECK(outcome.state == plain);
          CHECK(outcome.measured == outcome.planned);
          // These are bytes of the first stage: half of every unit comes from the other rank.
          uint64_t weights = outcome.plan.device().model_states[static_cast<size_t>(core::Category::weights)];
          const uint64_t times = longer == GatheredFor::step || (longer == GatheredFor::run && chunks == 1) ? 1
                                 : longer == GatheredFor::run ? 2 * microbatches / group
                                                              : 2 * microbatches;
          const uint64_t gathers = outcome.comm.at(runtime::OpKind::gather).bytes / static_cast<uint64_t>(s.steps);
          CHECK(gathers == times * weights);
          if (overlap) continue;
          const uint64_t gathered = outcome.plan.device().peak_bytes;
          CHECK(gathers >= before);
          if (gathered_before > 0) CHECK(gathered <= gathered_before);
          before = gathers, gathered_before = gathered;
        }
      }
    }
  }
}

TEST_CASE("a tied embedding has one hash over pipelines of any depth, near that of no pipeline", "[long]") {
  const models::Model model = make_toy(5, 12, 17, 5, true, false);
  unsigned turn = 0;
  for (const int ranks : {1, 2}) {
    for (const uint32_t microbatches : {1u, 3u, 8u}) {
      Setting s = setting(0, microbatches);
      s.ranks = ranks, s.steps = 20;
      const Outcome plain = run(model, s);
      std::optional<Outcome> first;
      for (const int stages : {2, 3, 4}) {
        for (int stage = 0; stage < 4; ++stage) {
          s.overlap = ++turn % 2 == 0;
          if (!full_tests() && turn % 3 == 0) continue;
          s.stage = stage;
          s.unit_elements = turn % 4 < 2 ? 100 : 1 << 20;
          const bool interleaved = turn % 2 == 1 && stages == 3 && microbatches == 3;  // six chunks of 7 blocks
          const Outcome outcome = run_pipeline(model, s,
                                               interleaved    ? ScheduleKind::interleaved
                                               : turn % 5 < 2 ? ScheduleKind::gpipe
                                                              : ScheduleKind::one_f_one_b,
                                               stages, interleaved ? 2 : 1);
          CAPTURE(ranks, microbatches, stages, stage, turn);
          if (!first) first = outcome;
          CHECK(outcome.state == first->state);
          CHECK(outcome.losses == first->losses);
          CHECK(outcome.norms == first->norms);
          CHECK(outcome.measured == outcome.planned);
          REQUIRE(outcome.weights.size() == plain.weights.size());
          CHECK(relative_l2(outcome.weights, plain.weights) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE("a stage holds the states of its own parameters, divided as ZeRO's stage says, and 1F1B's activations") {
  const models::Model model = make_toy(5, 24, 40, 4, false, false);
  using core::Category;
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    for (const int ranks : {1, 2, 4}) {
      for (int zero = 0; zero < 4; ++zero) {
        Setting s = setting(zero, 8);
        s.ranks = ranks, s.compute = type;
        s.schedule.stages = 3;
        const Pipeline pipeline(model, s, even_ends(model, 3));
        const std::vector<runtime::Compiled> stages = pipeline.compile(s);
        uint64_t parameters = 0;
        for (size_t i = 0; i < stages.size(); ++i) {
          uint64_t padded = 0, of_stage = 0;
          for (const optimizer::Unit& unit : stages[i].layout.units.units) {
            padded += static_cast<uint64_t>(unit.elements), of_stage += static_cast<uint64_t>(unit.parameters());
          }
          CHECK(of_stage == static_cast<uint64_t>(pipeline.layouts[i].model->parameters()));
          parameters += of_stage;
          const auto part = [&](int from) { return zero >= from ? padded / static_cast<uint64_t>(ranks) : padded; };
          const auto& states = stages[i].plan.device().model_states;
          const auto bytes = [&](Category category) { return states[static_cast<size_t>(category)]; };
          const uint64_t width = core::dtype_size(type);
          CAPTURE(core::dtype_name(type), ranks, zero, i);
          CHECK(bytes(Category::weights) == width * part(3));
          CHECK(bytes(Category::grads) == 4 * part(2));
          CHECK(bytes(Category::master) == (width == 2 ? 4 * part(1) : 0));
          CHECK(bytes(Category::moment1) == 4 * part(1));
          CHECK(bytes(Category::moment2) == 4 * part(1));
          for (const runtime::Buffer& buffer : stages[i].set.buffers) {
            if (buffer.name.starts_with("saved of")) CHECK(buffer.slots == 3 - i);
            if (buffer.name.starts_with("input of")) CHECK(buffer.slots == 3 - i + 1);
          }
        }
        CHECK(parameters == static_cast<uint64_t>(model.parameters()));
      }
    }
  }
}

TEST_CASE("what comes over each boundary is counted, and is a microbatch's outputs and their gradients") {
  const models::Model model = make_toy(10, 12, 17, 5, false, false);
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    for (const int chunks : {1, 2}) {
      Setting s = setting(2, 8);
      s.ranks = 2, s.compute = type;
      const Outcome outcome =
          run_pipeline(model, s, chunks == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved, 3, chunks);
      const uint64_t each = 5 * 12 * core::dtype_size(type);  // one microbatch of one row, one way
      REQUIRE(outcome.received.size() == 6);
      for (size_t rank = 0; rank < 6; ++rank) {
        // Inputs of all chunks but the model's first, gradients of the outputs of all but its last.
        const auto inputs = static_cast<uint64_t>(chunks - (rank < 2)),
                   gradients = static_cast<uint64_t>(chunks - (rank >= 4));
        CAPTURE(core::dtype_name(type), chunks, rank);
        CHECK(outcome.received[rank] == (inputs + gradients) * each * 8 * 3);
      }
    }
  }
}

TEST_CASE("a pipeline evaluates to the loss of no pipeline") {
  const models::Model model = make_toy(10, 12, 17, 5, false, false);
  for (int zero = 0; zero < 4; ++zero) {
    Setting s = setting(zero, 4);
    s.eval = true, s.ranks = 2;
    const Outcome reference = run(model, s);
    CHECK(run_pipeline(model, s, ScheduleKind::one_f_one_b, 3).eval_loss == reference.eval_loss);
    CHECK(run_pipeline(model, s, ScheduleKind::interleaved, 2, 2).eval_loss == reference.eval_loss);
  }
}

}  // namespace zrt::pipeline_test
