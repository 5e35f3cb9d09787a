// Programs to be broken: every stage, one and two levels, with the choices that change what a step looks like.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/two_levels.h"

namespace zrt::testing {

struct Subject {
  std::string name;
  models::Model model;
  runtime::Layout layout;
  runtime::ProgramSet set;
};

inline std::unique_ptr<Subject> make_subject(Setting s, bool tied, int inner = 1) {
  auto subject = std::make_unique<Subject>();
  subject->model = make_toy(3, 12, 17, 5, tied, false);
  s.unit_elements = 100, s.bucket = 300;
  subject->layout = make_layout(subject->model, s);
  subject->set = runtime::compile(subject->layout, {"init", "step", "eval", "export"}).set;
  if (inner > 1) {
    TwoLevels levels(subject->set, subject->layout, inner);
    for (const char* phase : {"step", "eval"}) levels.rewrite(program_of(subject->set, phase));
  }
  subject->name = "stage " + std::to_string(s.stage) + ", " + std::to_string(s.ranks) + " ranks in groups of " +
                  std::to_string(inner) + ", " + std::to_string(s.accumulation) + "/" + std::to_string(s.reduce_every) +
                  (s.overlap ? ", overlap" : "") + (tied ? ", tied" : "");
  return subject;
}

inline const std::vector<std::unique_ptr<Subject>>& subjects() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Subject>> made;
    auto add = [&](int stage, uint32_t accumulation, uint32_t every, bool overlap, bool tied, int ranks = 2,
                   int inner = 1) {
      Setting s;
      s.stage = stage, s.accumulation = accumulation, s.reduce_every = every, s.overlap = overlap, s.ranks = ranks;
      if (made.size() % 3 == 1) s.compute = core::DType::bf16;
      if (made.size() % 4 == 2) s.optimizer = optimizer::AdafactorParams{};
      made.push_back(make_subject(s, tied, inner));
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
    add(3, 3, 1, true, true);
    add(3, 4, 2, true, false);
    add(3, 1, 1, false, false);
    add(3, 6, 3, false, true, 4);
    add(2, 4, 2, true, false, 4, 2);
    add(3, 3, 1, true, true, 4, 2);
    add(3, 4, 2, true, false, 6, 3);
    add(3, 1, 1, false, false, 6, 2);
    return made;
  }();
  return all;
}

}  // namespace zrt::testing
