// Adam where its moments are not fp32, or the weights have no fp32 master: what kernels of all back ends share.
#pragma once
#include <algorithm>

#include "core/form.h"
#include "core/host_device.h"
#include "core/philox.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {

struct MomentForms {
  core::Form first, second;
};
inline MomentForms moment_forms(Moments moments) {
  if (moments == Moments::f32) return {core::Form::f32, core::Form::f32};
  if (moments == Moments::bf16) return {core::Form::bf16, core::Form::bf16};
  return {core::Form::signed8, core::Form::unsigned8};
}

// Whether a part needs adam_forms_step.
inline bool has_forms(const AdamParams& params, const UnitPart& part) {
  return params.moments != Moments::f32 || !part.master;
}

// A state's bytes from element `i` of the part on.
inline std::byte* form_at(const UnitPart& part, size_t state, core::Form form, int64_t i) {
  return reinterpret_cast<std::byte*>(part.states[state]) + core::form_bytes(form, i);
}

// The numbers that a step's rounding of a block of form_block elements starts from, for rounding_word: nothing of the
// layout is in them, and they come from where no dropout's numbers do.
struct RoundingBases {
  uint32_t states, weights;
};
ZRT_HD inline RoundingBases rounding_bases(const Decision& decision, uint32_t parameter, int64_t block) {
  constexpr uint64_t aside = uint64_t{1} << 62;
  const auto words = core::philox({decision.seed, static_cast<uint32_t>(decision.updates), parameter},
                                  aside + static_cast<uint64_t>(block));
  return {words[0], words[1]};
}

// Calls body(parameter's number, its first element, the same element's index into the part, count) for the part's
// parameters, each with the padding behind it.
template <class Body>
void for_parameters(const UnitPart& part, const Body& body) {
  const std::vector<UnitParam>& params = part.unit->params;
  for (size_t p = 0; p < params.size(); ++p) {
    const int64_t begin = params[p].offset, end = p + 1 < params.size() ? params[p + 1].offset : part.unit->elements;
    const int64_t from = std::max(part.begin, begin), to = std::min(part.begin + part.count, end);
    if (from < to) body(params[p].number, from - begin, from - part.begin, to - from);
  }
}

}  // namespace zrt::optimizer
