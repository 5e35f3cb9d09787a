#include "core/error.h"
#include "models/kernels/backend.h"

namespace zrt::models::cuda {

void norm(NormKind, DType, const void*, const void*, const void*, void*, float*, float*, float, int64_t, int64_t) {
  throw core::Error("norm: not on CUDA yet");
}
void norm_backward(NormKind, DType, const void*, const void*, const void*, const float*, const float*, const void*,
                   void*, GradTarget, GradTarget, int64_t, int64_t, void*) {
  throw core::Error("norm_backward: not on CUDA yet");
}
uint64_t norm_backward_workspace(NormKind, int64_t, int64_t) {
  throw core::Error("norm_backward_workspace: not on CUDA yet");
}
void bias_gradient(DType, const void*, int64_t, int64_t, GradTarget, void*) {
  throw core::Error("bias_gradient: not on CUDA yet");
}
uint64_t bias_gradient_workspace(int64_t, int64_t) {
  throw core::Error("bias_gradient_workspace: not on CUDA yet");
}
void gelu(DType, const void*, void*, int64_t) {
  throw core::Error("gelu: not on CUDA yet");
}
void gelu_backward(DType, const void*, void*, void*, int64_t) {
  throw core::Error("gelu_backward: not on CUDA yet");
}
void swiglu(DType, const void*, const void*, void*, int64_t) {
  throw core::Error("swiglu: not on CUDA yet");
}
void swiglu_backward(DType, const void*, const void*, void*, void*, int64_t) {
  throw core::Error("swiglu_backward: not on CUDA yet");
}
void rotary(DType, const RotaryShape&, const double*, int64_t, bool, void*) {
  throw core::Error("rotary: not on CUDA yet");
}
void add_residual(DType, const void*, const void*, const Dropout&, uint64_t, void*, int64_t) {
  throw core::Error("add_residual: not on CUDA yet");
}
void apply_dropout(DType, const void*, const Dropout&, uint64_t, void*, int64_t) {
  throw core::Error("apply_dropout: not on CUDA yet");
}
void embed(DType, const EmbeddingShape&, const int32_t*, const void*, const void*, int64_t, const Dropout&, uint64_t,
           void*) {
  throw core::Error("embed: not on CUDA yet");
}
void embed_backward(DType, const EmbeddingShape&, const int32_t*, const void*, const Dropout&, uint64_t, GradTarget,
                    GradTarget, void*) {
  throw core::Error("embed_backward: not on CUDA yet");
}
uint64_t embed_backward_workspace(const EmbeddingShape&) {
  throw core::Error("embed_backward_workspace: not on CUDA yet");
}
void cross_entropy(DType, void*, const int32_t*, int64_t, int64_t, float, double*) {
  throw core::Error("cross_entropy: not on CUDA yet");
}
void split_add(const float*, core::bf16*, uint16_t*, SumPart, bool, int64_t) {
  throw core::Error("split_add: not on CUDA yet");
}
void sum_losses(const double*, int64_t, double*) {
  throw core::Error("sum_losses: not on CUDA yet");
}
}  // namespace zrt::models::cuda
