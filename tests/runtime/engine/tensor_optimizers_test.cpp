// Optimizers that work on rows, columns and whole matrices, where every rank has a slice of them.
#include <map>

#include "catch.h"
#include "runtime/plan/comm_bytes.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::tensor_optimizers_test {

using namespace zrt;
using namespace zrt::testing;
using optimizer::OptimizerPtr;
using runtime::OpKind;
using runtime::ScheduleKind;

namespace {

enum Which : int { gpt2, qwen3 };

// Queries, keys and values are one matrix in GPT-2; Qwen3's feed-forward width has padding, and ranks add up parts of
// the gradients of its norms of heads.
models::Model model_of(int which, int tensor, int64_t layers = 2) {
  return make_small(which == gpt2 ? ModelType::gpt2 : ModelType::qwen3,
                    {.layers = layers, .hidden = 24, .heads = 6, .dropout = 0, .tied = false, .degrees = {tensor}});
}

Setting setting_of(const OptimizerPtr& optimizer, int tensor) {
  Setting s;
  s.optimizer = optimizer, s.tensor = tensor;
  s.accumulation = s.reduce_every = 2;
  s.micro_batch = 2, s.steps = 2;
  return s;
}

}  // namespace

// One in 7 of the combinations, a prime; all with ZRT_FULL_TESTS.
TEST_CASE("at one tensor degree Adafactor and Muon have one hash, whatever else is combined with them", "[long]") {
  unsigned number = 0;
  for (const OptimizerPtr& optimizer : {adafactor(false), adafactor(true), muon()}) {
    for (const int which : {gpt2, qwen3}) {
      for (const int tensor : {2, 3}) {
        for (const core::DType type : {core::DType::f32, core::DType::bf16, core::DType::f16}) {
          for (const int data : {1, 2}) {
            Setting s = setting_of(optimizer, tensor);
            s.compute = type, s.ranks = data;
            s.loss_scale.initial = type == core::DType::f16 ? 128 : 1;
            const models::Model model = model_of(which, tensor);
            std::optional<Outcome> reference;
            for (const int stages : {1, 2}) {
              for (int stage = 0; stage <= 3; ++stage) {
                for (const bool overlap : {false, true}) {
                  if (number++ % 7 != 0 && !full_tests()) continue;
                  if (!reference) reference = run(model, s);
                  Setting other = s;
                  other.stage = stage, other.overlap = overlap;
                  if (number % 2 == 0) other.unit_elements = 1000;
                  const Outcome outcome =
                      stages == 1 ? run(model, other) : run_pipeline(model, other, ScheduleKind::one_f_one_b, stages);
                  CAPTURE(optimizer->members(), which, tensor, core::dtype_name(type), data, stages, stage, overlap);
                  CHECK(outcome.state == reference->state);
                  CHECK(outcome.losses == reference->losses);
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

TEST_CASE("slices whose states lie on the host and on NVMe are updated with the same bits") {
  unsigned number = 0;
  for (const OptimizerPtr& optimizer : {adafactor(true), muon()}) {
    for (const int tensor : {2, 3}) {
      Setting s = setting_of(optimizer, tensor);
      s.ranks = 2;
      const models::Model model = model_of(qwen3, tensor);
      const Outcome reference = run(model, s);
      for (const NamedPlacing& placing : placings()) {
        if (number++ % 3 != 0 && !full_tests()) continue;
        Setting moved = s;
        moved.stage = static_cast<int>(number % 4), moved.overlap = number % 2 == 0;
        moved.placement = with_exchanges_on_the_device(placing.place);
        const Outcome outcome = run(model, moved);
        CAPTURE(optimizer->members(), tensor, placing.name, moved.stage);
        CHECK(outcome.state == reference.state);
        CHECK(outcome.measured == outcome.planned);
        CHECK(outcome.measured_behind == outcome.planned_behind);
      }
    }
  }
}

TEST_CASE("slices in MiCS groups come together inside each group, in groups of ranks over all of them") {
  for (const OptimizerPtr& optimizer : {adafactor(false), muon()}) {
    Setting s = setting_of(optimizer, 2);
    s.ranks = 4, s.accumulation = s.reduce_every = 1;
    const models::Model model = model_of(gpt2, 2);
    const Outcome plain = run(model, s);
    for (const bool replicated : {false, true}) {
      s.groups = {2, !replicated, false, replicated};
      std::string state;
      for (const int stage : {1, 3}) {
        if (replicated && stage != 3) continue;
        s.stage = stage;
        const Outcome outcome = run(model, s);
        CAPTURE(optimizer->members(), replicated, stage);
        if (state.empty()) state = outcome.state;
        CHECK(outcome.state == state);
        // Sums on two levels round elsewhere.
        CHECK(relative_l2(outcome.weights, plain.weights) < (optimizer->members() == 1 ? 1e-5 : 1e-3));
        CHECK(outcome.measured == outcome.planned);
      }
    }
  }
}

TEST_CASE("Muon's updates of slices as soon as gradients are there give the same bits where nothing is clipped") {
  for (const int stage : {0, 1, 2, 3}) {
    Setting s = setting_of(muon(), 2);
    s.ranks = 2, s.clip = 0, s.stage = stage, s.compute = core::DType::bf16;
    const models::Model model = model_of(qwen3, 2, 3);
    const Outcome reference = run(model, s);
    s.early_updates = true, s.overlap = stage % 2 == 0;
    const Outcome outcome = run(model, s);
    CAPTURE(stage);
    CHECK(outcome.state == reference.state);
    CHECK(outcome.measured == outcome.planned);
  }
}

TEST_CASE("updates of slices in the next step give the same bits with all optimizers, clipped ones too") {
  const std::vector<OptimizerPtr> optimizers{muon(), make_optimizer(optimizer::AdafactorParams{}),
                                             make_optimizer(optimizer::AdamParams{})};
  for (size_t o = 0; o < optimizers.size(); ++o) {
    for (const int stage : {0, 1, 2, 3}) {
      Setting s = setting_of(optimizers[o], 2);
      s.ranks = 2, s.clip = 0.1, s.stage = stage;
      const models::Model model = model_of(o == 1 ? gpt2 : qwen3, 2, 3);
      const Outcome reference = run(model, s);
      s.late_updates = true, s.overlap = stage % 2 == 0;
      const Outcome outcome = run(model, s);
      CAPTURE(o, stage);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.measured == outcome.planned);
    }
  }
}

TEST_CASE("Adafactor's weights do not depend on how many ranks share a tensor, to rounding", "[long]") {
  for (const int which : {gpt2, qwen3}) {
    for (const bool momentum : {false, true}) {
      Setting s = setting_of(adafactor(momentum), 1);
      s.steps = 20;
      const Outcome one = run(model_of(which, 1), s);
      for (const int tensor : {2, 3}) {
        s.tensor = tensor, s.stage = tensor - 1, s.ranks = 1;
        const Outcome shared = run(model_of(which, tensor), s);
        CAPTURE(which, momentum, tensor);
        std::vector<float> ours, theirs;
        for (const auto& [name, values] : one.tensors) {
          // The keys' part of an attention bias has no gradient but rounding, which Adafactor makes large.
          if (name.ends_with("c_attn.bias")) continue;
          const std::vector<float>& other = shared.tensors.at(name);
          INFO(name);
          CHECK(relative_l2(other, values) < 5e-5);
          theirs.insert(theirs.end(), values.begin(), values.end());
          ours.insert(ours.end(), other.begin(), other.end());
        }
        CHECK(relative_l2(ours, theirs) < 1e-5);
      }
    }
  }
}

TEST_CASE("Muon's losses do not depend on how many ranks share a matrix", "[long]") {
  for (const int which : {gpt2, qwen3}) {
    Setting s = setting_of(muon(), 1);
    s.steps = 20;
    const Outcome one = run(model_of(which, 1), s);
    for (const int tensor : {2, 3}) {
      s.tensor = tensor, s.stage = tensor;
      const Outcome shared = run(model_of(which, tensor), s);
      CAPTURE(which, tensor);
      for (size_t step = 0; step < one.losses.size(); ++step) {
        CHECK(shared.losses[step] == Approx(one.losses[step]).epsilon(1e-3));
      }
    }
  }
}

namespace {

// A matrix of doubles, row by row.
struct Matrix {
  size_t rows, columns;
  std::vector<double> values;
  double& at(size_t i, size_t j) { return values[i * columns + j]; }
  double at(size_t i, size_t j) const { return values[i * columns + j]; }
  Matrix transposed() const {
    Matrix t{columns, rows, std::vector<double>(values.size())};
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) t.at(j, i) = at(i, j);
    }
    return t;
  }
  Matrix times(const Matrix& other) const {
    Matrix product{rows, other.columns, std::vector<double>(rows * other.columns)};
    for (size_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < columns; ++k) {
        for (size_t j = 0; j < other.columns; ++j) product.at(i, j) += at(i, k) * other.at(k, j);
      }
    }
    return product;
  }
};

// X becomes a X + b (X Xᵀ) X + c (X Xᵀ)² X, five times.
Matrix orthogonalised(Matrix x, const optimizer::MuonParams& params) {
  double norm = 0;
  for (const double each : x.values) norm += each * each;
  for (double& each : x.values) each /= std::sqrt(norm);
  for (int step = 0; step < params.steps; ++step) {
    const Matrix gram = x.times(x.transposed()), cubic = gram.times(x), fifth = gram.times(cubic);
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] = static_cast<double>(params.a) * x.values[i] + static_cast<double>(params.b) * cubic.values[i] +
                    static_cast<double>(params.c) * fifth.values[i];
    }
  }
  return x;
}

// Returns what an unclipped step subtracts from each tensor, over its rate, at which the old weight hardly shows.
std::map<std::string, std::vector<double>> step_of(const models::Model& model, Setting s) {
  s.steps = 0;
  const Outcome before = run(model, s);
  s.steps = 1;
  const Outcome after = run(model, s);
  std::map<std::string, std::vector<double>> steps;
  for (const auto& [name, values] : after.tensors) {
    for (size_t i = 0; i < values.size(); ++i) {
      steps[name].push_back((static_cast<double>(before.tensors.at(name)[i]) - static_cast<double>(values[i])) /
                            s.rate);
    }
  }
  return steps;
}

}  // namespace

TEST_CASE("Muon's step of a matrix that ranks have slices of is that of fp64 arithmetic on the whole") {
  for (const int which : {gpt2, qwen3}) {
    for (const bool match : {false, true}) {
      optimizer::MuonParams params;
      params.match_adamw = match;
      Setting s = setting_of(make_optimizer(optimizer::SgdParams{}), 1);
      s.micro_batch = 16, s.rate = 1e5, s.clip = 0;  // more rows than a matrix has: gradients are of full rank
      const models::Model whole = model_of(which, 1);
      const auto gradients = step_of(whole, s);
      for (const int tensor : {1, 2, 3}) {
        s.optimizer = muon(params), s.tensor = tensor, s.ranks = 1, s.stage = 0;
        const auto steps = step_of(model_of(which, tensor), s);
        size_t matrices = 0;
        for (const auto& ref : whole.canonical_params()) {
          const models::Param& param = whole.blocks[ref.block]->params()[ref.index];
          if (param.shape.size() != 2 || whole.embeds(ref.block) || whole.predicts(ref.block)) continue;
          ++matrices;
          const auto rows = static_cast<size_t>(param.shape[0]), columns = static_cast<size_t>(param.shape[1]);
          const Matrix expected = orthogonalised({rows, columns, gradients.at(param.name)}, params);
          const double r = static_cast<double>(rows), c = static_cast<double>(columns);
          const double rate = match ? 0.2 * std::sqrt(std::max(r, c)) : std::sqrt(std::max(1.0, r / c));
          double difference = 0, size = 0;
          for (size_t i = 0; i < rows * columns; ++i) {
            difference += std::pow(steps.at(param.name)[i] - rate * expected.values[i], 2);
            size += std::pow(rate * expected.values[i], 2);
          }
          INFO(param.name << ", " << tensor << " ranks: " << std::sqrt(difference / size));
          CHECK(difference < 1e-8 * size);
        }
        CHECK(matrices == (which == gpt2 ? 8 : 14));
      }
    }
  }
}

TEST_CASE("what tensor-parallel ranks exchange for rows, columns and matrices is planned, and counted") {
  for (const OptimizerPtr& optimizer : {adafactor(false), muon()}) {
    for (const int data : {1, 2}) {
      for (const int stage : {0, 2}) {
        Setting s = setting_of(optimizer, 2);
        s.ranks = data, s.stage = stage;
        const models::Model model = model_of(qwen3, 2);
        const runtime::Layout layout = make_layout(model, s);
        const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"});
        const runtime::CommBytes planned = comm_bytes(compiled.set, compiled.set.program("step"), layout);
        const Outcome outcome = run(model, s);
        for (const OpKind kind : {OpKind::share_sums, OpKind::collect, OpKind::hand_out}) {
          const bool sums = kind == OpKind::share_sums;
          CAPTURE(data, stage, static_cast<int>(kind));
          CHECK(planned.contains(kind) == (sums == (optimizer->members() == 1)));
          if (!planned.contains(kind)) continue;
          CHECK(planned.at(kind) > 0);
          CHECK(outcome.comm.at(kind).bytes == 2 * planned.at(kind));
        }
      }
    }
  }
}

}  // namespace zrt::tensor_optimizers_test
