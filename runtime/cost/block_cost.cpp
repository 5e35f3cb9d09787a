#include <algorithm>

#include "runtime/cost/cost.h"

namespace zrt::runtime {
namespace {

double as_double(int64_t x) {
  return static_cast<double>(x);
}

}  // namespace

BlockCost block_cost(const models::Block& block, const models::Shape& shape, bool last, const ComputeRates& rates,
                     double memory_bytes_per_second) {
  double products = 0, product_flops = 0, activations = 0;
  for (const models::GemmSpec& spec : block.products(shape)) {
    const double M = as_double(spec.M), N = as_double(spec.N), K = as_double(spec.K), flops = 2 * M * N * K;
    const double bytes = M * K * static_cast<double>(core::dtype_size(spec.a)) +
                         K * N * static_cast<double>(core::dtype_size(spec.b)) +
                         M * N * static_cast<double>(core::dtype_size(spec.c));
    products += std::max(rates.gemm_seconds(std::min({M, N, K}), flops), bytes / memory_bytes_per_second);
    product_flops += flops;
    // Of products forwards and for the gradient of the input: what goes in and what comes out are activations.
    if (!spec.trans_a) activations += M * K + M * N;
  }
  const double rows = as_double(shape.rows()), size = static_cast<double>(core::dtype_size(shape.type));
  const double stream = rows * as_double(block.output_width());  // elements that enter and leave the block
  const double pass =
      size * (product_flops > 0 ? activations / 2 + 2 * stream : 2 * stream) / rates.pass_bytes_per_second;
  const double attention = std::max(0.0, block.forward_flops(shape) - product_flops / 3);
  const double T = as_double(shape.T), peak = rates.peak_flops_per_second;
  const double attention_forward = attention / (peak * rates.attention_forward(T));
  const double attention_backward = 2.5 * attention / (peak * rates.attention_backward(T));
  // In training the last block makes its products, loss included, in its backward.
  if (last && shape.mode == models::Mode::train) {
    const double prepare = 2 * size * stream / rates.pass_bytes_per_second;
    return {prepare, products + attention_forward + attention_backward + 2 * pass};
  }
  return {products / 3 + attention_forward + pass, products * 2 / 3 + attention_backward + 2 * pass};
}

double share_of_pass(const models::Block& block, const models::Shape& shape, models::Parts parts, models::Half half) {
  const double whole = block.forward_flops(shape), run = block.forward_flops(shape, parts);
  if (whole == 0) return parts.first > 0 ? 0 : half == models::Half::both ? 1 : 0.5;
  const double share = run / whole;
  if (half == models::Half::both || run == 0) return share;
  const double attention = block.attention_flops(shape, parts), weights = run - attention;
  // Where backward makes what forward has left out, three products.
  const double of_weights = weights / ((block.anatomy().backward_only > 0 ? 3 : 2) * weights + 2.5 * attention);
  return share * (half == models::Half::weight ? of_weights : 1 - of_weights);
}

}  // namespace zrt::runtime
