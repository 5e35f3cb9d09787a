#include "optimizer/groups.h"

#include <fnmatch.h>

#include <algorithm>

namespace zrt::optimizer {
namespace {

// Groups differ in what updates read of their hyperparameters, never in what a step decides.
class Grouped : public Optimizer {
 public:
  Grouped(const OptimizerPtr& rest, std::vector<ParamGroup> groups) : groups_(std::move(groups)) {
    members_.push_back(rest);
    for (const ParamGroup& group : groups_) members_.push_back(rest->regrouped(group.weight_decay, group.lr_scale));
  }

  uint32_t group_of(const models::Param& param) const override {
    const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const ParamGroup& group) {
      return std::any_of(group.match.begin(), group.match.end(), [&](const std::string& pattern) {
        return fnmatch(pattern.c_str(), param.name.c_str(), 0) == 0;
      });
    });
    return found == groups_.end() ? 0 : static_cast<uint32_t>(found - groups_.begin()) + 1;
  }
  OptimizerPtr regrouped(std::optional<double> weight_decay, double lr_scale) const override {
    return rest().regrouped(weight_decay, lr_scale);
  }

  std::vector<UnitState> states(const Unit& unit) const override { return of(unit).states(unit); }
  int64_t alignment() const override { return rest().alignment(); }
  bool has_betas() const override { return rest().has_betas(); }
  const char* rate_setting() const override { return rest().rate_setting(); }
  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    rest().decide(rates, progress, decision);
  }
  uint32_t rounds() const override { return rest().rounds(); }
  uint64_t work_bytes(const Unit& unit) const override { return of(unit).work_bytes(unit); }
  uint64_t share_bytes(const Unit& unit, uint32_t round) const override { return of(unit).share_bytes(unit, round); }
  void sum(uint32_t round, const Decision& decision, const UnitPart& shard, std::byte* share) const override {
    of(*shard.unit).sum(round, decision, shard, share);
  }
  void fold(uint32_t round, const Decision& decision, const UnitPart& part, const std::byte* shares,
            int ranks) const override {
    of(*part.unit).fold(round, decision, part, shares, ranks);
  }
  void update(const Decision& decision, const UnitPart& part) const override { of(*part.unit).update(decision, part); }

 private:
  const Optimizer& of(const Unit& unit) const { return *members_[unit.group]; }
  const Optimizer& rest() const { return *members_.front(); }

  std::vector<ParamGroup> groups_;
  std::vector<OptimizerPtr> members_;  // by Unit::group
};

}  // namespace

OptimizerPtr make_grouped(const OptimizerPtr& rest, std::vector<ParamGroup> groups) {
  if (groups.empty()) return rest;
  return std::make_shared<Grouped>(rest, std::move(groups));
}

}  // namespace zrt::optimizer
