// Values that are NaN or infinite, or would be in a type of fewer bits: the rule by which runs, imports and exports
// refuse them.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <string>

#include "core/dtype.h"

namespace zrt::core {

// Bits of a value without its sign: they grow with the magnitude, and those of NaN are the largest.
inline uint32_t magnitude(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7fffffffu;
}
uint32_t largest_magnitude(std::span<const float> values);
// Returns the magnitude of the smallest value that rounds to infinity in fp32, bf16 or fp16.
uint32_t first_infinite(DType type);

// Index of the first value that is not finite in a type, or -1.
int64_t first_not_finite(std::span<const float> values, DType type);

// "NaN", "infinity", "-infinity" or a number. A number that a type does not hold has a note that says so.
std::string value_text(float value);
std::string not_finite_note(float value, DType type);  // "" or "; fp16 has no such number"

}  // namespace zrt::core
