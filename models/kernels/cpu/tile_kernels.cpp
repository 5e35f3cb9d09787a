// Compiled once per instruction set, with ZRT_ISA naming it: see cmake/zrt_isa.cmake. Products and sums are contracted
// to fused multiply-adds here, in every set alike.
#include "models/kernels/cpu/tile_kernels.h"

#include "core/kernel_convert.h"

namespace zrt::models::cpu::ZRT_ISA {
namespace {
#include "models/kernels/cpu/simd/tile_vector.h"
//
#include "models/kernels/cpu/simd/tile_pack.h"
//
#include "models/kernels/cpu/simd/tile_multiply.h"
//
#include "models/kernels/cpu/simd/tile_thin.h"

template <class T>
constexpr TypedTileKernels<T> tile_kernels_of = {pack<T, tile.rows>, pack<T, tile.columns>, multiply<T>, thin<T>,
                                                 finish<T>};
}  // namespace

const TileKernels tiles = {tile, tile_kernels_of<float>, tile_kernels_of<core::bf16>, tile_kernels_of<core::f16>};

}  // namespace zrt::models::cpu::ZRT_ISA
