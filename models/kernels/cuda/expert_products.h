// The products of up to 256 experts as one kernel.
#pragma once
#include "models/kernels/experts.h"

namespace zrt::models::cuda {

// C (M, N) = A (M, K) · B (K, N) of each expert:
//   forward: A and C lie in slots; B is the transposed weight (N, K)
//   input_gradient: the same, with B the weight (K, N)
//   weight_gradient: A and B are in slots, whose number is K; A is transposed
enum class ExpertRole : uint8_t { forward, input_gradient, weight_gradient };

// Kernels take it by value, which allows 4 KiB.
struct ExpertCall {
  static constexpr int most = 256;
  const void *a = nullptr, *b = nullptr;  // in slots
  void* c = nullptr;
  DType type = DType::f32, c_type = DType::f32;
  bool add = false;
  const int32_t *starts = nullptr, *counts = nullptr;  // of the first of the experts
  int experts = 0, M = 0, N = 0, K = 0;                // M, or K, is not of interest where it is a number of slots
  int64_t slots = 0;
  void* matrix[most] = {};  // the weight, or its gradient
  uint8_t accumulate[most] = {};

  // Returns the most tiles of size by size that there can be.
  int64_t tiles(ExpertRole role, int64_t size) const {
    const int64_t columns = (N + size - 1) / size;
    if (role == ExpertRole::weight_gradient) return experts * ((M + size - 1) / size) * columns;
    const int64_t used = slots / slot_grain < experts ? slots / slot_grain : experts;
    return (slots + used * (size - slot_grain)) / size * columns;
  }
};

// Any of bf16 and fp16 where rows of all matrices lie on 16 bytes.
void multiply_on_tensor_cores(ExpertRole role, const ExpertCall& call);

// The same by products of four warps together (warpgroup.cuh), on GPUs of compute capability 9.0.
namespace warpgroup {
bool takes(ExpertRole role, const ExpertCall& call);  // on the device at hand
void multiply_experts(ExpertRole role, const ExpertCall& call);
}  // namespace warpgroup

}  // namespace zrt::models::cuda
