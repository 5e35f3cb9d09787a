// The order of operations is that of adafactor_kernels.cpp.
#include "core/cuda/launch.cuh"
#include "optimizer/cuda/adafactor.cuh"
#include "optimizer/pieces.h"
#include "optimizer/steps.h"
#include "optimizer/update_kernel.h"

namespace zrt::optimizer::cuda {
namespace {

constexpr int threads = 256;
constexpr int turns = 4;  // elements of a thread, `threads` apart

// The arrays from element `from` of the parameter on.
struct Arrays {
  float* master;
  float* exp_avg;  // null without momentum
  void* weight;
};

template <class Grad, class Weight>
__global__ void __launch_bounds__(threads) apply_kernel(AdafactorParams params, Matrix m, const Decision* decision,
                                                        Factors factors, const AdafactorScale* scale, Arrays arrays) {
  const bool skip = decision->skip != 0;
  const AdafactorScalars s = skip ? AdafactorScalars{} : adafactor_scalars(params, *scale);
  const float grad_scale = decision->grad_scale;
#pragma unroll
  for (int turn = 0; turn < turns; ++turn) {
    const int64_t i = (int64_t{blockIdx.x} * turns + turn) * threads + threadIdx.x;
    if (m.from + i >= m.to) return;
    if (skip) {  // the weights are as they were
      if constexpr (copies<Weight>) core::narrow(arrays.master[i], static_cast<Weight*>(arrays.weight)[i]);
      continue;
    }
    float u = direction_of<Grad>(m, factors, grad_scale, m.from + i) / s.clip * s.lr;
    if (arrays.exp_avg) {
      u = s.beta1 * arrays.exp_avg[i] + s.one_minus_beta1 * u;
      arrays.exp_avg[i] = u;
    }
    const float old = arrays.master[i];
    const float w = old - s.decay * old - u;
    arrays.master[i] = w;
    if constexpr (copies<Weight>) core::narrow(w, static_cast<Weight*>(arrays.weight)[i]);
  }
}

template <class Launch>
void for_copy(const UnitPart& part, const Launch& launch) {
  if (!part.weight) return launch(None{});
  for_type(part.weight_type, launch);
}

}  // namespace

void adafactor_step(const AdafactorParams& params, const Decision& decision, const UnitPart& part) {
  const AdafactorLayout layout = adafactor_layout(*part.unit);
  const AdafactorScale* scales = adafactor_work(part).scales;
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const AdafactorPlace& place = layout.places[p];
    const AdafactorRange range = adafactor_range(part, *place.param);
    if (range.empty()) continue;
    const int64_t at = place.param->offset + range.from - part.begin;
    const Arrays arrays{part.master + at, params.momentum ? part.states[0] + at : nullptr, weight_at(part, at)};
    const auto blocks = static_cast<unsigned>((range.to - range.from + threads * turns - 1) / (threads * turns));
    for_type(part.grad_type, [&]<class Grad>(Grad) {
      for_copy(part, [&]<class Weight>(Weight) {
        core::cuda::launch(apply_kernel<Grad, Weight>, blocks, threads, 0, params, make_matrix(part, place, range),
                           &decision, factors_of(part, place), scales + p, arrays);
      });
    });
  }
}

}  // namespace zrt::optimizer::cuda
