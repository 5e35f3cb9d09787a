// The forms in which long runs of fp32 numbers are kept: as they are, or in fewer bytes. Lossy to write, but what has
// been read is written back without loss, so that checkpoints may hold fp32 numbers whatever the form.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace zrt::core {

// The 8-bit forms consist of blocks of form_block one-byte codes with the block's scale behind them, an fp32 number:
// its largest magnitude. A code counts eighths of powers of two below 1 (kernel_form.h).
enum class Form : uint8_t {
  f32,
  bf16,
  signed8,    // down to 2^-15.7 of the scale, then 0
  unsigned8,  // of numbers ≥ 0: down to 2^-31.7 of the scale; what is smaller but not 0 is kept as that
  f16,
  nf4,      // of weights: blocks of weight_block four-bit codes and a scale (weight_form.h)
  linear8,  // of weights: blocks of weight_block eight-bit codes and a scale
};
inline constexpr int64_t form_block = 2048;  // numbers
inline constexpr int64_t weight_block = 64;

// A run must have a multiple of so many numbers, and start at one.
constexpr int64_t form_alignment(Form form) {
  if (form == Form::nf4 || form == Form::linear8) return weight_block;
  return form == Form::signed8 || form == Form::unsigned8 ? form_block : 1;
}

// Returns the bytes of n numbers, a multiple of form_alignment(form); also the place of number n behind the first.
constexpr uint64_t form_bytes(Form form, int64_t n) {
  const auto count = static_cast<uint64_t>(n);
  switch (form) {
    case Form::f32:
      return 4 * count;
    case Form::bf16:
    case Form::f16:
      return 2 * count;
    case Form::signed8:
    case Form::unsigned8:
      return count / form_block * (form_block + 4);
    case Form::nf4:
      return count / weight_block * (weight_block / 2 + 4);
    case Form::linear8:
      return count / weight_block * (weight_block + 4);
  }
  return 0;
}

std::string_view form_name(Form form);
Form form_of(DType type);  // fp32, bf16 or fp16

// Numbers [first, first + n) of the run that starts at `from`, in the host's memory.
void read_form(Form form, const std::byte* from, int64_t first, int64_t n, float* to);
// The run of n numbers at `to`, a multiple of form_alignment(form), each rounded to nearest.
void write_form(Form form, const float* from, int64_t n, std::byte* to);

}  // namespace zrt::core
