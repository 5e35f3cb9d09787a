// Two rounds of sums. Round 0: squares of gradients by row and column, and of weights; its fold updates the statistics
// and leaves factors in the work buffer. Round 1: squares of the direction; its fold leaves each parameter's clipping.
#include <algorithm>
#include <cmath>

#include "optimizer/adafactor_part.h"
#include "optimizer/backend.h"

namespace zrt::optimizer {
namespace {

class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const AdafactorParams& params) : params_(params) {}

  std::vector<UnitState> states(const Unit& unit) const override {
    const AdafactorLayout layout = adafactor_layout(unit);
    UnitState row{"exp_avg_sq_row", core::Category::moment2, false, layout.row_state, {}};
    UnitState column{"exp_avg_sq_col", core::Category::moment2, false, layout.column_state, {}};
    UnitState vector{"exp_avg_sq", core::Category::moment2, false, layout.vectors, {}};
    for (const AdafactorPlace& place : layout.places) {
      std::vector<int64_t> shape = place.param->param->shape;
      if (!place.factored) {
        vector.tensors.push_back({place.param, shape, place.column_state});
        continue;
      }
      std::vector<int64_t> rows(shape.begin(), shape.end() - 1);
      shape.erase(shape.end() - 2);
      row.tensors.push_back({place.param, rows, place.row_state});
      column.tensors.push_back({place.param, shape, place.column_state});
    }
    std::vector<UnitState> states;
    if (params_.momentum) states.push_back(element_wise(unit, "exp_avg", core::Category::moment1));
    for (UnitState* state : {&row, &column, &vector}) {
      if (state->elements > 0) states.push_back(std::move(*state));
    }
    return states;
  }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    const double t = static_cast<double>(decision.updates);
    decision.statistics_beta = 1 - std::pow(t, params_.decay_rate);
    if (!params_.relative_step) return;
    decision.lr = std::min(params_.warmup_init ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  }

  uint32_t rounds() const override { return 2; }
  uint64_t work_bytes(const Unit& unit) const override {
    return unit.params.size() * sizeof(AdafactorScale) +
           static_cast<uint64_t>(adafactor_layout(unit).factors) * sizeof(float);
  }
  uint64_t share_bytes(const Unit& unit, uint32_t round) const override { return adafactor_share_bytes(unit, round); }

  void sum(uint32_t round, const Decision& decision, const UnitPart& part, std::byte* share) const override {
    core::fill_bytes(share, 0, share_bytes(*part.unit, round));
    adafactor_sum(params_, round, decision, part, share);
  }
  void fold(uint32_t round, const Decision& decision, const UnitPart& part, const std::byte* shares,
            int ranks) const override {
    adafactor_fold(params_, round, decision, part, shares, ranks);
  }
  void update(const Decision& decision, const UnitPart& part) const override {
    adafactor_step(params_, decision, part);
  }

 private:
  AdafactorParams params_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_optimizer(const AdafactorParams& params) {
  return std::make_shared<Adafactor>(params);
}

}  // namespace zrt::optimizer
