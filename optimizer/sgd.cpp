#include "optimizer/pieces.h"
#include "optimizer/sgd_kernels.h"

namespace zrt::optimizer {
namespace {

class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdParams& params) : params_(params) {}

  std::vector<UnitState> states(const Unit& unit) const override {
    if (params_.momentum == 0) return {};
    return {element_wise(unit, "momentum_buffer", core::Category::moment1)};
  }

  void update(const Decision& decision, const UnitPart& part) const override {
    const SgdKind kind = params_.momentum == 0 ? SgdKind::plain
                         : params_.nesterov    ? SgdKind::nesterov
                                               : SgdKind::momentum;
    // PyTorch's buffer starts as the first gradient, whatever the dampening.
    const SgdScalars scalars{decision.grad_scale, params_.weight_decay, params_.momentum,
                             decision.updates == 1 ? 1.0f : 1.0f - params_.dampening, static_cast<float>(decision.lr)};
    const SgdKernel kernel =
        sgd_kernels(core::best_isa()).step[static_cast<size_t>(kind)][grad_index(part)][weight_index(part)];
    float* buffer = part.states.empty() ? nullptr : part.states[0];
    for_pieces(part, [&](int64_t first, int64_t count, const void* grad, void* weight) {
      kernel(scalars, count, part.master + first, buffer ? buffer + first : nullptr, grad, weight);
    });
  }

 private:
  SgdParams params_;
};

}  // namespace

const SgdKernels& sgd_kernels(core::Isa isa) {
  return choose_isa(isa, sgd_kernels_baseline, sgd_kernels_v3, sgd_kernels_v4);
}

std::shared_ptr<const Optimizer> make_optimizer(const SgdParams& params) {
  return std::make_shared<Sgd>(params);
}

}  // namespace zrt::optimizer
