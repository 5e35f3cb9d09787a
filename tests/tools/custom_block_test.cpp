// The block of the example project: its backward against finite differences of its forward.
#include <cmath>
#include <cstring>
#include <memory>

#include "core/philox.h"
#include "tests/catch.h"
#include "tools/examples/custom_block/mean_block.h"

namespace zrt::custom_block_test {

using namespace zrt::models;

namespace {

constexpr int64_t B = 2, T = 5, C = 16, rows = B * T;

using Values = std::vector<float>;

Values random_values(size_t count, uint32_t stream) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(zrt::core::random_word({7, stream, 0}, i)) / 4294967296.0f - 0.5f;
  }
  return values;
}

struct Buffer {
  explicit Buffer(uint64_t bytes) : data(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64))) {}
  ~Buffer() { std::free(data); }
  std::byte* data;
};

// One block with everything it needs; loss is the inner product of its output with d_output.
struct Setting {
  MeanBlock block{0, C};
  Shape shape{B, T, DType::f32, DType::f32, Mode::train};
  Buffer saved{block.saved_bytes(shape, 0)}, workspace{block.forward_workspace_bytes(shape)};
  Values x = random_values(rows * C, 1), d_output = random_values(rows * C, 2), y = Values(rows * C), dx = y;
  Values weights[2] = {random_values(C * C, 3), random_values(C* C, 4)};
  Values grads[2] = {Values(C * C), Values(C* C, 1)};
  uint8_t accumulate[2] = {0, 1};
  const void* weight_pointers[2] = {weights[0].data(), weights[1].data()};
  void* grad_pointers[2] = {grads[0].data(), grads[1].data()};

  Call call() {
    Call call;
    call.shape = shape;
    call.input = x.data(), call.output = y.data();
    call.d_output = d_output.data(), call.d_input = dx.data();
    call.saved = {&saved.data, 1}, call.workspace = workspace.data;
    call.weights = weight_pointers, call.grads = grad_pointers, call.accumulate = accumulate;
    return call;
  }
  double loss() {
    block.forward(call());
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * static_cast<double>(d_output[i]);
    return sum;
  }
  void check(Values& values, const Values& gradient, float offset) {
    for (size_t i = 0; i < values.size(); i += 3) {
      const float kept = values[i], h = 1e-2f;
      values[i] = kept + h;
      const double above = loss();
      values[i] = kept - h;
      const double below = loss();
      values[i] = kept;
      CHECK(static_cast<double>(gradient[i] - offset) == Approx((above - below) / (2.0 * 1e-2)).margin(1e-3));
    }
  }
};

}  // namespace

TEST_CASE("the example block's gradients are those of its forward, written and added") {
  Setting setting;
  setting.loss();
  setting.block.backward(setting.call());
  const Values dx = setting.dx, du = setting.grads[0], dg = setting.grads[1];
  setting.check(setting.x, dx, 0);
  setting.check(setting.weights[0], du, 0);
  setting.check(setting.weights[1], dg, 1);
}

}  // namespace zrt::custom_block_test
