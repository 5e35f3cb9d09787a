// Measures what blocks are made of: matrix products by size, causal attention by length, and the passes over
// activations between them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/arena.h"
#include "models/kernels/attention.h"
#include "models/kernels/gemm.h"
#include "runtime/bench/calibrate.h"

namespace zrt::runtime {
namespace {

using core::DType;
using models::GemmSpec;

// Buffers of all local ranks, handed out one behind the other.
class Buffers {
 public:
  Buffers(Rig& rig, uint64_t bytes) {
    for (int rank = 0; rank < rig.local(); ++rank) arenas_.push_back(rig.arena(rank, bytes));
  }
  std::byte* at(int rank, uint64_t offset = 0) { return arenas_[static_cast<size_t>(rank)]->data() + offset; }

 private:
  std::vector<std::unique_ptr<core::Arena>> arenas_;
};

uint64_t matrix_bytes(int64_t rows, int64_t columns, DType type) {
  return (static_cast<uint64_t>(rows * columns) * core::dtype_size(type) + 63) / 64 * 64;
}

// Asks for sizes as a rank's thread would.
void look_up(Rig& rig, const std::function<void()>& ask) {
  time_ranks(1, rig.threads(), [&](int) { rig.at(0, 0, ask); });
}

double gemm_seconds(Rig& rig, const GemmSpec& spec) {
  const uint64_t a = matrix_bytes(spec.M, spec.K, spec.a), b = matrix_bytes(spec.K, spec.N, spec.b),
                 c = matrix_bytes(spec.M, spec.N, spec.c);
  uint64_t workspace = 0;
  look_up(rig, [&] { workspace = models::find_gemm(spec).workspace_bytes(); });
  Buffers buffers(rig, a + b + c + workspace);
  return rig.seconds([&](int rank) {
    models::find_gemm(spec).run(buffers.at(rank), buffers.at(rank, a), buffers.at(rank, a + b), nullptr,
                                buffers.at(rank, a + b + c));
  });
}

// FLOP/s of the products between `width` and three times as much, as in a transformer's layer, forwards and for both
// gradients.
double gemm_rate(Rig& rig, DType type, int64_t width) {
  const int64_t rows = rig.effort().rows, wide = 3 * width;
  double seconds = 0;
  for (const auto& [in, out] : {std::pair{width, wide}, std::pair{wide, width}}) {
    const GemmSpec forward{rows, out, in, false, false, in, out, out, type, type, type};
    const GemmSpec input{rows, in, out, false, true, out, out, in, type, type, type};
    const GemmSpec weight{in, out, rows, true, false, in, out, out, type, type, type};
    for (const GemmSpec& spec : {forward, input, weight}) seconds += gemm_seconds(rig, spec);
  }
  return 12 * static_cast<double>(rows) * static_cast<double>(width) * static_cast<double>(wide) / seconds;
}

// FLOP/s forwards and backwards, counted as in ComputeRates.
std::array<double, 2> attention_rates(Rig& rig, DType type, int64_t T) {
  const models::AttentionShape shape{std::max<int64_t>(1, rig.effort().rows / T), T, 6, 6, 64, type};
  const uint64_t qkv = matrix_bytes(shape.B * T, shape.row(), type), out = matrix_bytes(shape.B * T, shape.C(), type),
                 lse = matrix_bytes(shape.B * T, shape.heads, DType::f32);
  uint64_t workspace = 0;
  look_up(rig, [&] {
    workspace = std::max(models::attention_forward_workspace(shape), models::attention_backward_workspace(shape));
  });
  Buffers buffers(rig, 2 * qkv + 2 * out + lse + workspace);
  const auto forward = [&](int rank) {
    models::attention_forward(shape, buffers.at(rank), buffers.at(rank, 2 * qkv),
                              reinterpret_cast<float*>(buffers.at(rank, 2 * qkv + 2 * out)), {}, 0,
                              buffers.at(rank, 2 * qkv + 2 * out + lse));
  };
  const auto backward = [&](int rank) {
    models::attention_backward(shape, buffers.at(rank), buffers.at(rank, 2 * qkv),
                               reinterpret_cast<float*>(buffers.at(rank, 2 * qkv + 2 * out)),
                               buffers.at(rank, 2 * qkv + out), buffers.at(rank, qkv), {}, 0,
                               buffers.at(rank, 2 * qkv + 2 * out + lse));
  };
  const double flops = 2 * static_cast<double>(shape.B * T * T * shape.C());
  const double forward_seconds = rig.seconds(forward);
  return {flops / forward_seconds, 2.5 * flops / rig.seconds(backward)};
}

// The passes of a GPT-2 layer of width C forwards and backwards: norms, GELU, residual sums and sums of biases.
double pass_rate(Rig& rig, DType type) {
  constexpr int64_t C = 768;
  const int64_t rows = rig.effort().rows;
  const uint64_t row = matrix_bytes(rows, C, type), statistics = matrix_bytes(rows, 2, DType::f32),
                 params = matrix_bytes(4, C, DType::f32);
  uint64_t workspace = 0;
  look_up(rig, [&] {
    workspace = std::max(models::norm_backward_workspace(models::NormKind::layer, rows, C),
                         models::bias_gradient_workspace(rows, 4 * C));
  });
  Buffers buffers(rig, 12 * row + statistics + 2 * params + workspace);
  const double seconds = rig.seconds([&](int rank) {
    std::byte *narrow = buffers.at(rank), *other = narrow + row, *third = other + row, *fourth = third + row,
              *wide = fourth + row, *activated = wide + 4 * row;
    auto* mean = reinterpret_cast<float*>(activated + 4 * row);
    float* deviation = mean + rows;
    std::byte *weights = activated + 4 * row + statistics, *grads = weights + params, *work = grads + params;
    const models::GradTarget grad{grads, type, false};
    for (int i = 0; i < 2; ++i) {
      models::norm(models::NormKind::layer, type, narrow, weights, weights, other, mean, deviation, 1e-5f, {rows, C});
      models::add_residual(type, narrow, other, {}, 0, third, rows * C);
    }
    models::gelu(type, wide, activated, rows * 4 * C);
    models::gelu_backward(type, wide, activated, wide, rows * 4 * C);
    for (int i = 0; i < 2; ++i) {
      models::norm(models::NormKind::layer, type, narrow, weights, weights, other, nullptr, nullptr, 1e-5f, {rows, C});
      models::norm_backward(models::NormKind::layer, type, narrow, weights, other, mean, deviation, third, fourth, grad,
                            grad, {rows, C}, work);
      models::bias_gradient(type, narrow, rows, C, C, grad, work);
    }
    models::bias_gradient(type, wide, rows, 4 * C, 4 * C, grad, work);
    models::bias_gradient(type, activated, rows, 3 * C, 3 * C, grad, work);
  });
  // Bytes are counted as block_cost() does: what enters and leaves the four products and the block, three times.
  return 3 * 18 * static_cast<double>(row) / seconds;
}

}  // namespace

MeasuredCompute measure_compute(Rig& rig, DType type) {
  std::map<int64_t, std::vector<double>> products, forward, backward;  // rates by size, one of each sweep
  std::vector<double> passes;
  const Effort& effort = rig.effort();
  for (int sweep = 1; sweep <= effort.sweeps; ++sweep) {
    const std::string name = fmt::format("{}, {} of {}", core::dtype_name(type), sweep, effort.sweeps);
    for (int64_t width = 32; width <= effort.largest_width; width *= 2) {
      rig.tell(fmt::format("{}: products of width {}", name, width));
      products[width].push_back(gemm_rate(rig, type, width));
    }
    for (int64_t length = 32; length <= effort.longest_sequence; length *= 2) {
      rig.tell(fmt::format("{}: attention over {} tokens", name, length));
      const auto [rate, backward_rate] = attention_rates(rig, type, length);
      forward[length].push_back(rate);
      backward[length].push_back(backward_rate);
    }
    rig.tell(name + ": norms and activation functions");
    passes.push_back(pass_rate(rig, type));
  }
  const auto points = [](const std::map<int64_t, std::vector<double>>& rates) {
    std::vector<Curve::Point> result;
    result.reserve(rates.size());
    for (const auto& [size, values] : rates) result.push_back({static_cast<double>(size), spread(values).median});
    return result;
  };
  return {points(products), points(forward), points(backward), spread(passes).median};
}

}  // namespace zrt::runtime
