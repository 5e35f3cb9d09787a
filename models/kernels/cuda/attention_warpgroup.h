// Attention by products of four warps together (warpgroup.cuh): dense, over samples of one document or several, without
// dropout, of heads of up to 128 elements in bf16 or fp16, but for widths in between that single warps have kernels
// for, on GPUs of compute capability 9.0.
#pragma once
#include "models/kernels/cuda/attention_args.cuh"

namespace zrt::models::cuda::warpgroup {

bool takes(const AttentionShape& s);  // on the device at hand
void forward(DType type, AttentionArgs a);
void backward(DType type, AttentionArgs a);

}  // namespace zrt::models::cuda::warpgroup
