// Forms of weights that nobody changes, for hosts and kernels: blocks of weight_block codes, and the block's largest
// magnitude, an fp32 number, behind them.
//
// nf4: the sixteen values of Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023, appendix E, two
// codes a byte with the first in its upper half, as bitsandbytes has them. linear8: whole numbers from -127 to 127.
// Either way the largest magnitude of a block is read back as it was, so that what was read is written again without
// loss.
#pragma once
#include <cmath>
#include <cstring>

#include "core/form.h"
#include "core/host_device.h"

namespace zrt::core {

ZRT_HD inline float nf4_value(uint32_t code) {
  constexpr float values[16] = {-1.0f,
                                -0.6961928009986877f,
                                -0.5250730514526367f,
                                -0.39491748809814453f,
                                -0.28444138169288635f,
                                -0.18477343022823334f,
                                -0.09105003625154495f,
                                0.0f,
                                0.07958029955625534f,
                                0.16093020141124725f,
                                0.24611230194568634f,
                                0.33791524171829224f,
                                0.44070982933044434f,
                                0.5626170039176941f,
                                0.7229568362236023f,
                                1.0f};
  return values[code & 15u];
}

// The code of a number from -1 to 1: that of the nearest value, of the lower one half way between two.
ZRT_HD inline uint32_t nf4_code(float x) {
  uint32_t code = 0;
  for (uint32_t i = 0; i < 15; ++i) code += x > (nf4_value(i) + nf4_value(i + 1)) / 2 ? 1u : 0u;
  return code;
}

// Number i of a block.
ZRT_HD inline float read_weight(Form form, const uint8_t* block, uint32_t i, float scale) {
  if (form == Form::nf4) {
    const uint32_t pair = block[i / 2];
    return nf4_value(i % 2 == 0 ? pair >> 4 : pair) * scale;
  }
  return static_cast<float>(static_cast<int8_t>(block[i])) / 127.0f * scale;
}

constexpr int64_t weight_codes(Form form) {  // bytes of a block in front of its scale
  return form == Form::nf4 ? weight_block / 2 : weight_block;
}

inline float weight_scale(Form form, const uint8_t* block) {
  float scale;
  std::memcpy(&scale, block + weight_codes(form), sizeof scale);
  return scale;
}

inline void write_weight_block(Form form, const float* from, uint8_t* block) {
  float most = 0;
  for (int64_t i = 0; i < weight_block; ++i) {
    const float magnitude = std::fabs(from[i]);
    if (magnitude > most || std::isnan(magnitude)) most = magnitude;
    if (std::isnan(most)) break;  // none of the block is a number then
  }
  // A scale whose inverse is no number has codes that nobody reads as numbers, or stands for zeros.
  const bool usable = most >= 0x1p-126f && most <= 0x1.fffffep127f;
  const float inverse = usable ? 1 / most : 0;
  const auto part = [&](int64_t i) { return usable ? from[i] * inverse : 0.0f; };
  if (most < 0x1p-126f) most = 0;
  for (int64_t i = 0; i < weight_block; ++i) {
    if (form == Form::linear8) {
      block[i] = static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(part(i) * 127)));
    } else if (i % 2 == 0) {
      block[i / 2] = static_cast<uint8_t>(nf4_code(part(i)) << 4 | nf4_code(part(i + 1)));
    }
  }
  std::memcpy(block + weight_codes(form), &most, sizeof most);
}

}  // namespace zrt::core
