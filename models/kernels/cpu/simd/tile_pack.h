// Packing of operands to panels of W rows or columns. Included only by tile_kernels.cpp, inside its namespace.

template <class T, int W>
inline void copy_elements(const T* from, int64_t n, float scale, float* to) {
  for (int64_t w = 0; w < W; ++w) to[w] = w < n ? core::widen(from[w]) * scale : 0.0f;
}

// Packs rows or columns that lie side by side: the panels of a few depths are written together, so that a line is read
// once; no more than a set of the first-level cache holds, where lines lie a multiple of 4 KiB apart.
template <class T, int W>
void pack_along(const T* from, int64_t ld, int64_t count, int64_t depth, float scale, float* to) {
  constexpr int64_t group = 8;
  for (int64_t begin = 0; begin < depth; begin += group) {
    const int64_t end = begin + group < depth ? begin + group : depth;
    for (int64_t w = 0; w < count; w += W) {
      float* panel = to + w * depth;
      for (int64_t k = begin; k < end; ++k) {
        const T* row = from + k * ld + w;
        float* out = panel + k * W;
        if constexpr (W % L == 0) {
          if (w + W <= count) {
#pragma GCC unroll 4
            for (int i = 0; i < W; i += L) save(out + i, load(row + i) * scale);
            continue;
          }
        } else {
          // A whole vector: what it writes too much is overwritten by the next depth.
          if (w + L <= count && k + 1 < end) {
            save(out, load(row) * scale);
            continue;
          }
        }
        copy_elements<T, W>(row, count - w, scale, out);
      }
    }
  }
}

// Packs rows or columns that lie `ld` apart: blocks of L x L are turned. Runs of a row are too short for the hardware
// to foresee, so those of the next panel are asked for.
template <class T, int W>
void pack_across(const T* from, int64_t ld, int64_t count, int64_t depth, float scale, float* to) {
  for (int64_t w = 0; w < count; w += W) {
    float* panel = to + w * depth;
    for (int part = 0; part < W; part += L) {
      const int64_t left = count - w - part, width = W - part < L ? W - part : L;
      const int64_t rows = left < width ? left : width;
      const T* first = from + (w + part) * ld;
      int64_t k = 0;
      for (; k + L <= depth; k += L) {
        Vector block[L];
#pragma GCC unroll 16
        for (int i = 0; i < L; ++i) __builtin_prefetch(first + (i + W) * ld + k);
#pragma GCC unroll 16
        for (int i = 0; i < L; ++i) block[i] = i < rows ? load(first + i * ld + k) * scale : Vector{};
        turn(block);
        float* out = panel + k * W + part;
        if (width == L || k + L < depth) {
#pragma GCC unroll 16
          for (int i = 0; i < L; ++i) save(out + i * W, block[i]);
        } else {  // a whole vector of the last depth would end behind the panel
#pragma GCC unroll 16
          for (int i = 0; i + 1 < L; ++i) save(out + i * W, block[i]);
          __builtin_memcpy(out + (L - 1) * W, &block[L - 1], static_cast<size_t>(width) * 4);
        }
      }
      for (; k < depth; ++k) {
        for (int64_t i = 0; i < width; ++i) {
          panel[k * W + part + i] = i < rows ? core::widen(first[i * ld + k]) * scale : 0.0f;
        }
      }
    }
  }
}

template <class T, int W>
void pack(const T* from, int64_t ld, bool across, int64_t count, int64_t depth, float scale, float* to) {
  if (across) {
    pack_across<T, W>(from, ld, count, depth, scale, to);
  } else {
    pack_along<T, W>(from, ld, count, depth, scale, to);
  }
}
