#include "core/error.h"
#include "models/kernels/backend.h"

namespace zrt::models::cuda {

uint64_t attention_forward_workspace(const AttentionShape&) {
  throw core::Error("attention_forward_workspace: not on CUDA yet");
}
uint64_t attention_backward_workspace(const AttentionShape&) {
  throw core::Error("attention_backward_workspace: not on CUDA yet");
}
void attention_forward(const AttentionShape&, const void*, void*, float*, const Dropout&, uint64_t, std::byte*) {
  throw core::Error("attention_forward: not on CUDA yet");
}
void attention_backward(const AttentionShape&, const void*, const float*, const void*, void*, const Dropout&, uint64_t,
                        std::byte*) {
  throw core::Error("attention_backward: not on CUDA yet");
}
uint64_t attention_cache(const AttentionShape&) {
  throw core::Error("attention_cache: not on CUDA yet");
}
uint64_t attention_decode_workspace(const AttentionShape&) {
  throw core::Error("attention_decode_workspace: not on CUDA yet");
}
void attention_decode(const AttentionShape&, const void*, void*, int64_t, std::byte*, std::byte*) {
  throw core::Error("attention_decode: not on CUDA yet");
}
}  // namespace zrt::models::cuda
