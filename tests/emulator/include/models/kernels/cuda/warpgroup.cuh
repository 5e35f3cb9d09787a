// Plays the instructions of models/kernels/cuda/warpgroup.cuh, as the PTX manual describes them. Tiles are read when a
// product is queued and again when it is waited for; in between its result is not a number.
#pragma once
#include <array>
#include <limits>

#include "models/kernels/cuda/mma.cuh"

namespace zrt::models::cuda {

inline constexpr int group_threads = 128, group_rows = 64, tile_align = 1024;

// Addresses here; `turned` says of an operand the same as that of multiply().
inline uint64_t rows_operand(uint32_t address, int step) {
  if (address % tile_align != 0) throw std::runtime_error("an operand does not begin where its swizzling does");
  return address + static_cast<uint32_t>(32 * step);
}
inline uint64_t turned_operand(uint32_t tile, int step, uint32_t next = 16) {
  return rows_operand(tile + static_cast<uint32_t>(16 * 128 * step), 0) | uint64_t{next} << 32;
}

// Rows of 128 bytes, the eight pieces of which the hardware swaps by the row's address.
template <class E>
inline float tile_element(uint64_t operand, unsigned row, unsigned column) {
  auto address = static_cast<uint32_t>(operand) + row * 128 + column * 2;
  address ^= (address >> 7 & 7u) << 4;
  check_shared(address, 2);
  uint16_t bits;
  std::memcpy(&bits, emulator::shared_memory() + address, 2);
  return half_of<E>(bits, 0);
}

// Thread by thread: the warp's 16 rows of 64 are the left operand's, 16 columns of which are multiplied.
using LeftRows = std::array<std::array<float, 16>, 2>;
template <class E, bool turned>
inline std::array<float, 32> thread_product(const LeftRows& left, uint64_t b) {
  std::array<float, 32> sums{};
  for (unsigned i = 0; i < 16; ++i) {  // two columns of each of eight pieces
    const unsigned column = i / 2 * 8 + 2 * (emulator::now.lane % 4) + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const float right = turned ? tile_element<E>(b, k, column) : tile_element<E>(b, column, k);
      for (unsigned half = 0; half < 2; ++half) sums[i / 2 * 4 + 2 * half + i % 2] += left[half][k] * right;
    }
  }
  return sums;
}

inline void fence_tiles() {
  emulator::products().unfenced = false;
}
template <class... Operands>
inline void begin_products(Operands&...) {
  if (emulator::products().unfenced) throw std::runtime_error("a tile was copied, and no fence_tiles() followed");
  emulator::products().begun = true;
}
inline void end_products() {
  emulator::products().end_batch();
}
template <int pending, class... Results>
inline void wait_for_products(Results&...) {
  emulator::products().wait(pending);
}

template <class LeftOf, class Product>
inline void queue_product(float (*c)[4], bool add, const LeftOf& left_of, const Product& product) {
  emulator::products().queue(c[0], add, product(left_of()), [=] { return product(left_of()); });
}

template <class E, bool turned, bool a_turned = false>
inline void multiply(float (&c)[8][4], uint64_t a, uint64_t b, bool add) {
  const unsigned row = emulator::now.thread.x % group_threads / 32 * 16 + emulator::now.lane / 4;
  const auto left_of = [a, row] {
    LeftRows left;
    for (unsigned half = 0; half < 2; ++half) {
      for (unsigned k = 0; k < 16; ++k) {
        left[half][k] = a_turned ? tile_element<E>(a, k, row + 8 * half) : tile_element<E>(a, row + 8 * half, k);
      }
    }
    return left;
  };
  queue_product(c, add, left_of, [b](const LeftRows& left) { return thread_product<E, turned>(left, b); });
}

template <class E, bool turned, int N>
inline void multiply(float (&c)[N][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  static_assert(N == 8 || (N == 16 && turned));
  const emulator::Words* all = emulator::sync_warp(~0u, {a[0] | uint64_t{a[1]} << 32, a[2] | uint64_t{a[3]} << 32});
  LeftRows left;
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned k = 0; k < 16; ++k) {
      left[half][k] = half_of<E>(all[emulator::now.lane / 4 * 4 + k % 8 / 2][k / 8], half * 2 + k % 2);
    }
  }
  for (unsigned half = 0; half < N / 8; ++half) {  // columns of the next tile
    const uint64_t columns = b + half * (b >> 32);
    queue_product(
        c + 8 * half, add, [left] { return left; },
        [columns](const LeftRows& rows) { return thread_product<E, turned>(rows, columns); });
  }
}

}  // namespace zrt::models::cuda
