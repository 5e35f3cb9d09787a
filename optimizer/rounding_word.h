// Random bits for rounding, a word per element of a parameter: Philox gives every form_block elements a number of their
// own, and one multiplication chain per element (the finalizer of MurmurHash3, by Appleby) spreads it, at a fifth of
// Philox's cost. For kernel files of all instruction sets and of the CUDA back end: internal linkage.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace zrt::optimizer {
namespace {

// Returns the word of element `i` of a block whose number is `base`.
ZRT_HD inline uint32_t rounding_word(uint32_t base, uint32_t i) {
  uint32_t x = base + i * 0x9E3779B9u;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

}  // namespace
}  // namespace zrt::optimizer
