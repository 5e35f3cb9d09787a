#include "core/form.h"

#include <algorithm>
#include <cstring>

#include "core/kernel_form.h"
#include "core/weight_form.h"

namespace zrt::core {
namespace {

void write_block(bool is_signed, const float* from, std::byte* to) {
  uint32_t most = 0;
  for (int64_t i = 0; i < form_block; ++i) most = std::max(most, float_bits(from[i]) & 0x7fffffffu);
  const uint32_t scale = scale_bits(most);
  const float divisor = bits_float(scale);
  for (int64_t i = 0; i < form_block; ++i) {
    const uint32_t code = scale == 0  ? 0
                          : is_signed ? write_signed(from[i], divisor, to_nearest)
                                      : write_unsigned(from[i], divisor, to_nearest);
    to[i] = static_cast<std::byte>(code);
  }
  std::memcpy(to + form_block, &scale, sizeof scale);
}

}  // namespace

std::string_view form_name(Form form) {
  constexpr std::string_view names[] = {"fp32", "bf16", "int8", "uint8", "fp16", "nf4", "linear8"};
  return names[static_cast<size_t>(form)];
}

Form form_of(DType type) {
  return type == DType::bf16 ? Form::bf16 : type == DType::f16 ? Form::f16 : Form::f32;
}

void read_form(Form form, const std::byte* from, int64_t first, int64_t n, float* to) {
  if (form == Form::f32) {
    std::memcpy(to, from + form_bytes(form, first), static_cast<size_t>(n) * sizeof(float));
    return;
  }
  const auto widened = [&](const auto* values) {
    for (int64_t i = 0; i < n; ++i) to[i] = widen(values[first + i]);
  };
  if (form == Form::bf16) return widened(reinterpret_cast<const bf16*>(from));
  if (form == Form::f16) return widened(reinterpret_cast<const f16*>(from));
  if (form == Form::nf4 || form == Form::linear8) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = (first + i) % weight_block;
      const auto* block = reinterpret_cast<const uint8_t*>(from + form_bytes(form, first + i - at));
      to[i] = read_weight(form, block, static_cast<uint32_t>(at), weight_scale(form, block));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (first + i) % form_block;
    const std::byte* block = from + form_bytes(form, first + i - at);
    float scale;
    std::memcpy(&scale, block + form_block, sizeof scale);
    const auto code = static_cast<uint32_t>(block[at]);
    to[i] = form == Form::signed8 ? read_signed(code, scale) : read_unsigned(code, scale);
  }
}

void write_form(Form form, const float* from, int64_t n, std::byte* to) {
  const auto narrowed = [&](auto* values) {
    for (int64_t i = 0; i < n; ++i) narrow(from[i], values[i]);
  };
  if (form == Form::f32) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else if (form == Form::bf16) {
    narrowed(reinterpret_cast<bf16*>(to));
  } else if (form == Form::f16) {
    narrowed(reinterpret_cast<f16*>(to));
  } else if (form == Form::nf4 || form == Form::linear8) {
    for (int64_t i = 0; i < n; i += weight_block) {
      write_weight_block(form, from + i, reinterpret_cast<uint8_t*>(to + form_bytes(form, i)));
    }
  } else {
    for (int64_t i = 0; i < n; i += form_block) {
      write_block(form == Form::signed8, from + i, to + form_bytes(form, i));
    }
  }
}

}  // namespace zrt::core
