// Pieces of matrix products, compiled once per instruction set (see cmake/zrt_isa.cmake): operands are packed to fp32
// panels, panels are multiplied a register tile at a time. An element is the same sequence of fused multiply-adds in
// every set, so its bits are the same too. Pointers may be unaligned; leading dimensions are in elements.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"

namespace zrt::models::cpu {

// A register tile: rows · columns sums, columns a multiple of the `lanes` floats of a vector. A panel of A meets
// `group` panels of B before the next does: with 1 the panel of B stays in the first-level cache, else that of A.
struct TileShape {
  int lanes, rows, columns, group;
};

// A sum becomes C = [sums +] sum [+ bias] [+ C], rounded once to T.
template <class T>
struct TileResult {
  T* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
  const float* sums = nullptr;  // earlier blocks of the inner dimension; may be null
  int64_t ld_sums = 0;
  const float* bias = nullptr;  // one per column; may be null
};

// Rows of A as pack_rows leaves them, or where they lie, `ld` apart or side by side: then a whole number of panels.
struct TileRows {
  enum class Form : uint8_t { packed, apart, beside } form = Form::packed;
  const float* from = nullptr;
  int64_t ld = 0;  // of what is not packed
};

template <class T>
struct TypedTileKernels {
  // `count` rows (for A) or columns (for B) of `depth` elements each to panels of TileShape::rows or columns of them,
  // in each panel one depth after the other, the last panel filled up with zeros. Neighbours along the depth lie `ld`
  // apart and the rows or columns side by side, or with `across` the other way round. Elements are scaled on the way.
  void (*pack_rows)(const T* from, int64_t ld, bool across, int64_t count, int64_t depth, float scale, float* to);
  void (*pack_columns)(const T* from, int64_t ld, bool across, int64_t count, int64_t depth, float scale, float* to);
  // Products of all panels of `rows` rows with all panels of `columns` columns.
  void (*multiply)(const TileRows& a, const float* b, int64_t rows, int64_t columns, int64_t depth,
                   const TileResult<T>& result);
  // Products of at most thin_rows rows of `a` with at most thin_columns columns of B, which is read where it lies:
  // (N, K) with `across`, else (K, N). sums[r · thin_columns + n], of blocks of tile_depth that are added in order.
  void (*thin)(const float* a, int64_t lda, const T* b, int64_t ldb, bool across, int64_t rows, int64_t columns,
               int64_t depth, float* sums);
  // Writes rows of sums, `ld` apart, to C.
  void (*finish)(const float* from, int64_t ld, int64_t rows, int64_t columns, const TileResult<T>& result);
};

// Sums are made in blocks of the inner dimension: a block is added up one by one, then the blocks.
inline constexpr int64_t tile_depth = 384;
inline constexpr int64_t thin_rows = 4, thin_columns = 256;

struct TileKernels {
  TileShape shape;
  TypedTileKernels<float> f32;
  TypedTileKernels<core::bf16> bf16;
  TypedTileKernels<core::f16> f16;
};

const TileKernels& tile_kernels(core::Isa isa);

template <class T>
const TypedTileKernels<T>& typed(const TileKernels& kernels);
template <>
inline const TypedTileKernels<float>& typed<float>(const TileKernels& kernels) {
  return kernels.f32;
}
template <>
inline const TypedTileKernels<core::bf16>& typed<core::bf16>(const TileKernels& kernels) {
  return kernels.bf16;
}
template <>
inline const TypedTileKernels<core::f16>& typed<core::f16>(const TileKernels& kernels) {
  return kernels.f16;
}

// The sets themselves. 16 registers hold 12 sums, 2 columns and a row; 32 hold 28, 2 and a row.
namespace v3 {
inline constexpr TileShape tile{8, 6, 16, 4};
extern const TileKernels tiles;
}  // namespace v3
namespace v4 {
inline constexpr TileShape tile{16, 14, 32, 8};
extern const TileKernels tiles;
}  // namespace v4

}  // namespace zrt::models::cpu
