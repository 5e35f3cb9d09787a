// Plays the instructions of models/kernels/cuda/mma.cuh, as the PTX manual describes them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "emulator/block.h"

namespace zrt::models::cuda {

inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const std::byte*>(p) - emulator::shared_memory());
}

inline void check_shared(uint32_t address, uint32_t bytes) {
  if (address % bytes == 0 && address + bytes <= emulator::shared_bytes()) return;
  throw std::runtime_error("an address of shared memory is not aligned, or lies behind its end");
}

// Lane 8 i + r gives the address of row r of matrix i; a lane gets elements 2 (lane mod 4) and the next of row lane /
// 4, or of that column.
template <bool transposed>
inline void ldmatrix(uint32_t (&r)[4], uint32_t address) {
  check_shared(address, 16);
  const emulator::Words* rows = emulator::sync_warp(~0u, {address});
  const unsigned lane = emulator::now.lane;
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t pair[2];
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned row = transposed ? 2 * (lane % 4) + j : lane / 4,
                     column = transposed ? lane / 4 : 2 * (lane % 4) + j;
      std::memcpy(&pair[j], emulator::shared_memory() + rows[8 * i + row][0] + 2 * column, 2);
    }
    std::memcpy(&r[i], pair, 4);
  }
}

template <class E>
inline float half_of(uint64_t words, unsigned i) {
  const auto bits = static_cast<uint16_t>(words >> (16 * i));
  if constexpr (std::is_same_v<E, __half>) {
    return __half2float(__ushort_as_half(bits));
  } else {
    return __bfloat162float(__nv_bfloat16{bits});
  }
}

template <class E>
inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  // Registers of A: rows lane / 4 and + 8, of columns 2 (lane mod 4) and + 8. Of B: rows 2 (lane mod 4) and + 8 of
  // column lane / 4. Of C: rows lane / 4 and + 8, columns 2 (lane mod 4).
  const emulator::Words* all =
      emulator::sync_warp(~0u, {a[0] | uint64_t{a[1]} << 32, a[2] | uint64_t{a[3]} << 32, b0 | uint64_t{b1} << 32});
  const unsigned lane = emulator::now.lane;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const uint64_t left = all[row % 8 * 4 + k % 8 / 2][k < 8 ? 0 : 1];
      c[i] += half_of<E>(left, row / 8 * 2 + k % 2) * half_of<E>(all[column * 4 + k % 8 / 2][2], k / 8 * 2 + k % 2);
    }
  }
}

inline void copy_async(uint32_t to, const void* from, uint32_t bytes, bool valid) {
  check_shared(to, bytes);
  if (valid && reinterpret_cast<uintptr_t>(from) % bytes != 0)
    throw std::runtime_error("a copy's source is not aligned");
  emulator::pending_copies().push_back({emulator::shared_memory() + to, valid ? from : nullptr, bytes});
}
inline void copy16_async(uint32_t to, const void* from, bool valid) {
  copy_async(to, from, 16, valid);
}
inline void copy4_async(uint32_t to, const void* from, bool valid) {
  copy_async(to, from, 4, valid);
}
// The first `count` of those that are under way.
inline void arrive(size_t count) {
  std::vector<emulator::PendingCopy>& copies = emulator::pending_copies();
  for (size_t i = 0; i < count; ++i) {
    if (copies[i].to == nullptr) continue;
    emulator::products().unfenced = true;
    if (copies[i].from) {
      std::memcpy(copies[i].to, copies[i].from, copies[i].bytes);
    } else {
      std::memset(copies[i].to, 0, copies[i].bytes);
    }
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(count));
}
inline void wait_for_copies() {
  arrive(emulator::pending_copies().size());
}
inline void end_copies() {
  emulator::pending_copies().push_back({nullptr, nullptr, 0});
}
template <int pending>
inline void wait_for_copies() {
  const std::vector<emulator::PendingCopy>& copies = emulator::pending_copies();
  ptrdiff_t batches = std::count_if(copies.begin(), copies.end(), [](const auto& copy) { return copy.to == nullptr; });
  size_t count = 0;
  while (batches > pending) batches -= copies[count++].to == nullptr;
  arrive(count);
}

inline float exp2_fast(float x) {
  return std::exp2(x);
}

}  // namespace zrt::models::cuda
