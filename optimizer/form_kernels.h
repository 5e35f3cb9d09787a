// Loops between fp32 and the other forms that states and weights are kept in (core/form.h): one table per instruction
// set, all with the same bits.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/form.h"
#include "core/isa.h"

namespace zrt::optimizer {

struct FormKernels {
  // rounding_word(base, first + i) for i < n.
  void (*words)(uint32_t base, int64_t first, int64_t n, uint32_t* out);
  // n numbers, a multiple of 64 and of form_alignment. By form, but fp32.
  void (*read[4])(const void* from, int64_t n, float* to);
  // Rounded by 16 bits of a word for each number, those from `shift` on.
  void (*write[4])(const float* from, const uint32_t* words, int shift, int64_t n, void* to);
};

extern const FormKernels form_kernels_v3, form_kernels_v4;
const FormKernels& form_kernels(core::Isa isa);

}  // namespace zrt::optimizer
