// Steps of element-wise optimizers with states in other forms than fp32, on the CPU: a block at a time comes to fp32 on
// the stack, goes through the same kernel as all others, and back.
#pragma once
#include "optimizer/element_kernels.h"
#include "optimizer/form_kernels.h"
#include "optimizer/forms.h"
#include "optimizer/pieces.h"

namespace zrt::optimizer::cpu {

template <class Rule, class Kernels>
class FormStep {
 public:
  FormStep(const Kernels& kernels, const typename Rule::Params& params, const Decision& decision, const UnitPart& part)
      : part_(part),
        decision_(decision),
        scalars_(Rule::scalars(params, decision)),
        forms_{state_form(params.moments, 0), state_form(params.moments, 1)},
        convert_(form_kernels(core::best_isa())),
        kernel_(kernels.step[Rule::variant(params)][grad_index(part)]
                            [part.master ? weight_index(part) : size_t{no_weight_copy}]) {}

  void run() const {
    for_parameters(part_, [&](uint32_t number, int64_t element, int64_t at, int64_t count) {
      const int64_t first = element / block, last = (element + count - 1) / block;
      core::parallel_for(last - first + 1, 1, [&](int64_t begin, int64_t end) {
        Scratch scratch;
        for (int64_t b = first + begin; b < first + end; ++b) {
          const int64_t from = std::max(element, b * block), to = std::min(element + count, (b + 1) * block);
          run_block(scratch, number, from, at + from - element, to - from);
        }
      });
    });
  }

 private:
  static constexpr int64_t block = core::form_block;

  // The buffers that one block works on.
  struct Scratch {
    alignas(64) float master[block], states[2][block];
    alignas(64) uint32_t words[block];
  };

  // `element` of the parameter `number` is number `at` of the part; it and those behind it lie in one block.
  void run_block(Scratch& scratch, uint32_t number, int64_t element, int64_t at, int64_t n) const {
    std::byte* const kept[] = {form_at(part_, 0, forms_[0], at), form_at(part_, 1, forms_[1], at)};
    void* weight = weight_at(part_, at);
    float* master = part_.master ? part_.master + at : read(core::Form::bf16, weight, n, scratch.master);
    float* states[2];
    for (size_t s = 0; s < 2; ++s) states[s] = kept[s] ? read(forms_[s], kept[s], n, scratch.states[s]) : nullptr;
    kernel_(scalars_, n, master, states[0], states[1], grad_at(part_, at), part_.master ? weight : nullptr);
    const RoundingBases bases = rounding_bases(decision_, number, element / block);
    if (forms_[0] != core::Form::f32 && kept[0]) {
      convert_.words(bases.states, element % block, n, scratch.words);
      for (size_t s = 0; s < 2; ++s) {
        if (kept[s]) write(forms_[s], states[s], scratch.words, s == 0 ? 0 : 16, n, kept[s]);
      }
    }
    if (!part_.master) {
      convert_.words(bases.weights, element % block, n, scratch.words);
      write(core::Form::bf16, master, scratch.words, 0, n, weight);
    }
  }

  // The numbers themselves where they are fp32.
  float* read(core::Form form, void* from, int64_t n, float* to) const {
    if (form == core::Form::f32) return static_cast<float*>(from);
    convert_.read[static_cast<size_t>(form)](from, n, to);
    return to;
  }
  void write(core::Form form, const float* from, const uint32_t* words, int shift, int64_t n, void* to) const {
    convert_.write[static_cast<size_t>(form)](from, words, shift, n, to);
  }

  const UnitPart& part_;
  const Decision& decision_;
  typename Rule::Scalars scalars_;
  core::Form forms_[2];
  const FormKernels& convert_;
  typename Kernels::Kernel kernel_;
};

}  // namespace zrt::optimizer::cpu
