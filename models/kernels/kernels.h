// Kernels for what the matrix products do not cover: norms, GELU, SwiGLU, rotary positions, residual sums, dropout,
// embedding, loss, bias gradients. Raw pointers and sizes; a back end is the folder that implements them. `type` is
// that of every void pointer unless said otherwise and is fp32, bf16 or fp16; arithmetic is fp32, rounded once on
// writing. They run at core::place(): on the CPU spread over core::threads() threads, on a GPU queued on its stream,
// all pointers (but those named `frequencies`) being of device memory. Results do not depend on the number of threads
// or on timing.
#pragma once
#include <cstdint>
#include <optional>

#include "core/dtype.h"
#include "core/host_device.h"
#include "core/kernel.h"
#include "core/philox.h"
#include "models/kernels/logit_part.h"
#include "models/shape.h"

namespace zrt::models {

using core::DType;

// A dropout site. Element `index` (global, so that the layout of ranks does not matter) is kept when the uniform of
// its Philox word is at least `probability`, and then scaled by 1 / (1 - probability). Nothing is stored: backward
// draws again. probability 0 turns it off.
struct Dropout {
  core::RngKey key;
  float probability = 0;
};

// The place for a gradient, its element type, and whether to add to it. Without data nobody wants it: the parameter is
// frozen.
struct GradTarget {
  void* data = nullptr;
  DType type = DType::f32;
  bool accumulate = false;
};

// layer: y = gamma · (x - mean) / sqrt(variance + epsilon) + beta over rows of width C (Ba et al., 2016).
// rms: y = gamma · x / sqrt(mean of x² + epsilon) (Zhang and Sennrich, 2019); beta, mean and dbeta are not used.
// rms_from_one: the same with 1 + gamma in place of gamma, which so decays to a norm that scales nothing.
enum class NormKind : uint8_t { layer, rms, rms_from_one };
// Added to gamma.
constexpr float gamma_base(NormKind kind) {
  return kind == NormKind::rms_from_one ? 1.0f : 0.0f;
}

// Rows of C elements, one behind the other; or groups of them that begin `stride` elements apart, as the heads of a
// token do in a row of queries, keys and values.
struct NormRows {
  int64_t rows = 0, C = 0, group = 0, stride = 0;  // group 0: all are one
  ZRT_HD int64_t at(int64_t row) const {           // its first element
    return group == 0 ? row * C : row / group * stride + row % group * C;
  }
};

// x and y have the same rows; y may be x. mean and rstd (rows) may be null.
ZRT_KERNEL(norm, void(NormKind kind, DType type, const void* x, const void* gamma, const void* beta, void* y,
                      float* mean, float* rstd, float epsilon, const NormRows& rows));

// sum = a + dropout(b), where sum may be a or b, and y = the norm of sum: what add_residual() and norm() give, to the
// bit. y may be a.
ZRT_KERNEL(residual_norm, void(NormKind kind, DType type, const void* a, const void* b, const Dropout& dropout,
                               uint64_t first, void* sum, const void* gamma, const void* beta, void* y, float* mean,
                               float* rstd, float epsilon, int64_t rows, int64_t C));

// dx = [add +] the gradient of x, and the gradients of gamma and beta, all with the same rows. dx may be dy or add.
ZRT_KERNEL(norm_backward, void(NormKind kind, DType type, const void* x, const void* gamma, const void* dy,
                               const float* mean, const float* rstd, const void* add, void* dx, GradTarget dgamma,
                               GradTarget dbeta, const NormRows& rows, void* workspace));
ZRT_KERNEL(norm_backward_workspace, uint64_t(NormKind kind, int64_t rows, int64_t C));

// Sum of the rows of x (rows, n), which are `stride` elements apart.
ZRT_KERNEL(bias_gradient,
           void(DType type, const void* x, int64_t rows, int64_t n, int64_t stride, GradTarget grad, void* workspace));
ZRT_KERNEL(bias_gradient_workspace, uint64_t(int64_t rows, int64_t n));

// grad = or += the n elements of `sums`.
ZRT_KERNEL(write_gradient, void(const float* sums, int64_t n, GradTarget grad));

ZRT_KERNEL(gelu, void(DType type, const void* x, void* y, int64_t n));  // tanh approximation
// y = gelu(x) again and d = d · gelu'(x), in one pass; y may be null.
ZRT_KERNEL(gelu_backward, void(DType type, const void* x, void* d, void* y, int64_t n));
// The same by the error function (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016): y = x · Φ(x).
ZRT_KERNEL(gelu_erf, void(DType type, const void* x, void* y, int64_t n));
ZRT_KERNEL(gelu_erf_backward, void(DType type, const void* x, void* d, void* y, int64_t n));

// y = silu(gate) · up (Shazeer, "GLU Variants Improve Transformer", 2020).
ZRT_KERNEL(swiglu, void(DType type, const void* gate, const void* up, void* y, int64_t n));
// d, the gradient of y, becomes that of gate; d_up is written.
ZRT_KERNEL(swiglu_backward, void(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n));
// The same with gelu (the tanh approximation) in place of silu.
ZRT_KERNEL(geglu, void(DType type, const void* gate, const void* up, void* y, int64_t n));
ZRT_KERNEL(geglu_backward, void(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n));

// Rotary positions (Su et al., "RoFormer", 2021), in place: in each row of x (rows, stride) the first `heads` vectors
// of `width` elements are turned by the row's position, which is positions[row], or where that is null (row mod T) +
// `position`; element i of a vector's first half pairs with element i of its second half and turns by frequencies[i]
// (width / 2) radians per position. backward turns the other way, which is the gradient. Either way what comes out is
// `scale` times as long.
struct RotaryShape {
  int64_t rows = 1, T = 1, heads = 1, width = 2, stride = 2;
  float scale = 1;
  const int32_t* positions = nullptr;  // (rows), all 0 or more
};
ZRT_KERNEL(rotary, void(DType type, const RotaryShape& shape, const double* frequencies, int64_t position,
                        bool backward, void* x));

// y = a + dropout(b) over n elements, the first of which has index `first`; y may be a or b.
ZRT_KERNEL(add_residual,
           void(DType type, const void* a, const void* b, const Dropout& dropout, uint64_t first, void* y, int64_t n));
// y (rows, y_stride) = x (rows, x_stride), of each row the first n elements.
ZRT_KERNEL(copy_columns,
           void(DType type, const void* x, int64_t x_stride, void* y, int64_t y_stride, int64_t rows, int64_t n));
// y = x with the mask of `dropout` applied.
ZRT_KERNEL(apply_dropout, void(DType type, const void* x, const Dropout& dropout, uint64_t first, void* y, int64_t n));

// out (B, T, C) = dropout(wte[token] + wpe[position + t]); without positions (wpe and dwpe.data null) and dropout
// wte[token].
// first: index of out's first element.
// wte has V rows: those of tokens first_token … first_token + V - 1, where a vocabulary is cut among ranks. A token of
// another rank counts as a row of zeros. Where `tokens` is null, row r of wte is that of row r of out, which may then
// be wte: so positions and dropout come to rows that were summed over ranks.
// own: of the B · T rows those that out and d_out hold, where ranks share them, and `first` is the index of the first
// of these; nothing: all rows.
struct EmbeddingShape {
  int64_t B = 1, T = 1, C = 1, V = 1, positions = 1, first_token = 0;
  std::optional<Rows> own{};
  const int32_t* row_positions = nullptr;  // embed: (rows) of wpe; null: position + t
  int64_t rows() const { return own ? own->count : B * T; }
  int64_t first_row() const { return own ? own->first : 0; }
  // The first of the rows that stands at place t of its sample; beyond the last one there is none.
  int64_t first_at(int64_t t) const { return (t - first_row() % T + T) % T; }
};
ZRT_KERNEL(embed, void(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* wte, const void* wpe,
                       int64_t position, const Dropout& dropout, uint64_t first, void* out));
// Rows are grouped by token with a counting sort; each row of dwte is summed in order of position and rounded once.
// Rows no token names become zero unless dwte accumulates; likewise positions from T on in dwpe. Tokens of other ranks
// add to dwpe alone. Without dwte (data null) tokens and workspace may be null.
ZRT_KERNEL(embed_backward,
           void(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* d_out,
                const Dropout& dropout, uint64_t first, GradTarget dwte, GradTarget dwpe, void* workspace));
ZRT_KERNEL(embed_backward_workspace, uint64_t(const EmbeddingShape& shape));

// Rows behind the first `separator` of their sample have type 1, all others 0 (Devlin et al., "BERT", 2019).
ZRT_KERNEL(token_types, void(const int32_t* tokens, int64_t B, int64_t T, int32_t separator, int32_t* types));
// Row r of y (rows, C) += row numbers[r] of `table`.
ZRT_KERNEL(add_rows, void(DType type, const void* table, const int32_t* numbers, int64_t rows, int64_t C, void* y));

// losses[r] = cross entropy of logits (rows, V), whose rows are `stride` elements apart, with targets[r], in nats. With
// a gradient_scale other than 0 the logits become gradient_scale · (softmax - one_hot). A row with a negative target
// has loss and gradient zero. Where the logits went through soft_cap() (scaling.h) `cap` is its cap, else 0: the
// gradient is that of what went in.
ZRT_KERNEL(cross_entropy, void(DType type, void* logits, const int32_t* targets, int64_t rows, int64_t V,
                               int64_t stride, float cap, float gradient_scale, double* losses));
// The same where the vocabulary is cut among ranks: logits (rows, `columns` of rows `stride` apart) holds those of
// tokens first_token … first_token + V - 1 and then padding; V may be 0. logit_parts() writes parts (rows), which ranks
// exchange; cross_entropy_part() takes `parts` (ranks, rows), the same on every rank, and adds them up in the order of
// ranks, so that every rank finds the same loss. With a gradient_scale other than 0 the V logits become the gradient,
// and the padding zero. Of rows with a negative target parts are not read and written as those without a logit. One
// rank gives what cross_entropy() gives, to the bit.
ZRT_KERNEL(logit_parts, void(DType type, const void* logits, const int32_t* targets, int64_t first_token, int64_t rows,
                             int64_t V, int64_t stride, LogitPart* parts));
ZRT_KERNEL(cross_entropy_part, void(DType type, void* logits, const int32_t* targets, int64_t first_token, int64_t rows,
                                    int64_t V, int64_t columns, int64_t stride, const LogitPart* parts, int64_t ranks,
                                    float cap, float gradient_scale, double* losses));
// *sum = the sum of the rows' losses, in an order that depends on `rows` alone.
ZRT_KERNEL(sum_losses, void(const double* losses, int64_t rows, double* sum));

}  // namespace zrt::models
