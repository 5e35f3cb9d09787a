// Element-wise optimizers whose states are not fp32, or whose weights have no fp32 master: what kernels of all back
// ends share.
#pragma once
#include <algorithm>

#include "core/form.h"
#include "core/host_device.h"
#include "core/philox.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {

// The form of an optimizer's first or second state; the second is never negative.
constexpr core::Form state_form(Moments moments, size_t state) {
  if (moments == Moments::f32) return core::Form::f32;
  if (moments == Moments::bf16) return core::Form::bf16;
  return state == 0 ? core::Form::signed8 : core::Form::unsigned8;
}

// True where a part's step must write something in another form than fp32, or round weights at random.
inline bool has_forms(Moments moments, const UnitPart& part) {
  return !part.master || (moments != Moments::f32 && !part.states.empty());
}

// A state's bytes from element `i` of the part on; null where the part has no such state.
inline std::byte* form_at(const UnitPart& part, size_t state, core::Form form, int64_t i) {
  if (state >= part.states.size()) return nullptr;
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
    if (from < to) body(params[p].number_at(part.expert_rank), from - begin, from - part.begin, to - from);
  }
}

// An optimizer with hyperparameters whose states, a number for each element, take the form of `moments`.
template <class Params>
class ElementWise : public OptimizerWith<Params> {
 public:
  using OptimizerWith<Params>::OptimizerWith;
  int64_t alignment() const override {
    return this->params_.moments == Moments::int8 ? core::form_block : unit_alignment;
  }

 protected:
  UnitState state(const Unit& unit, const char* kind, size_t number) const {
    return element_wise(unit, kind, number == 0 ? core::Category::moment1 : core::Category::moment2,
                        state_form(this->params_.moments, number));
  }
};

}  // namespace zrt::optimizer
