#include <algorithm>

#include "runtime/cost/cost.h"

namespace zrt::runtime {
namespace {

double as_double(int64_t x) {
  return static_cast<double>(x);
}

// One kernel, which keeps scores to itself and makes them again for backward.
BlockCost fused_attention(double flops, double length, const ComputeRates& rates) {
  const double peak = rates.peak_flops_per_second;
  return {flops / (peak * rates.attention_forward(length)), 2.5 * flops / (peak * rates.attention_backward(length))};
}

// Products of whole squares, causal or not, and passes over what they leave in memory.
BlockCost unfused_attention(const models::Scores& scores, const ComputeRates& rates, const Cluster& cluster) {
  if (scores.heads == 0) return {};
  const double heads = as_double(scores.heads), length = as_double(scores.length), width = as_double(scores.width);
  const double square = rates.gemm_seconds(length, length, width, heads);
  const double narrow = rates.gemm_seconds(length, width, length, heads);
  const double pass = heads * length * length / cluster.memory_bytes_per_second;
  return {square + narrow + cluster.software.score_bytes_forward * pass,
          square + 3 * narrow + cluster.software.score_bytes_backward * pass};
}

}  // namespace

BlockCost block_cost(const models::Block& block, const models::Shape& shape, bool last, const Cluster& cluster) {
  const ComputeRates& rates = cluster.rates(shape.type);
  double products = 0, product_flops = 0, activations = 0;
  for (const models::GemmSpec& spec : block.products(shape)) {
    const double M = as_double(spec.M), N = as_double(spec.N), K = as_double(spec.K), flops = 2 * M * N * K;
    const double bytes = M * K * static_cast<double>(core::dtype_size(spec.a)) +
                         K * N * static_cast<double>(core::dtype_size(spec.b)) +
                         M * N * static_cast<double>(core::dtype_size(spec.c));
    products += std::max(rates.gemm_seconds(M, N, K), bytes / cluster.memory_bytes_per_second);
    product_flops += flops;
    // Products forwards and for the gradient of the input take activations in and give activations out.
    if (!spec.trans_a) activations += M * K + M * N;
  }
  const double rows = as_double(shape.rows()), size = static_cast<double>(core::dtype_size(shape.type));
  const double stream = rows * as_double(block.output_width());  // elements that enter and leave the block
  const double pass =
      size * (product_flops > 0 ? activations / 2 + 2 * stream : 2 * stream) / rates.pass_bytes_per_second;
  const auto [attention_forward, attention_backward] =
      cluster.software.score_bytes_forward > 0
          ? unfused_attention(block.scores(shape), rates, cluster)
          : fused_attention(std::max(0.0, block.forward_flops(shape) - product_flops / 3), as_double(shape.T), rates);
  // In training the last block makes its products, loss included, in its backward.
  if (last && shape.mode == models::Mode::train) {
    const double prepare = 2 * size * stream / rates.pass_bytes_per_second;
    return {prepare, products + attention_forward + attention_backward + 2 * pass};
  }
  // Outputs that are kept need not be made again: an input less is read for them, and they are written once.
  double again = 0;
  if (shape.keeps_outputs) {
    models::Shape without = shape;
    without.keeps_outputs = false;
    const uint64_t outputs = models::lay_out_saved(block, shape, models::all_parts) -
                             models::lay_out_saved(block, without, models::all_parts);
    again = std::min(pass, 2 * static_cast<double>(outputs) / rates.pass_bytes_per_second);
  }
  return {products / 3 + attention_forward + pass, products * 2 / 3 + attention_backward + 2 * pass - again};
}

double share_of_pass(const models::Block& block, const models::Shape& shape, models::Parts parts, models::Half half) {
  const double whole = block.forward_flops(shape), run = block.forward_flops(shape, parts);
  if (whole == 0) return parts.first > 0 ? 0 : half == models::Half::both ? 1 : 0.5;
  const double share = run / whole;
  if (half == models::Half::both || run == 0) return share;
  const double attention = block.attention_flops(shape, parts), weights = run - attention;
  // Backward has three products where it makes what forward has left out.
  const double of_weights = weights / ((block.anatomy().backward_only > 0 ? 3 : 2) * weights + 2.5 * attention);
  return share * (half == models::Half::weight ? of_weights : 1 - of_weights);
}

}  // namespace zrt::runtime
