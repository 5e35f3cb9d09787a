#include "core/cuda/backend.h"
#include "core/device.h"
#include "core/error.h"
#include "models/kernels/backend.h"

namespace zrt::models {
namespace {

const Backend& here() {
  return backend(core::place().device);
}

}  // namespace

const Backend& backend(core::DeviceKind device) {
  // Plans for a GPU ask for its kernels' workspaces where nothing was refused yet.
  if (device == core::DeviceKind::cuda && cuda::backend.norm == nullptr) {
    throw core::ConfigError(core::cuda::not_built);
  }
  return device == core::DeviceKind::cuda ? cuda::backend : cpu::backend;
}

void norm(NormKind kind, DType type, const void* x, const void* gamma, const void* beta, void* y, float* mean,
          float* rstd, float epsilon, const NormRows& rows) {
  here().norm(kind, type, x, gamma, beta, y, mean, rstd, epsilon, rows);
}

void residual_norm(NormKind kind, DType type, const void* a, const void* b, const Dropout& dropout, uint64_t first,
                   void* sum, const void* gamma, const void* beta, void* y, float* mean, float* rstd, float epsilon,
                   int64_t rows, int64_t C) {
  here().residual_norm(kind, type, a, b, dropout, first, sum, gamma, beta, y, mean, rstd, epsilon, rows, C);
}

void norm_backward(NormKind kind, DType type, const void* x, const void* gamma, const void* dy, const float* mean,
                   const float* rstd, const void* add, void* dx, GradTarget dgamma, GradTarget dbeta,
                   const NormRows& rows, void* workspace) {
  here().norm_backward(kind, type, x, gamma, dy, mean, rstd, add, dx, dgamma, dbeta, rows, workspace);
}

uint64_t norm_backward_workspace(NormKind kind, int64_t rows, int64_t C) {
  return here().norm_backward_workspace(kind, rows, C);
}

void bias_gradient(DType type, const void* x, int64_t rows, int64_t n, int64_t stride, GradTarget grad,
                   void* workspace) {
  here().bias_gradient(type, x, rows, n, stride, grad, workspace);
}

uint64_t bias_gradient_workspace(int64_t rows, int64_t n) {
  return here().bias_gradient_workspace(rows, n);
}

void gelu(DType type, const void* x, void* y, int64_t n) {
  here().gelu(type, x, y, n);
}

void write_gradient(const float* sums, int64_t n, GradTarget grad) {
  here().write_gradient(sums, n, grad);
}
void gelu_backward(DType type, const void* x, void* d, void* y, int64_t n) {
  here().gelu_backward(type, x, d, y, n);
}

void gelu_erf(DType type, const void* x, void* y, int64_t n) {
  here().gelu_erf(type, x, y, n);
}

void gelu_erf_backward(DType type, const void* x, void* d, void* y, int64_t n) {
  here().gelu_erf_backward(type, x, d, y, n);
}

void swiglu(DType type, const void* gate, const void* up, void* y, int64_t n) {
  here().swiglu(type, gate, up, y, n);
}

void swiglu_backward(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n) {
  here().swiglu_backward(type, gate, up, d, d_up, n);
}

void rotary(DType type, const RotaryShape& shape, const double* frequencies, int64_t position, bool backward, void* x) {
  here().rotary(type, shape, frequencies, position, backward, x);
}

void copy_columns(DType type, const void* x, int64_t x_stride, void* y, int64_t y_stride, int64_t rows, int64_t n) {
  here().copy_columns(type, x, x_stride, y, y_stride, rows, n);
}

void add_residual(DType type, const void* a, const void* b, const Dropout& dropout, uint64_t first, void* y,
                  int64_t n) {
  here().add_residual(type, a, b, dropout, first, y, n);
}

void apply_dropout(DType type, const void* x, const Dropout& dropout, uint64_t first, void* y, int64_t n) {
  here().apply_dropout(type, x, dropout, first, y, n);
}

void embed(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* wte, const void* wpe,
           int64_t position, const Dropout& dropout, uint64_t first, void* out) {
  here().embed(type, shape, tokens, wte, wpe, position, dropout, first, out);
}

void embed_backward(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* d_out,
                    const Dropout& dropout, uint64_t first, GradTarget dwte, GradTarget dwpe, void* workspace) {
  here().embed_backward(type, shape, tokens, d_out, dropout, first, dwte, dwpe, workspace);
}

uint64_t embed_backward_workspace(const EmbeddingShape& shape) {
  return here().embed_backward_workspace(shape);
}

void token_types(const int32_t* tokens, int64_t B, int64_t T, int32_t separator, int32_t* types) {
  here().token_types(tokens, B, T, separator, types);
}

void add_rows(DType type, const void* table, const int32_t* numbers, int64_t rows, int64_t C, void* y) {
  here().add_rows(type, table, numbers, rows, C, y);
}

void cross_entropy(DType type, void* logits, const int32_t* targets, int64_t rows, int64_t V, int64_t stride,
                   float gradient_scale, double* losses) {
  here().cross_entropy(type, logits, targets, rows, V, stride, gradient_scale, losses);
}

void logit_parts(DType type, const void* logits, const int32_t* targets, int64_t first_token, int64_t rows, int64_t V,
                 int64_t stride, LogitPart* parts) {
  here().logit_parts(type, logits, targets, first_token, rows, V, stride, parts);
}

void cross_entropy_part(DType type, void* logits, const int32_t* targets, int64_t first_token, int64_t rows, int64_t V,
                        int64_t columns, int64_t stride, const LogitPart* parts, int64_t ranks, float gradient_scale,
                        double* losses) {
  here().cross_entropy_part(type, logits, targets, first_token, rows, V, columns, stride, parts, ranks, gradient_scale,
                            losses);
}

void tanh_of(DType type, void* x, int64_t n) {
  here().tanh_of(type, x, n);
}

void tanh_backward(DType type, const void* y, void* d, int64_t n) {
  here().tanh_backward(type, y, d, n);
}

void order_loss(DType type, const void* logits, const OrderShape& shape, const int32_t* targets, double weight,
                float gradient_scale, double* losses, void* d) {
  here().order_loss(type, logits, shape, targets, weight, gradient_scale, losses, d);
}

void inverse_root_of_trace(const float* x, int64_t n, float least, float* scale) {
  here().inverse_root_of_trace(x, n, least, scale);
}

void scale_by(const float* x, const float* scale, int power, float* y, int64_t n) {
  here().scale_by(x, scale, power, y, n);
}

void scale_and_shift(const float* x, float scale, float shift, float* y, int64_t n) {
  here().scale_and_shift(x, scale, shift, y, n);
}

void split_add(const float* x, core::bf16* hi, uint16_t* lo, SumPart part, bool accumulate, int64_t n) {
  here().split_add(x, hi, lo, part, accumulate, n);
}

void cast(DType from_type, const void* from, DType to_type, void* to, int64_t n) {
  here().cast(from_type, from, to_type, to, n);
}

void round_stochastic(const float* x, core::bf16* y, const core::RngKey& key, uint64_t first, int64_t n) {
  here().round_stochastic(x, y, key, first, n);
}

void sum_losses(const double* losses, int64_t rows, double* sum) {
  here().sum_losses(losses, rows, sum);
}

uint64_t attention_forward_workspace(const AttentionShape& shape) {
  return here().attention_forward_workspace(shape);
}

uint64_t attention_backward_workspace(const AttentionShape& shape) {
  return here().attention_backward_workspace(shape);
}

void attention_forward(const AttentionShape& shape, const void* qkv, void* out, float* lse, const Dropout& dropout,
                       uint64_t first_sample, std::byte* workspace) {
  here().attention_forward(shape, qkv, out, lse, dropout, first_sample, workspace);
}

void attention_backward(const AttentionShape& shape, const void* qkv, const void* out, const float* lse,
                        const void* d_out, void* d_qkv, const Dropout& dropout, uint64_t first_sample,
                        std::byte* workspace) {
  here().attention_backward(shape, qkv, out, lse, d_out, d_qkv, dropout, first_sample, workspace);
}

uint64_t attention_cache(const AttentionShape& shape) {
  return here().attention_cache(shape);
}

uint64_t attention_decode_workspace(const AttentionShape& shape) {
  return here().attention_decode_workspace(shape);
}

void attention_decode(const AttentionShape& shape, const void* qkv, void* out, int64_t position, std::byte* cache,
                      std::byte* workspace) {
  here().attention_decode(shape, qkv, out, position, cache, workspace);
}

}  // namespace zrt::models
