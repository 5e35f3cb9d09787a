// For every block of columns: for every block of rows: for every block of the inner dimension, the tile of A is packed
// once and meets the tiles of B one after the other. Sums over inner blocks stay in fp32 until they are complete.
#include <algorithm>
#include <array>
#include <vector>

#include "core/parallel.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "models/layout.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t tile_rows = 512, tile_columns = 192, tile_inner = 1024;  // A 2 MiB, B 0.75 MiB
constexpr int64_t strip_columns = 16 * tile_columns;                       // columns with sums in flight

int64_t element_bytes(DType type) {
  return static_cast<int64_t>(core::dtype_size(type));
}

// Rows of `columns` elements, `ld` apart, to dense fp32 rows.
void pack(DType type, const void* from, int64_t ld, int64_t rows, int64_t columns, float* to) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(rows, 8, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        typed_kernels<T>().widen(static_cast<const T*>(from) + row * ld, to + row * columns, columns);
      }
    });
  });
}

class TiledGemm : public Gemm {
 public:
  explicit TiledGemm(const GemmSpec& spec) : spec_(spec) {
    const int64_t inner_blocks = (spec.K + tile_inner - 1) / tile_inner;
    inner_ = (spec.K + inner_blocks - 1) / inner_blocks;
    rows_ = std::min(tile_rows, spec.M), columns_ = std::min(tile_columns, spec.N);
    for (const int64_t m : sizes(spec.M, rows_)) {
      for (const int64_t n : sizes(spec.N, columns_)) {
        for (const int64_t k : sizes(spec.K, inner_)) {
          for (const bool add : {false, true}) {
            if (add && inner_blocks == 1) continue;
            const GemmSpec tile{m,
                                n,
                                k,
                                spec.trans_a,
                                spec.trans_b,
                                spec.trans_a ? m : k,
                                spec.trans_b ? k : n,
                                n,
                                DType::f32,
                                DType::f32,
                                DType::f32,
                                false,
                                add,
                                1};
            tiles_.push_back({m, n, k, add, make_dnnl_gemm(tile)});
            scratch_ = std::max(scratch_, tiles_.back().gemm->workspace_bytes());
          }
        }
      }
    }
    Layout layout;
    lay_out(layout);
    workspace_ = layout.bytes();
  }

  uint64_t workspace_bytes() const override { return workspace_; }
  std::string algorithm() const override { return "tiles of " + tiles_.front().gemm->algorithm(); }

  void run(const GemmOperands& operands) const override {
    Layout layout(static_cast<std::byte*>(operands.workspace));
    const Space space = lay_out(layout);
    for (int64_t strip = 0; strip < spec_.N; strip += strip_columns) {
      const int64_t strip_end = std::min(strip + strip_columns, spec_.N);
      for (int64_t i = 0; i < spec_.M; i += rows_) {
        const int64_t m = std::min(rows_, spec_.M - i);
        for (int64_t k = 0; k < spec_.K; k += inner_) {
          const int64_t depth = std::min(inner_, spec_.K - k);
          const bool last = k + depth == spec_.K;
          pack_a(operands.a, i, k, m, depth, space.a);
          for (int64_t j = strip; j < strip_end; j += columns_) {
            const int64_t n = std::min(columns_, spec_.N - j);
            // With one inner block a sum is complete at once, so all share one tile.
            float* sum = space.sums + (inner_ == spec_.K ? 0 : rows_ * (j - strip));
            pack_b(operands.b, j, k, n, depth, space.b);
            find(m, n, depth, k > 0).run(space.a, space.b, sum, nullptr, space.scratch);
            if (last) finish(sum, i, j, m, n, operands.bias, operands.c);
          }
        }
      }
    }
  }

 private:
  struct Tile {
    int64_t m, n, k;
    bool add;
    std::unique_ptr<Gemm> gemm;
  };
  struct Space {
    std::byte* scratch;
    float *a, *b, *sums;
  };

  // The sizes that pieces of `tile` elements of `total` have: the whole ones and the rest.
  static std::vector<int64_t> sizes(int64_t total, int64_t tile) {
    std::vector<int64_t> result{std::min(tile, total)};
    if (total > tile && total % tile != 0) result.push_back(total % tile);
    return result;
  }

  Space lay_out(Layout& layout) const {
    const auto floats = [&](int64_t count) { return layout.take<float>(static_cast<uint64_t>(count) * 4); };
    Space space{};
    space.scratch = layout.take<std::byte>(scratch_);
    space.a = floats(rows_ * inner_);
    space.b = floats(inner_ * columns_);
    space.sums = floats(rows_ * (inner_ == spec_.K ? columns_ : std::min(spec_.N, strip_columns)));
    return space;
  }

  const Gemm& find(int64_t m, int64_t n, int64_t k, bool add) const {
    for (const Tile& tile : tiles_) {
      if (tile.m == m && tile.n == n && tile.k == k && tile.add == add) return *tile.gemm;
    }
    throw core::Error("A tile of the matrix product " + spec_.text() + " was not prepared.");
  }

  void pack_a(const void* a, int64_t i, int64_t k, int64_t m, int64_t depth, float* to) const {
    const std::byte* from = static_cast<const std::byte*>(a);
    if (spec_.trans_a) {
      pack(spec_.a, from + (k * spec_.lda + i) * element_bytes(spec_.a), spec_.lda, depth, m, to);
    } else {
      pack(spec_.a, from + (i * spec_.lda + k) * element_bytes(spec_.a), spec_.lda, m, depth, to);
    }
  }

  void pack_b(const void* b, int64_t j, int64_t k, int64_t n, int64_t depth, float* to) const {
    const std::byte* from = static_cast<const std::byte*>(b);
    if (spec_.trans_b) {
      pack(spec_.b, from + (j * spec_.ldb + k) * element_bytes(spec_.b), spec_.ldb, n, depth, to);
    } else {
      pack(spec_.b, from + (k * spec_.ldb + j) * element_bytes(spec_.b), spec_.ldb, depth, n, to);
    }
  }

  // C = [C +] alpha · sum [+ bias], rounded once.
  void finish(float* sum, int64_t i, int64_t j, int64_t m, int64_t n, const void* bias, void* c) const {
    std::array<float, tile_columns> wide_bias{};
    if (spec_.bias) {
      pack(spec_.a, static_cast<const std::byte*>(bias) + j * element_bytes(spec_.a), n, 1, n, wide_bias.data());
    }
    with_type(spec_.c, [&](auto zero) {
      using T = decltype(zero);
      core::parallel_for(m, 8, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          float* from = sum + row * n;
          if (spec_.alpha != 1) {
            for (int64_t column = 0; column < n; ++column) from[column] *= spec_.alpha;
          }
          if (spec_.bias) typed_kernels<float>().add(from, wide_bias.data(), nullptr, from, n);
          typed_kernels<T>().write(from, static_cast<T*>(c) + (i + row) * spec_.ldc + j, spec_.accumulate, n);
        }
      });
    });
  }

  GemmSpec spec_;
  int64_t rows_, columns_, inner_;
  std::vector<Tile> tiles_;
  uint64_t scratch_ = 0, workspace_ = 0;
};

}  // namespace

std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec) {
  return std::make_unique<TiledGemm>(spec);
}

bool tiles_pay(const GemmSpec& spec) {
  // oneDNN has no product of fp16 on these processors.
  if (spec.a == DType::f16 || spec.b == DType::f16 || spec.c == DType::f16) return true;
  // Packing a tile costs a pass over it: every element must be used often.
  if (std::min({spec.M, spec.N, spec.K}) < 48) return false;
  if (spec.a == DType::bf16 && spec.b == DType::bf16) return !fast_bf16();
  if (spec.a != DType::f32 || spec.b != DType::f32) return false;
  // A long fp32 sum loses digits with its length (the input gradient of the head sums over the vocabulary); here it is
  // a sum of sums.
  if (spec.K > tile_inner) return true;
  // Rows of B a multiple of 4 KiB apart fall into the same sets of the first-level cache (measured: 75 against 165
  // GFLOP/s in fp32 at N = 3072).
  return !spec.trans_b && spec.ldb * element_bytes(spec.b) % 4096 == 0;
}

}  // namespace zrt::models::cpu
