#include <fmt/format.h>

#include "core/error.h"
#include "models/gpt2/blocks.h"

namespace zrt::models {
namespace {

void check_positive(const char* key, int64_t value) {
  if (value < 1) {
    throw core::ConfigError(
        fmt::format("model.{} is {}, but must be at least 1. Set it, or use a model.preset.", key, value));
  }
}

}  // namespace

void Gpt2Block::check_shape(const Shape& shape) const {
  const bool computes = shape.type == DType::f32 || shape.type == DType::bf16 || shape.type == DType::f16;
  const bool types = computes && (shape.grad_type == DType::f32 || shape.grad_type == shape.type);
  if (!types) {
    throw core::Error(fmt::format(
        "Block {} cannot compute in {} with gradients in {} on the CPU. Legal are fp32, bf16 and fp16, with gradients "
        "of the same type or in fp32.",
        name_, core::dtype_name(shape.type), core::dtype_name(shape.grad_type)));
  }
  if (shape.B < 1 || shape.T < 1 || shape.T > config_.sequence) {
    throw core::Error(fmt::format(
        "Block {} was given a batch of {} x {} tokens, but samples must be 1 to {} tokens long (model.sequence). "
        "Shorten the samples or raise model.sequence.",
        name_, shape.B, shape.T, config_.sequence));
  }
}

void Gpt2Block::check_tokens(const int32_t* tokens, int64_t count, int32_t lowest) const {
  for (int64_t i = 0; i < count; ++i) {
    if (tokens[i] < lowest || tokens[i] >= config_.vocab) {
      throw core::DataError(fmt::format(
          "Block {} met token {} at row {}, outside the vocabulary 0 to {}. The data was tokenized with another "
          "vocabulary: rebuild it, or raise model.vocab.",
          name_, tokens[i], i, config_.vocab - 1));
    }
  }
}

Dropout Gpt2Block::dropout(const Call& call, uint32_t site) const {
  Dropout dropout{call.rng, call.shape.mode == Mode::train ? config_.dropout : 0};
  dropout.key.tensor = site;
  return dropout;
}

uint64_t Gpt2Block::first_element(const Call& call) const {
  return call.first_sample * static_cast<uint64_t>(call.shape.T) * static_cast<uint64_t>(config_.hidden);
}

GradTarget Gpt2Block::grad(const Call& call, size_t index) {
  return {call.grads[index], call.shape.grad_type, call.accumulate[index] != 0};
}

Model make_gpt2(const Gpt2Config& config) {
  check_positive("layers", config.layers);
  check_positive("hidden", config.hidden);
  check_positive("heads", config.heads);
  check_positive("sequence", config.sequence);
  check_positive("vocab", config.vocab);
  if (config.hidden % config.heads != 0) {
    throw core::ConfigError(
        fmt::format("model.heads is {}, which does not divide model.hidden = {}. Choose a divisor of model.hidden; 64 "
                    "elements per head is usual.",
                    config.heads, config.hidden));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw core::ConfigError(fmt::format("model.dropout is {}, but must be at least 0 and below 1.", config.dropout));
  }
  Model model;
  model.type = "gpt2";
  model.hidden = config.hidden, model.sequence = config.sequence, model.vocab = config.vocab;
  model.layers = config.layers, model.tied = config.tied;
  model.blocks.push_back(make_gpt2_embedding(config));
  for (int64_t layer = 0; layer < config.layers; ++layer) model.blocks.push_back(make_gpt2_layer(config, layer));
  model.blocks.push_back(make_gpt2_head(config));
  return model;
}

}  // namespace zrt::models
