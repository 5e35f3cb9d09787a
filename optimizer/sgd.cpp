#include "optimizer/backend.h"

namespace zrt::optimizer {
namespace {

class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdParams& params) : params_(params) {}

  std::vector<UnitState> states(const Unit& unit) const override {
    if (params_.momentum == 0) return {};
    return {element_wise(unit, "momentum_buffer", core::Category::moment1)};
  }

  void update(const Decision& decision, const UnitPart& part) const override { sgd_step(params_, decision, part); }

 private:
  SgdParams params_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_optimizer(const SgdParams& params) {
  return std::make_shared<Sgd>(params);
}

}  // namespace zrt::optimizer
