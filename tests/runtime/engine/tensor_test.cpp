// Ranks that share the work of blocks: the numbers of one rank to rounding, and the same bits whatever else is combined
// with them.
#include <map>

#include "catch.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/small_models.h"

namespace zrt::tensor_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;
using runtime::ScheduleKind;

namespace {

enum Which : int { gpt2, llama, qwen3, bert, megatron_bert, qwen2, gemma };

models::Model model_of(int which, const Setting& s, float dropout = 0.1f, bool tied = true, int64_t layers = 3) {
  return make_small(model_types[which],
                    {.layers = layers, .dropout = dropout, .tied = tied, .degrees = {s.tensor, s.rows}});
}

Setting setting_of(int tensor, bool rows = false) {
  Setting s;
  s.tensor = tensor, s.rows = rows;
  s.accumulation = s.reduce_every = 2;
  s.steps = 3;
  return s;
}

// Ranks that share blocks, and whether they share rows.
constexpr std::array<std::pair<int, bool>, 6> degrees{
    {{2, false}, {3, false}, {4, false}, {2, true}, {3, true}, {4, true}}};

// Its weights differ by no more than the gradients' rounding; others amplify it (tensor_numbers_test.cpp).
const optimizer::OptimizerPtr sgd = make_optimizer(optimizer::SgdParams{});

// The keys' part of an attention bias has no gradient but rounding.
std::vector<float> without_key_bias(const std::string& name, const std::vector<float>& values) {
  if (name.ends_with("self.key.bias")) return {};
  if (name.find("c_attn.bias") == std::string::npos) return values;
  const auto third = static_cast<std::ptrdiff_t>(values.size() / 3);
  std::vector<float> rest(values.begin(), values.begin() + third);
  rest.insert(rest.end(), values.end() - third, values.end());
  return rest;
}
std::vector<float> without_key_bias(const Outcome& outcome) {
  std::vector<float> all;
  for (const auto& [name, values] : outcome.tensors) {
    const std::vector<float> some = without_key_bias(name, values);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

TEST_CASE("ranks that share blocks train as one rank does, to rounding", "[long]") {
  for (const int which : {gpt2, llama, qwen3, bert, megatron_bert, qwen2, gemma}) {
    Setting s = setting_of(1);
    s.steps = 20, s.eval = true, s.optimizer = sgd, s.rate = 0.1;
    const Outcome one = run(model_of(which, s), s);
    for (const auto& [tensor, rows] : degrees) {
      s.tensor = tensor, s.rows = rows;
      const Outcome shared = run(model_of(which, s), s);
      CAPTURE(which, tensor, rows);
      CHECK(relative_l2(without_key_bias(shared), without_key_bias(one)) < 1e-5);
      for (const auto& [name, values] : one.tensors) {
        INFO(name);
        if (without_key_bias(name, values).empty()) continue;
        CHECK(relative_l2(without_key_bias(name, shared.tensors.at(name)), without_key_bias(name, values)) < 5e-5);
      }
      CHECK(shared.eval_loss == Approx(one.eval_loss).epsilon(1e-6));
      for (size_t step = 0; step < one.losses.size(); ++step) {
        CHECK(shared.losses[step] == Approx(one.losses[step]).epsilon(1e-5));
        CHECK(shared.norms[step] == Approx(one.norms[step]).epsilon(1e-4));
      }
      CHECK(shared.planned == shared.measured);
    }
  }
}

TEST_CASE("a rank receives 8 b s h (t - 1) / t elements per layer, sharing rows 10, with full recomputation 10 and 11",
          "[long]") {
  for (const int which : {gpt2, llama, qwen3, bert, megatron_bert, gemma}) {
    for (const auto& [tensor, rows] : degrees) {
      for (const Recompute how : {Recompute::never, Recompute::none, Recompute::selective, Recompute::full}) {
        Setting s = setting_of(tensor, rows);
        s.micro_batch = 2, s.steps = 1;
        s.recompute = {how};
        const auto received = [&](int64_t layers) {
          const Outcome outcome = run(model_of(which, s, 0, true, layers), s);
          return outcome.comm.at(runtime::OpKind::exchange).elements;
        };
        const bool again = how == Recompute::full;
        const uint64_t activations = 2 * 12 * 48, ranks = static_cast<uint64_t>(tensor);
        // A norm behind the MLP reads what the projection made, which so is computed and brought together again.
        const uint64_t behind = which == gemma && again ? 1 : 0;
        const uint64_t times = rows ? (again ? 11 : 10) + behind : (again ? 10 : 8) + 2 * behind;
        CAPTURE(which, tensor, rows, static_cast<int>(how));
        CHECK(received(3) - received(2) == s.accumulation * times * activations * (ranks - 1) / ranks);
      }
    }
  }
}

TEST_CASE(
    "between stages each rank receives its share of b s h elements, and gathers the others where rows are whole") {
  for (const int which : {gpt2, llama}) {
    for (const auto& [tensor, rows] : degrees) {
      Setting s = setting_of(tensor, rows);
      s.accumulation = s.reduce_every = 3, s.steps = 1, s.micro_batch = 1;
      const models::Model model = model_of(which, s, 0, false);
      const Outcome staged = run_pipeline(model, s, ScheduleKind::one_f_one_b, 2);
      const uint64_t activations = 12 * 48, ranks = static_cast<uint64_t>(tensor);
      CAPTURE(which, tensor, rows);
      for (int r = 0; r < 2 * tensor; ++r) {
        CHECK(staged.received[static_cast<size_t>(r)] == s.accumulation * activations * 4 / ranks);
      }
      const auto gathered = staged.comm.find(runtime::OpKind::gather_received);
      const uint64_t elements = gathered == staged.comm.end() ? 0 : gathered->second.bytes / 4;
      CHECK(elements == (rows ? 0 : s.accumulation * activations * (ranks - 1) / ranks));
    }
  }
}

TEST_CASE("ranks that share a tied embedding of two stages train as those of one stage, to rounding", "[long]") {
  for (const auto& [tensor, rows] : degrees) {
    if (tensor == 4 && !full_tests()) continue;
    Setting s = setting_of(tensor, rows);
    s.steps = 20, s.optimizer = sgd, s.rate = 0.1, s.accumulation = s.reduce_every = 4, s.micro_batch = 1,
    s.eval = true;
    const models::Model model = model_of(gpt2, s);
    const Outcome plain = run(model, s);
    std::string state;
    for (int stage = 0; stage <= 3; ++stage) {
      s.stage = stage, s.ranks = 1;
      const Outcome staged = run_pipeline(model, s, ScheduleKind::one_f_one_b, 2);
      CAPTURE(tensor, rows, stage);
      if (state.empty()) state = staged.state;
      CHECK(staged.state == state);
      CHECK(relative_l2(without_key_bias(staged), without_key_bias(plain)) < 1e-5);
      CHECK(staged.eval_loss == Approx(plain.eval_loss).epsilon(1e-6));
    }
  }
}

TEST_CASE("ranks that share blocks keep states and activations on the host and on NVMe with the same bits") {
  for (const auto& [which, rows] : {std::pair{gpt2, false},
                                    {llama, true},
                                    {qwen3, false},
                                    {gpt2, true},
                                    {bert, true},
                                    {qwen2, true},
                                    {gemma, true}}) {
    Setting s = setting_of(which == llama ? 3 : 2, rows);
    s.micro_batch = 1, s.ranks = 2;
    const models::Model model = model_of(which, s);
    const Outcome plain = run(model, s);
    using core::Tier;
    for (const Tier tier : {Tier::host, Tier::nvme}) {
      for (const Tier update : {Tier::device, Tier::host}) {
        for (const auto* order : {runtime::MicrobatchOrder::microbatch_major, runtime::MicrobatchOrder::layer_major}) {
          for (const bool overlap : {false, true}) {
            Setting moved = s;
            moved.stage = 3, moved.order = order, moved.overlap = overlap;
            moved.placement = [&](const runtime::Layout& layout) {
              return uniform(layout, tier, tier, tier, tier, tier, update);
            };
            const Outcome outcome = run(model, moved);
            CAPTURE(which, rows, static_cast<int>(tier), static_cast<int>(update), overlap);
            CHECK(outcome.state == plain.state);
            CHECK(outcome.measured == outcome.planned);
            CHECK(outcome.measured_behind == outcome.planned_behind);
          }
        }
      }
    }
  }
}

// Three stages, so that other microbatches' forwards come between a backward and its gradients of weights.
TEST_CASE("ranks that share blocks whose gradients of weights come later have the bits of one stage") {
  for (const auto& [which, rows] : {std::pair{gpt2, false},
                                    {llama, true},
                                    {qwen3, true},
                                    {bert, true},
                                    {megatron_bert, false},
                                    {qwen2, false},
                                    {gemma, true}}) {
    for (const uint32_t reduce_every : {2u, 12u}) {
      Setting s = setting_of(2, rows);
      s.accumulation = 12, s.reduce_every = reduce_every, s.micro_batch = 1, s.steps = 2, s.overlap = true;
      const models::Model model = model_of(which, s, 0.1f, false, 4);
      const Outcome plain = run(model, s);
      for (const int stage : {0, 3}) {
        for (const Recompute how : {Recompute::never, Recompute::none, Recompute::full}) {
          s.stage = stage, s.recompute = {how};
          const Outcome outcome = run_pipeline(model, s, ScheduleKind::zb_h1, 3);
          CAPTURE(which, rows, reduce_every, stage, static_cast<int>(how));
          CHECK(outcome.state == plain.state);
          CHECK(outcome.losses == plain.losses);
          CHECK(outcome.measured == outcome.planned);
        }
      }
    }
  }
}

TEST_CASE("ranks that share the blocks of stages keep states and activations elsewhere with the same bits") {
  for (const auto& [which, rows] :
       {std::pair{gpt2, false}, {llama, false}, {qwen3, true}, {bert, false}, {gemma, true}}) {
    Setting s = setting_of(2, rows);
    s.micro_batch = 1, s.stage = 1, s.overlap = true;
    const models::Model model = model_of(which, s, 0.1f, false);
    const Outcome plain = run_pipeline(model, s, ScheduleKind::one_f_one_b, 2);
    for (const core::Tier tier : {core::Tier::host, core::Tier::nvme}) {
      for (const Recompute how : {Recompute::never, Recompute::none, Recompute::full}) {
        for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
          Setting moved = s;
          moved.recompute = {how};
          moved.placement = [&](const runtime::Layout& layout) {
            return uniform(layout, tier, tier, tier, tier, tier, core::Tier::device);
          };
          const Outcome outcome = run_pipeline(model, moved, kind, 2, kind == ScheduleKind::interleaved ? 2 : 1);
          CAPTURE(which, rows, static_cast<int>(tier), static_cast<int>(how), static_cast<int>(kind));
          CHECK(outcome.state == plain.state);
          CHECK(outcome.measured == outcome.planned);
        }
      }
    }
  }
}

// One in 31 of the combinations, a prime, so that each value of each factor comes; all with ZRT_FULL_TESTS.
TEST_CASE("at one tensor degree nothing else changes a bit", "[long]") {
  constexpr std::array types{core::DType::f32, core::DType::bf16, core::DType::f16};
  std::map<std::tuple<int, int, bool, int, int, uint32_t>, Outcome> references;
  unsigned number = 0;
  for (const int which : {gpt2, llama, qwen3, bert, megatron_bert, qwen2, gemma}) {
    for (const auto& [tensor, rows] : degrees) {
      for (int type = 0; type < 3; ++type) {
        for (const int data : {1, 2}) {
          for (const uint32_t reduce_every : {1u, 4u}) {
            for (const int stages : {1, 2}) {
              for (int stage = 0; stage <= 3; ++stage) {
                for (const Recompute how : {Recompute::never, Recompute::none, Recompute::selective, Recompute::full}) {
                  for (const bool overlap : {false, true}) {
                    if (tensor * data * stages > 8 || (number++ % 31 != 0 && !full_tests())) continue;
                    Setting s = setting_of(tensor, rows);
                    s.accumulation = 4, s.reduce_every = reduce_every, s.micro_batch = 1, s.steps = 2;
                    s.ranks = data, s.compute = types[static_cast<size_t>(type)];
                    s.loss_scale.initial = s.compute == core::DType::f16 ? 128 : 1;
                    const models::Model model = model_of(which, s, 0.1f, false);
                    const auto [reference, inserted] =
                        references.try_emplace({which, tensor, rows, type, data, reduce_every}, Outcome{});
                    if (inserted) reference->second = run(model, s);
                    s.stage = stage, s.recompute = {how}, s.overlap = overlap;
                    const ScheduleKind kind =
                        std::array{ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::interleaved,
                                   ScheduleKind::zb_h1}[number / 62 % 4];
                    const int chunks = kind == ScheduleKind::interleaved ? 2 : 1;
                    const Outcome outcome = stages == 1 ? run(model, s) : run_pipeline(model, s, kind, stages, chunks);
                    CAPTURE(which, tensor, rows, core::dtype_name(s.compute), data, reduce_every, stages, stage,
                            static_cast<int>(how), overlap, static_cast<int>(kind));
                    CHECK(outcome.state == reference->second.state);
                    CHECK(outcome.losses == reference->second.losses);
                    CHECK(outcome.norms == reference->second.norms);
                    CHECK(outcome.measured == outcome.planned);
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace zrt::tensor_test
