// For every block of rows and columns of C, for every block of the inner dimension: each thread packs its rows of A
// once, and the columns of B are packed a few panels at a time, which stay in the second-level cache while all of these
// rows meet them. The inner blocks depend on K alone, so an element of C has the same bits whatever the other sizes,
// the level and the number of threads.
#include <algorithm>

#include "core/parallel.h"
#include "models/bump_allocator.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "models/kernels/cpu/tile_kernels.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t most_rows = 1024, most_columns = 3072;  // of C at a time: packed A 1.5 MiB, sums 12 MiB
constexpr int64_t most_panels = 256;                      // columns of B that are packed at a time: 384 KiB
constexpr int64_t few_columns = 128;                      // that do not pay for packing A

int64_t round_up(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}
// `total` in equal blocks of at most `most`, each a multiple of `unit` but the last.
int64_t block_size(int64_t total, int64_t most, int64_t unit) {
  const int64_t blocks = (total + most - 1) / most;
  return std::min(total, round_up((total + blocks - 1) / blocks, unit));
}

class TiledGemm : public Gemm {
 public:
  TiledGemm(const GemmSpec& spec, core::Isa isa)
      : spec_(spec),
        kernels_(tile_kernels(isa)),
        threads_(core::threads()),
        rows_(block_size(spec.M, most_rows, kernels_.shape.rows)),
        columns_(block_size(spec.N, most_columns, kernels_.shape.columns)),
        panels_(std::min(columns_, most_panels)),
        inner_(block_size(spec.K, tile_depth, 1)),
        in_place_(spec.a == DType::f32 && spec.alpha == 1 && spec.N <= few_columns),
        thread_rows_(block_size(rows_, (rows_ + threads_ - 1) / threads_, kernels_.shape.rows)) {
    BumpAllocator layout;
    lay_out(layout);
    workspace_ = layout.bytes();
  }

  uint64_t workspace_bytes() const override { return workspace_; }
  std::string algorithm() const override {
    return fmt::format("tiles of {}x{}", kernels_.shape.rows, kernels_.shape.columns);
  }

  void run(const GemmOperands& operands) const override {
    BumpAllocator layout(static_cast<std::byte*>(operands.workspace));
    const Space space = lay_out(layout);
    const float* bias = widen_bias(operands.bias, space.bias);
    for (int64_t i = 0; i < spec_.M; i += rows_) {
      for (int64_t j = 0; j < spec_.N; j += columns_) {
        const int64_t end = std::min(j + columns_, spec_.N);
        for (int64_t k = 0; k < spec_.K; k += inner_) {
          Block block{i, j, k, std::min(rows_, spec_.M - i), 0, std::min(inner_, spec_.K - k), 0};
          pack_a(operands.a, block, space);
          for (; block.j < end; block.j += panels_, block.before += panels_) {
            block.columns = std::min(panels_, end - block.j);
            pack_b(operands.b, block, space.b);
            multiply_rows(operands, block, space, bias);
          }
        }
      }
    }
  }

 private:
  struct Block {
    int64_t i, j, k, rows, columns, depth;
    int64_t before;  // columns of C's block before these
  };
  struct Space {
    float *a, *b, *sums, *bias;
  };

  bool sums_apart() const { return spec_.c != DType::f32 && inner_ < spec_.K; }
  int64_t packed_a() const { return round_up(thread_rows_, kernels_.shape.rows) * inner_; }

  Space lay_out(BumpAllocator& layout) const {
    const auto floats = [&](int64_t count) { return layout.take<float>(static_cast<uint64_t>(count) * 4); };
    Space space{};
    space.a = floats(threads_ * packed_a());
    space.b = floats(round_up(panels_, kernels_.shape.columns) * inner_);
    space.sums = floats(sums_apart() ? rows_ * columns_ : 0);
    space.bias = floats(spec_.bias && spec_.a != DType::f32 ? spec_.N : 0);
    return space;
  }

  const float* widen_bias(const void* bias, float* wide) const {
    if (!spec_.bias) return nullptr;
    if (spec_.a == DType::f32) return static_cast<const float*>(bias);
    with_type(spec_.a, [&](auto zero) {
      typed_kernels<decltype(zero)>().widen(static_cast<const decltype(zero)*>(bias), wide, spec_.N);
    });
    return wide;
  }

  void pack_b(const void* b, const Block& block, float* to) const {
    const int64_t unit = kernels_.shape.columns, ld = spec_.ldb;
    const bool across = spec_.trans_b;
    with_type(spec_.b, [&](auto zero) {
      const auto* from =
          static_cast<const decltype(zero)*>(b) + (across ? block.j * ld + block.k : block.k * ld + block.j);
      core::parallel_for(block.columns, unit, [&](int64_t begin, int64_t end) {
        typed<decltype(zero)>(kernels_).pack_columns(from + begin * (across ? ld : 1), ld, across, end - begin,
                                                     block.depth, 1, to + begin * block.depth);
      });
    });
  }

  // Calls `body` with each thread's rows of the block, from which on, how many, how many of these are read where they
  // lie, and its room for the others.
  template <class Body>
  void for_rows(const Block& block, const Space& space, const Body& body) const {
    const int64_t pieces = (block.rows + thread_rows_ - 1) / thread_rows_;
    core::parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t row = piece * thread_rows_, rows = std::min(thread_rows_, block.rows - row);
        const int64_t whole = in_place_ ? rows / kernels_.shape.rows * kernels_.shape.rows : 0;
        body(row, rows, whole, space.a + piece * packed_a());
      }
    });
  }

  void pack_a(const void* a, const Block& block, const Space& space) const {
    const int64_t ld = spec_.lda;
    const bool across = !spec_.trans_a;
    for_rows(block, space, [&](int64_t row, int64_t rows, int64_t whole, float* to) {
      if (whole == rows) return;
      const int64_t first = block.i + row + whole;
      with_type(spec_.a, [&](auto zero) {
        const auto* from =
            static_cast<const decltype(zero)*>(a) + (across ? first * ld + block.k : block.k * ld + first);
        typed<decltype(zero)>(kernels_).pack_rows(from, ld, across, rows - whole, block.depth, spec_.alpha, to);
      });
    });
  }

  void multiply_rows(const GemmOperands& operands, const Block& block, const Space& space, const float* bias) const {
    for_rows(block, space, [&](int64_t row, int64_t rows, int64_t whole, float* a) {
      if (whole > 0) multiply(operands.c, where_it_lies(operands.a, row, block), row, whole, block, space, bias);
      if (whole == rows) return;
      multiply(operands.c, {TileRows::Form::packed, a}, row + whole, rows - whole, block, space, bias);
    });
  }

  TileRows where_it_lies(const void* a, int64_t row, const Block& block) const {
    const int64_t i = block.i + row, ld = spec_.lda;
    const auto* from = static_cast<const float*>(a) + (spec_.trans_a ? block.k * ld + i : i * ld + block.k);
    return {spec_.trans_a ? TileRows::Form::beside : TileRows::Form::apart, from, ld};
  }

  // Rows from `row` of the block: to the sums until the last inner block, or to C when it can hold them.
  void multiply(void* c, const TileRows& a, int64_t row, int64_t rows, const Block& block, const Space& space,
                const float* bias) const {
    const bool first = block.k == 0, last = block.k + block.depth == spec_.K;
    float* sums = sums_apart() ? space.sums + row * columns_ + block.before : nullptr;
    if (sums != nullptr && !last) {
      const TileResult<float> to{sums, columns_, !first, nullptr, 0, nullptr};
      return kernels_.f32.multiply(a, space.b, rows, block.columns, block.depth, to);
    }
    with_type(spec_.c, [&](auto zero) {
      using T = decltype(zero);
      T* out = static_cast<T*>(c) + (block.i + row) * spec_.ldc + block.j;
      const bool accumulate = spec_.accumulate || (sums == nullptr && !first);
      const TileResult<T> to{out, spec_.ldc, accumulate, sums, columns_, bias && last ? bias + block.j : nullptr};
      typed<T>(kernels_).multiply(a, space.b, rows, block.columns, block.depth, to);
    });
  }

  GemmSpec spec_;
  const TileKernels& kernels_;
  int64_t threads_, rows_, columns_, panels_, inner_;
  bool in_place_;  // A is read where it lies
  int64_t thread_rows_;
  uint64_t workspace_ = 0;
};

}  // namespace

const TileKernels& tile_kernels(core::Isa isa) {
  return core::choose_isa(isa, v3::tiles, v4::tiles);
}

std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec, core::Isa isa) {
  return std::make_unique<TiledGemm>(spec, isa);
}

}  // namespace zrt::models::cpu
