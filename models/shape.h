// The memory and the FLOPs of a block depend on these.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace zrt::models {

using core::DType;

enum class Mode : uint8_t { train, eval, decode };

// Consecutive rows of a microbatch.
struct Rows {
  int64_t first = 0, count = 0;
};

// Everything memory depends on. decode: B sequences, one new token each, a cache of T positions.
struct Shape {
  int64_t B = 1, T = 1;
  DType type = DType::f32;
  DType grad_type = DType::f32;  // of parameter gradients
  Mode mode = Mode::train;
  bool fp8 = false;  // linear layers of transformer blocks round the operands of their products (GemmSpec::fp8)
  // True where layers keep in training what norms and activation functions make, too, so that backward need not make it
  // again.
  bool keeps_outputs = false;
  // Samples hold documents that attend to themselves alone: Call::positions says where each begins.
  bool documents = false;
  int64_t rows() const { return mode == Mode::decode ? B : B * T; }
};

}  // namespace zrt::models
