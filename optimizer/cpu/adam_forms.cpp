// Adam with states in other forms than fp32: a block at a time comes to fp32 on the stack, goes through the same kernel
// as all others, and back.
#include "optimizer/adam_forms.h"

#include "optimizer/backend.h"
#include "optimizer/element_kernels.h"
#include "optimizer/form_kernels.h"
#include "optimizer/pieces.h"

namespace zrt::optimizer {

const FormKernels& form_kernels(core::Isa isa) {
  return core::choose_isa(isa, form_kernels_v3, form_kernels_v4);
}

namespace cpu {
namespace {

constexpr int64_t block = core::form_block;

// What one block works on.
struct Scratch {
  alignas(64) float master[block], first[block], second[block];
  alignas(64) uint32_t words[block];
};

class Stepper {
 public:
  Stepper(const AdamParams& params, const Decision& decision, const UnitPart& part)
      : part_(part),
        decision_(decision),
        scalars_(AdamRule::scalars(params, decision)),
        forms_(moment_forms(params.moments)),
        convert_(form_kernels(core::best_isa())),
        kernel_(adam_kernels(core::best_isa())
                    .step[AdamRule::variant(params)][grad_index(part)]
                         [part.master ? weight_index(part) : size_t{no_weight_copy}]) {}

  // `element` of the parameter `number` is number `at` of the part; it and those behind it lie in one block.
  void run(Scratch& scratch, uint32_t number, int64_t element, int64_t at, int64_t n) const {
    std::byte *first = form_at(part_, 0, forms_.first, at), *second = form_at(part_, 1, forms_.second, at);
    void* weight = weight_at(part_, at);
    float* master = part_.master ? part_.master + at : read(core::Form::bf16, weight, n, scratch.master);
    float* const moment1 = read(forms_.first, first, n, scratch.first);
    float* const moment2 = read(forms_.second, second, n, scratch.second);
    kernel_(scalars_, n, master, moment1, moment2, grad_at(part_, at), part_.master ? weight : nullptr);
    const RoundingBases bases = rounding_bases(decision_, number, element / block);
    if (forms_.first != core::Form::f32) {
      convert_.words(bases.states, element % block, n, scratch.words);
      convert_.write[static_cast<size_t>(forms_.first)](moment1, scratch.words, 0, n, first);
      convert_.write[static_cast<size_t>(forms_.second)](moment2, scratch.words, 16, n, second);
    }
    if (!part_.master) {
      convert_.words(bases.weights, element % block, n, scratch.words);
      convert_.write[static_cast<size_t>(core::Form::bf16)](master, scratch.words, 0, n, weight);
    }
  }

 private:
  // The numbers themselves where they are fp32.
  float* read(core::Form form, void* from, int64_t n, float* to) const {
    if (form == core::Form::f32) return static_cast<float*>(from);
    convert_.read[static_cast<size_t>(form)](from, n, to);
    return to;
  }

  const UnitPart& part_;
  const Decision& decision_;
  AdamScalars scalars_;
  MomentForms forms_;
  const FormKernels& convert_;
  AdamKernels::Kernel kernel_;
};

}  // namespace

void adam_forms_step(const AdamParams& params, const Decision& decision, const UnitPart& part) {
  if (decision.skip) return;
  const Stepper stepper(params, decision, part);
  for_parameters(part, [&](uint32_t number, int64_t element, int64_t at, int64_t count) {
    const int64_t first = element / block, last = (element + count - 1) / block;
    core::parallel_for(last - first + 1, 1, [&](int64_t begin, int64_t end) {
      Scratch scratch;
      for (int64_t b = first + begin; b < first + end; ++b) {
        const int64_t from = std::max(element, b * block), to = std::min(element + count, (b + 1) * block);
        stepper.run(scratch, number, from, at + from - element, to - from);
      }
    });
  });
}

}  // namespace cpu
}  // namespace zrt::optimizer
