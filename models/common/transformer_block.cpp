#include "models/common/transformer_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/device.h"
#include "core/error.h"

namespace zrt::models {

void TransformerBlock::check_shape(const Shape& shape) const {
  const bool computes = shape.type == DType::f32 || shape.type == DType::bf16 || shape.type == DType::f16;
  if (!computes || (shape.grad_type != DType::f32 && shape.grad_type != shape.type)) {
    throw core::Error(fmt::format(
        "Block {} cannot compute in {} with gradients in {} on the CPU. Legal are fp32, bf16 and fp16, with gradients "
        "of the same type or in fp32.",
        name_, core::dtype_name(shape.type), core::dtype_name(shape.grad_type)));
  }
  if (shape.B < 1 || shape.T < 1 || shape.T > sizes_.sequence) {
    throw core::Error(fmt::format(
        "Block {} was given a batch of {} x {} tokens, but samples must be 1 to {} tokens long (model.sequence). "
        "Shorten the samples or raise model.sequence.",
        name_, shape.B, shape.T, sizes_.sequence));
  }
}

void TransformerBlock::check_tokens(const int32_t* tokens, int64_t count, int32_t lowest) const {
  if (core::place().device != core::DeviceKind::cpu) return;  // checked on their way there
  for (int64_t i = 0; i < count; ++i) {
    if (tokens[i] < lowest || tokens[i] >= sizes_.vocab) {
      throw core::DataError(fmt::format(
          "Block {} met token {} at row {}, outside the vocabulary 0 to {}. The data was tokenized with another "
          "vocabulary: rebuild it, or raise model.vocab.",
          name_, tokens[i], i, sizes_.vocab - 1));
    }
  }
}

Dropout TransformerBlock::dropout(const Call& call, uint32_t site) const {
  Dropout dropout{call.rng, call.shape.mode == Mode::train ? sizes_.dropout : 0};
  dropout.key.tensor = site;
  return dropout;
}

Rows TransformerBlock::own_rows(const Call& call) const {
  const int64_t all = call.shape.rows(), share = row_share(call.shape);
  if (!shares_rows()) return {0, all};
  const int64_t first = std::min(call.tensor_rank * share, all);
  return {first, std::min(share, all - first)};
}

uint64_t TransformerBlock::first_element(const Call& call) const {
  const uint64_t row =
      call.first_sample * static_cast<uint64_t>(call.shape.T) + static_cast<uint64_t>(own_rows(call).first);
  return row * static_cast<uint64_t>(sizes_.hidden);
}

void check_positive(const char* key, int64_t value) {
  if (value < 1) {
    throw core::ConfigError(
        fmt::format("model.{} is {}, but must be at least 1. Set it, or use a model.preset.", key, value));
  }
}

void check_heads(int64_t heads, int64_t hidden) {
  if (hidden % heads != 0) {
    throw core::ConfigError(
        fmt::format("model.heads is {}, which does not divide model.hidden = {}. Choose a divisor of model.hidden; 64 "
                    "elements per head is usual.",
                    heads, hidden));
  }
}

void check_tensor(int tensor, const std::vector<Heads>& all) {
  const std::string uneven = uneven_heads(tensor, all);
  if (!uneven.empty()) throw core::ConfigError(fmt::format("parallel.tensor is {}, which {}", tensor, uneven));
}

}  // namespace zrt::models
