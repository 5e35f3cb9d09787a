// Programs to be broken: every stage, one and two levels, with the choices that change what a step looks like.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::testing {

struct Subject {
  std::string name;
  Setting setting;
  models::Model model;
  runtime::Layout layout;
  runtime::ProgramSet set;
};

inline std::string of(const Islands& groups) {
  if (groups.inner == 1) return "";
  return " in groups of " + std::to_string(groups.inner) + (groups.hierarchical ? ", two levels" : "") +
         (groups.secondary ? ", secondary shards" : "") + (groups.replicated ? ", equal shards" : "");
}

inline std::unique_ptr<Subject> make_subject(Setting s, bool tied, const Islands& groups = {}) {
  auto subject = std::make_unique<Subject>();
  subject->model = make_toy(3, 12, 17, 5, tied, false);
  s.unit_elements = 100, s.bucket = 300, s.groups = groups;
  subject->setting = s;
  subject->layout = make_layout(subject->model, s);
  subject->set = runtime::compile(subject->layout, {"init", "step", "eval", "export"}).set;
  subject->name = "stage " + std::to_string(s.stage) + ", " + std::to_string(s.ranks) + " ranks" + of(groups) + ", " +
                  std::to_string(s.accumulation) + "/" + std::to_string(s.reduce_every) +
                  (s.persistence > 0 ? ", persistent units" : "") + (s.overlap ? ", overlap" : "") +
                  (s.order == runtime::MicrobatchOrder::layer_major ? ", layer-major" : "") +
                  (s.recompute.empty() ? "" : ", computed again") + (s.early_updates ? ", updated early" : "") +
                  (s.late_updates ? ", updated late" : "") + (tied ? ", tied" : "");
  return subject;
}

using Subjects = std::vector<std::unique_ptr<Subject>>;

// Subjects with states, weights and activations on the host and on NVMe.
inline const Subjects& placed_subjects() {
  static const auto all = [] {
    Subjects made;
    for (const NamedPlacing& placing : placings()) {
      for (const int when : {0, 1, 2}) {
        const bool early = when == 1;
        Setting s;
        s.stage = static_cast<int>(1 + made.size() % 3), s.ranks = 2;
        s.accumulation = made.size() % 4 < 2 ? 2 : 1, s.reduce_every = s.accumulation;
        s.overlap = made.size() % 5 < 3, s.early_updates = early, s.clip = early ? 0 : 1;
        s.late_updates = when == 2;
        s.placement = placing.place;
        made.push_back(make_subject(s, made.size() % 2 == 0));
        made.back()->name += ", " + placing.name;
      }
    }
    return made;
  }();
  return all;
}

inline const Subjects& subjects() {
  static const auto all = [] {
    Subjects made;
    auto add = [&](int stage, uint32_t accumulation, uint32_t every, bool overlap, bool tied, int ranks = 2,
                   const Islands& groups = {}, int64_t persistence = 0) {
      Setting s;
      s.stage = stage, s.accumulation = accumulation, s.reduce_every = every, s.overlap = overlap, s.ranks = ranks;
      s.persistence = persistence;
      if (made.size() % 3 == 1) s.compute = core::DType::bf16;
      if (made.size() % 4 == 2) s.optimizer = make_optimizer(optimizer::AdafactorParams{});
      made.push_back(make_subject(s, tied, groups));
    };
    add(0, 3, 3, false, true);
    add(0, 4, 2, true, false);
    add(0, 1, 1, true, true, 3);
    add(1, 1, 1, true, false);
    add(1, 5, 5, false, true, 4);
    add(1, 4, 2, true, true);
    add(2, 4, 2, false, true);
    add(2, 3, 1, true, false, 3);
    add(2, 5, 1, true, true);
    add(3, 4, 1, true, true);
    add(3, 4, 2, true, false);
    add(3, 1, 1, false, false);
    add(3, 6, 3, false, true, 4);
    add(3, 4, 1, true, false, 4, {}, 20);
    const Islands hierarchical{2, true}, secondary{2, false, true}, both{3, true, true},
        replicated{2, false, false, true};
    add(0, 4, 4, true, false, 4, hierarchical);
    add(1, 4, 2, true, true, 4, hierarchical);
    add(2, 4, 2, true, false, 6, hierarchical);
    add(3, 3, 1, true, true, 4, hierarchical);
    add(3, 5, 1, true, false, 4, secondary);
    add(3, 4, 2, false, false, 6, both, 20);
    add(1, 4, 4, true, true, 4, replicated);
    add(2, 4, 1, true, false, 4, replicated);
    add(3, 4, 2, true, true, 6, replicated);
    add(3, 1, 1, true, false, 4, replicated, 20);
    using runtime::MicrobatchOrder;
    auto again = [&](int stage, uint32_t accumulation, uint32_t every, bool tied, const MicrobatchOrder* order) {
      Setting s;
      s.stage = stage, s.accumulation = accumulation, s.reduce_every = every, s.ranks = 2;
      s.overlap = accumulation == 4, s.order = order;
      s.recompute = {runtime::Recompute::full};
      made.push_back(make_subject(s, tied));
    };
    again(0, 3, 3, true, MicrobatchOrder::layer_major);
    again(1, 4, 4, true, MicrobatchOrder::automatic);
    again(2, 4, 2, true, MicrobatchOrder::layer_major);
    again(2, 6, 3, false, MicrobatchOrder::microbatch_major);
    again(3, 4, 1, true, MicrobatchOrder::layer_major);
    again(3, 4, 2, false, MicrobatchOrder::layer_major);
    again(3, 3, 3, true, MicrobatchOrder::microbatch_major);
    auto early = [&](int stage, uint32_t accumulation, uint32_t every, bool tied) {
      Setting s;
      s.stage = stage, s.accumulation = accumulation, s.reduce_every = every, s.ranks = 2, s.early_updates = true;
      s.overlap = tied;
      if (stage == 1) s.recompute = {runtime::Recompute::full};
      made.push_back(make_subject(s, tied));
    };
    early(0, 2, 2, false);
    early(1, 1, 1, true);
    early(2, 4, 2, false);
    early(3, 3, 1, true);
    auto late = [&](int stage, uint32_t accumulation, uint32_t every, bool tied) {
      Setting s;
      s.stage = stage, s.accumulation = accumulation, s.reduce_every = every, s.ranks = 2, s.late_updates = true;
      s.overlap = !tied;
      if (stage == 2) s.optimizer = make_optimizer(optimizer::AdafactorParams{});
      made.push_back(make_subject(s, tied));
    };
    late(0, 2, 2, true);
    late(1, 1, 1, false);
    late(2, 4, 2, true);
    late(3, 3, 1, false);
    return made;
  }();
  return all;
}

}  // namespace zrt::testing
