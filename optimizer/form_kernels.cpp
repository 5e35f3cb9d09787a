// Compiled once per instruction set: see cmake/zrt_isa.cmake.
#include "optimizer/form_kernels.h"

#include "core/kernel_form.h"
#include "optimizer/rounding_word.h"
#include "optimizer/update_kernel.h"

namespace zrt::optimizer {
namespace {

void rounding_words(uint32_t base, int64_t first, int64_t n, uint32_t* __restrict out) {
  const uint32_t begin = static_cast<uint32_t>(first);
  const int32_t count = static_cast<int32_t>(n);
  for (int32_t i = 0; i < count; ++i) out[i] = rounding_word(base, begin + static_cast<uint32_t>(i));
}

void read_halves(const void* __restrict from_data, int64_t n, float* __restrict to) {
  const bf16* __restrict from = static_cast<const bf16*>(from_data);
  for (int64_t i = 0; i < n; ++i) to[i] = core::widen(from[i]);
}
void write_halves(const float* __restrict from, const uint32_t* __restrict words, int shift, int64_t n,
                  void* __restrict to_data) {
  uint16_t* __restrict to = static_cast<uint16_t*>(to_data);
  for (int64_t i = 0; i < n; ++i) to[i] = core::write_bf16(from[i], words[i] >> shift & 0xffffu);
}

constexpr int64_t block_bytes = core::form_block + 4;

template <bool is_signed>
void read_blocks(const void* __restrict from, int64_t n, float* __restrict to) {
  const uint8_t* block = static_cast<const uint8_t*>(from);
  for (int64_t b = 0; b < n / core::form_block; ++b, block += block_bytes, to += core::form_block) {
    float scale;
    __builtin_memcpy(&scale, block + core::form_block, sizeof scale);
    for (int64_t i = 0; i < core::form_block; ++i) {
      to[i] = is_signed ? core::read_signed(block[i], scale) : core::read_unsigned(block[i], scale);
    }
  }
}

template <bool is_signed>
void write_blocks(const float* __restrict from, const uint32_t* __restrict words, int shift, int64_t n,
                  void* __restrict to) {
  uint8_t* block = static_cast<uint8_t*>(to);
  for (int64_t b = 0; b < n / core::form_block; ++b, block += block_bytes) {
    uint32_t most = 0;
    for (int64_t i = 0; i < core::form_block; ++i) {
      const uint32_t magnitude = core::float_bits(from[i]) & 0x7fffffffu;
      most = magnitude > most ? magnitude : most;
    }
    const uint32_t bits = core::scale_bits(most);
    const float scale = core::bits_float(bits == 0 ? core::one_bits : bits);
    const uint32_t mask = bits == 0 ? 0u : 0xffu;  // a block without a scale is 0
    for (int64_t i = 0; i < core::form_block; ++i) {
      const uint32_t noise = words[i] >> shift & 0xffffu;
      const uint32_t code =
          is_signed ? core::write_signed(from[i], scale, noise) : core::write_unsigned(from[i], scale, noise);
      block[i] = static_cast<uint8_t>(code & mask);
    }
    __builtin_memcpy(block + core::form_block, &bits, sizeof bits);
    from += core::form_block, words += core::form_block;
  }
}

}  // namespace

extern const FormKernels ZRT_JOIN(form_kernels_, ZRT_ISA);
const FormKernels ZRT_JOIN(form_kernels_, ZRT_ISA) = {rounding_words,
                                                      {nullptr, read_halves, read_blocks<true>, read_blocks<false>},
                                                      {nullptr, write_halves, write_blocks<true>, write_blocks<false>}};

}  // namespace zrt::optimizer
