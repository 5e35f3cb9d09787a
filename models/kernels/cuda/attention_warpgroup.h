// Attention by products of four warps together, and which shapes take it on the device at hand.
#pragma once
#include "models/kernels/cuda/attention_args.cuh"

namespace zrt::models::cuda {

bool takes_warpgroups(const AttentionShape& s);
void warpgroup_attention_forward(DType type, AttentionArgs a);
void warpgroup_attention_backward(DType type, AttentionArgs a);

}  // namespace zrt::models::cuda
