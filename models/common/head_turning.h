// The turning of heads between the products that make queries and keys and attention: rotary positions, and in front of
// them, where a model has it, an RMS norm of each head (Henry et al., "Query-Key Normalization for Transformers",
// 2020). Rotary pairs are the halves of a head.
#pragma once
#include <optional>
#include <vector>

#include "models/block.h"
#include "models/bump_allocator.h"
#include "models/kernels/attention.h"

namespace zrt::models {

struct HeadTurning {
  struct Norms {
    size_t queries = 0, keys = 0;  // their weights among the block's parameters, of `width` elements each
    float epsilon = 1e-5f;
    NormKind kind = NormKind::rms;
  };
  struct Statistics {  // fp32 per head; null outside training, and without norms
    float *queries = nullptr, *keys = nullptr;
  };

  std::vector<double> frequencies;  // of the rotary pairs, radians per position
  float scale = 1;                  // of their cosines and sines
  std::optional<Norms> norms = {};

  Statistics statistics_in(BumpAllocator& layout, const Shape& shape, const AttentionShape& heads) const;
  // Makes of qkv, as products made it, in `to` what attention reads; `to` may be qkv.
  void turn(const Call& call, const AttentionShape& heads, void* qkv, void* to, const Statistics& statistics) const;
  // d, the gradient of what turn() made, becomes that of qkv. Writes the gradients of the norms' weights, or leaves
  // them in `held` for write_held().
  void turn_back(const Call& call, const AttentionShape& heads, void* qkv, const Statistics& statistics, void* d,
                 std::byte* scratch, float* held) const;
  void write_held(const Call& call, int64_t width, const float* held) const;
  uint64_t held_bytes(int64_t width) const { return norms ? static_cast<uint64_t>(2 * width) * 4 : 0; }
  uint64_t backward_scratch(const Shape& shape, const AttentionShape& heads) const;

 private:
  void rotate(const Call& call, const AttentionShape& heads, bool backward, void* qkv) const;
};

}  // namespace zrt::models
