// Ten AdamW steps of the real blocks, on the test's device, with the real optimizer on the host against PyTorch's loss
// curves.
#include <cmath>
#include <cstring>

#include "catch.h"
#include "core/device.h"
#include "optimizer/adam_update.h"
#include "optimizer/exact_sum.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"

namespace zrt::curve_test {

using namespace zrt::test;
using zrt::core::DType;
using zrt::models::Gpt2Config;
using zrt::models::LlamaConfig;

namespace {

// fp32 state of one tensor, padded with zeros to the 64 elements the kernels work in.
struct State {
  int64_t elements, padded;
  std::vector<float> master, moment1, moment2;
  explicit State(const std::vector<double>& values)
      : elements(static_cast<int64_t>(values.size())),
        padded((elements + 63) / 64 * 64),
        master(values.begin(), values.end()),
        moment1(padded),
        moment2(padded) {
    master.resize(padded);
  }
};

template <class Config>
class CurveRun {
 public:
  CurveRun(const GoldenCurve<Config>& golden, const zrt::models::Model& model, DType type, int64_t B, int64_t T,
           bool fp8 = false)
      : golden_(golden), type_(type), runner_(model, {.B = B, .T = T, .type = type, .grad_type = type, .fp8 = fp8}) {
    const ReferenceAdam& adam = golden.run.adam;
    params_.beta1 = static_cast<float>(adam.beta1);
    params_.beta2 = static_cast<float>(adam.beta2);
    params_.eps = static_cast<float>(adam.eps);
    params_.weight_decay = static_cast<float>(adam.weight_decay);
    for (const auto& [name, values] : recipe_weights(golden.config)) states_.emplace(name, State(values));
  }

  ReferenceStep step(int64_t number) {
    runner_.load(masters());
    runner_.forget_grads();
    const Batch batch = golden_.run.batch(number, 0, 0);
    const double loss = runner_.train(batch) / static_cast<double>(batch.tokens.size());

    const zrt::core::OnPlace on_host({zrt::core::DeviceKind::cpu, nullptr});
    std::map<std::string, GuardedBuffer> grads;
    zrt::optimizer::ExactSum squares;
    for (const auto& [name, state] : states_) {
      GuardedBuffer& grad = grads[name] = GuardedBuffer(state.padded * zrt::core::dtype_size(type_));
      std::memset(grad.data(), 0, grad.bytes());
      std::memcpy(grad.data(), runner_.grad(name).data(), runner_.grad(name).bytes());
      zrt::optimizer::add_squares(squares, state.padded, grad.data(), type_);
    }
    const double norm = std::sqrt(squares.value()), c = (norm + 1e-6) / golden_.run.clip;
    const double t = static_cast<double>(number + 1);
    const zrt::optimizer::AdamStep step{static_cast<float>(golden_.run.adam.lr), static_cast<float>(c > 1 ? 1 / c : 1),
                                        static_cast<float>(1 - std::pow(golden_.run.adam.beta1, t)),
                                        static_cast<float>(1 - std::pow(golden_.run.adam.beta2, t))};
    for (auto& [name, s] : states_)
      zrt::optimizer::adam_update(params_, step, s.padded, s.master.data(), s.moment1.data(), s.moment2.data(),
                                  grads.at(name).data(), type_, nullptr, DType::f32);
    return {loss, norm};
  }

  Tensors masters() const {
    Tensors tensors;
    for (const auto& [name, s] : states_)
      tensors[name] = std::vector<double>(s.master.begin(), s.master.begin() + s.elements);
    return tensors;
  }

 private:
  const GoldenCurve<Config>& golden_;
  DType type_;
  BlockRunner runner_;
  zrt::optimizer::AdamParams params_;
  std::map<std::string, State> states_;
};

template <class Config>
void check_curve(bool tied, const std::string& name, DType type, double tolerance) {
  const auto golden = golden_curve<Config>(tied, name);
  const zrt::models::Model model = make_model(golden.config);
  const Batch first = golden.run.batch(0, 0, 0);
  CurveRun<Config> run(golden, model, type, first.B, first.T);
  for (int64_t step = 0; step < golden.run.steps; ++step) {
    INFO(name << " step " << step);
    const ReferenceStep got = run.step(step), expected = golden.steps[step];
    CHECK(std::abs(got.loss - expected.loss) < tolerance * expected.loss);
    CHECK(std::abs(got.grad_norm - expected.grad_norm) < tolerance * expected.grad_norm);
  }
  const Tensors weights = run.masters();
  for (const auto& [tensor, norm] : golden.final_weight_norm) {
    INFO(tensor);
    CHECK(global_norm({{tensor, without_key_bias(tensor, weights.at(tensor))}}) == Approx(norm).epsilon(tolerance));
  }
}

Gpt2Config sixteens(const Gpt2Config&) {
  return {.layers = 1, .hidden = 64, .heads = 4, .sequence = 32, .vocab = 61};
}
LlamaConfig sixteens(const LlamaConfig&) {
  return {.layers = 1, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .sequence = 32, .vocab = 61, .tied = true};
}

template <class Config>
std::vector<double> losses_of(const GoldenCurve<Config>& curve, bool fp8) {
  const zrt::models::Model model = make_model(curve.config);
  const Batch first = curve.run.batch(0, 0, 0);
  CurveRun<Config> run(curve, model, DType::bf16, first.B, first.T, fp8);
  std::vector<double> losses;
  for (int64_t step = 0; step < curve.run.steps; ++step) losses.push_back(run.step(step).loss);
  return losses;
}

}  // namespace

TEMPLATE_TEST_CASE("ten fp32 steps follow PyTorch's loss curve", "", Gpt2Config, LlamaConfig) {
  check_curve<TestType>(GENERATE(true, false), "fp32", DType::f32, 1e-4);
}

TEMPLATE_TEST_CASE("ten bf16 steps with fp32 master weights follow PyTorch's loss curve", "", Gpt2Config, LlamaConfig) {
  check_curve<TestType>(GENERATE(true, false), "bf16", DType::bf16, 2e-2);
}

// Sizes are such that fp8 applies to every linear layer.
TEMPLATE_TEST_CASE("fifteen steps with fp8 products stay near those of bf16", "", Gpt2Config, LlamaConfig) {
  auto curve = golden_curve<TestType>(true, "bf16");
  curve.config = sixteens(curve.config);
  curve.run.steps = 15;
  curve.run.batch = [&](int64_t step, int64_t, int64_t) { return recipe_batch(curve.config, 2, 32, step); };
  const std::vector<double> plain = losses_of(curve, false), rounded = losses_of(curve, true);
  CHECK(plain.back() < 0.9 * plain.front());
  CHECK(plain != rounded);
  for (size_t step = 0; step < plain.size(); ++step) {
    INFO("step " << step);
    CHECK(rounded[step] == Approx(plain[step]).epsilon(0.03));
  }
}

}  // namespace zrt::curve_test
