#include "core/cuda/launch.cuh"
#include "core/kernel_convert.h"
#include "core/weight_form.h"
#include "runtime/ops/expand.h"

namespace zrt::runtime::cuda {
namespace {

constexpr int threads = 256, together = 8;  // numbers of a thread, all of one block

template <class T>
__global__ void __launch_bounds__(threads) expand_kernel(core::Form form, const uint8_t* from, T* to, int64_t n) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x) * together;
  if (first >= n) return;
  const int64_t codes = core::weight_codes(form), at = first / core::weight_block;
  const uint8_t* block = from + at * (codes + 4);  // on 4 bytes, as the scale behind its codes
  const float scale = *reinterpret_cast<const float*>(block + codes);
  const auto i = static_cast<uint32_t>(first % core::weight_block);
#pragma unroll
  for (uint32_t k = 0; k < together; ++k) core::narrow(core::read_weight(form, block, i + k, scale), to[first + k]);
}

template <class T>
void run(core::Form form, const std::byte* from, std::byte* to, int64_t n) {
  const int64_t blocks = (n + threads * together - 1) / (threads * together);
  core::cuda::launch(expand_kernel<T>, static_cast<unsigned>(blocks), threads, 0, form,
                     reinterpret_cast<const uint8_t*>(from), reinterpret_cast<T*>(to), n);
}

}  // namespace

void expand_weights(core::Form form, const std::byte* from, core::DType type, std::byte* to, int64_t n) {
  if (n == 0) return;
  if (type == core::DType::bf16) return run<core::bf16>(form, from, to, n);
  if (type == core::DType::f16) return run<core::f16>(form, from, to, n);
  run<float>(form, from, to, n);
}

}  // namespace zrt::runtime::cuda
