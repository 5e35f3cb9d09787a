#include "optimizer/groups.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::optimizer {
namespace {

// The parameters of one group that one optimizer updates.
struct Leaf {
  Takes takes;
  OptimizerPtr optimizer;
  uint32_t member = 0;
};

// Leaves of one member differ in what updates read of their hyperparameters, never in what a step decides.
class Grouped : public Optimizer {
 public:
  // The first `rest` leaves take what none behind them takes. One of each member decides for it.
  Grouped(std::vector<Leaf> leaves, size_t rest, std::vector<OptimizerPtr> members)
      : leaves_(std::move(leaves)), rest_(rest), members_(std::move(members)) {}

  GroupFacts facts(uint32_t group) const override { return leaves_[group].optimizer->facts(0); }
  uint32_t group_of(const models::Param& param, bool hidden) const override {
    const auto find = [&](size_t begin, size_t end) {
      while (begin < end && !leaves_[begin].takes(param, hidden)) ++begin;
      return begin;
    };
    const size_t own = find(rest_, leaves_.size());
    return static_cast<uint32_t>(own < leaves_.size() ? own : find(0, rest_));
  }
  OptimizerPtr regrouped(std::optional<double> weight_decay, double lr_scale) const override {
    std::vector<Leaf> leaves = leaves_;
    for (Leaf& leaf : leaves) leaf.optimizer = leaf.optimizer->regrouped(weight_decay, lr_scale);
    return std::make_shared<Grouped>(std::move(leaves), rest_, members_);
  }
  uint32_t members() const override { return static_cast<uint32_t>(members_.size()); }
  const Optimizer& member(uint32_t m) const override { return *members_[m]; }
  uint32_t member_of(const Unit& unit) const override { return leaves_[unit.group].member; }

  std::vector<UnitState> states_of(const Unit& unit) const override { return of(unit).states(unit); }
  int64_t alignment() const override {
    int64_t most = unit_alignment;
    for (const OptimizerPtr& member : members_) most = std::max(most, member->alignment());
    return most;
  }
  bool has_betas() const override {
    return std::any_of(members_.begin(), members_.end(), [](const auto& member) { return member->has_betas(); });
  }
  const char* rate_setting() const override { return members_.front()->rate_setting(); }
  // Who wants the decision of one of several asks that one.
  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    members_.front()->decide(rates, progress, decision);
  }
  uint32_t rounds(const Unit& unit) const override { return of(unit).rounds(unit); }
  bool shares_sums() const override {
    return std::any_of(members_.begin(), members_.end(), [](const auto& member) { return member->shares_sums(); });
  }
  uint64_t work_bytes(const Unit& unit) const override { return of(unit).work_bytes(unit); }
  uint64_t share_bytes(const Unit& unit, uint32_t round) const override { return of(unit).share_bytes(unit, round); }
  void sum(uint32_t round, const Decision& decision, const UnitPart& shard, std::byte* share) const override {
    of(*shard.unit).sum(round, decision, shard, share);
  }
  void fold(uint32_t round, const Decision& decision, const UnitPart& part, const std::byte* shares,
            int ranks) const override {
    of(*part.unit).fold(round, decision, part, shares, ranks);
  }
  bool refines(uint32_t group) const override { return leaves_[group].optimizer->refines(0); }
  void propose(const Decision& decision, const UnitPart& part) const override {
    of(*part.unit).propose(decision, part);
  }
  uint64_t refine_bytes(const Unit& unit) const override { return of(unit).refine_bytes(unit); }
  double refine_flops(const Unit& unit) const override { return of(unit).refine_flops(unit); }
  void refine(const Unit& unit, float* proposal, std::byte* workspace) const override {
    of(unit).refine(unit, proposal, workspace);
  }
  void update(const Decision& decision, const UnitPart& part) const override { of(*part.unit).update(decision, part); }

  const std::vector<Leaf>& leaves() const { return leaves_; }
  size_t rest() const { return rest_; }
  const std::vector<OptimizerPtr>& all_members() const { return members_; }

 private:
  const Optimizer& of(const Unit& unit) const { return *leaves_[unit.group].optimizer; }

  std::vector<Leaf> leaves_;  // by Unit::group
  size_t rest_;
  std::vector<OptimizerPtr> members_;
};

// Leaves in the making. What is put in may be made of several itself.
class Assembly {
 public:
  // Adds leaves for the parameters that `takes` names.
  void add(const OptimizerPtr& optimizer, const Takes& takes, std::optional<double> weight_decay, double lr_scale) {
    const auto* grouped = dynamic_cast<const Grouped*>(optimizer.get());
    if (!grouped) return add_leaf({takes, optimizer->regrouped(weight_decay, lr_scale), member(optimizer)});
    // Each of its leaves takes the parameters that `optimizer` would give it.
    for (uint32_t g = 0; g < grouped->leaves().size(); ++g) {
      const Leaf& leaf = grouped->leaves()[g];
      add_leaf({[takes, optimizer, g](const models::Param& param, bool hidden) {
                  return takes(param, hidden) && optimizer->group_of(param, hidden) == g;
                },
                leaf.optimizer->regrouped(weight_decay, lr_scale), member(grouped->all_members()[leaf.member])});
    }
  }
  void end_rest() { rest_ = leaves_.size(); }
  OptimizerPtr made() { return std::make_shared<Grouped>(std::move(leaves_), rest_, std::move(members_)); }

 private:
  void add_leaf(Leaf leaf) { leaves_.push_back(std::move(leaf)); }
  uint32_t member(const OptimizerPtr& optimizer) {
    const auto found = std::find(members_.begin(), members_.end(), optimizer);
    if (found != members_.end()) return static_cast<uint32_t>(found - members_.begin());
    if (members_.size() == most_members) {
      throw core::ConfigError(
          fmt::format("a run uses at most {} optimizers side by side, those that an optimizer uses itself included; "
                      "let some groups of parameters share one",
                      most_members));
    }
    members_.push_back(optimizer);
    return static_cast<uint32_t>(members_.size() - 1);
  }

  std::vector<Leaf> leaves_;
  size_t rest_ = 0;
  std::vector<OptimizerPtr> members_;
};

bool all(const models::Param&, bool) {
  return true;
}

}  // namespace

bool ParamGroup::takes(const models::Param& param) const {
  return std::any_of(match.begin(), match.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), param.name.c_str(), 0) == 0; });
}

const ParamGroup* find_group(std::span<const ParamGroup> groups, const models::Param& param) {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const ParamGroup& group) { return group.takes(param); });
  return found == groups.end() ? nullptr : &*found;
}

std::set<std::string, std::less<>> frozen_names(std::span<const ParamGroup> groups, const models::Model& model) {
  std::set<std::string, std::less<>> names;
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    for (int place = 0; place < param.places(); ++place) {
      const models::Param one = param.at(place);
      const ParamGroup* group = find_group(groups, one);
      const bool trains = group && group->trainable ? *group->trainable : model.adapters.rank == 0 || one.adapter;
      if (!trains) names.insert(one.name);
    }
  }
  return names;
}

OptimizerPtr make_grouped(const OptimizerPtr& rest, const std::vector<ParamGroup>& groups) {
  if (groups.empty()) return rest;
  Assembly assembly;
  assembly.add(rest, all, {}, 1);
  assembly.end_rest();
  for (const ParamGroup& group : groups) {
    assembly.add(
        group.optimizer ? group.optimizer : rest,
        [group](const models::Param& param, bool) { return group.takes(param); }, group.weight_decay, group.lr_scale);
  }
  return assembly.made();
}

OptimizerPtr make_split(const OptimizerPtr& rest, const OptimizerPtr& some, const Takes& takes) {
  Assembly assembly;
  assembly.add(rest, all, {}, 1);
  assembly.end_rest();
  assembly.add(some, takes, {}, 1);
  return assembly.made();
}

}  // namespace zrt::optimizer
