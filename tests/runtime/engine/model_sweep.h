// Every type of model is put through these: all placements, pipelines, and a run that goes on from a checkpoint.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::testing {

// Wherever states are, whatever is computed again and whenever updates are made, the bits are the same.
inline void check_placements(const models::Model& model, core::DType compute) {
  using runtime::Recompute;
  const std::vector<std::vector<Recompute>> kept{{}, {Recompute::never}, {Recompute::selective}, {Recompute::full}};
  Setting s;
  s.ranks = 2, s.compute = compute, s.accumulation = 2, s.reduce_every = 2, s.steps = 3, s.clip = 0;
  const Outcome reference = run(model, s);
  unsigned turn = 0;
  for (const NamedPlacing& placing : placings()) {
    ++turn;
    if (left_to_processor(turn)) continue;
    s.stage = static_cast<int>(turn % 4);
    s.placement = placing.place;
    s.recompute = kept[turn % 4];
    s.overlap = turn % 2 == 0, s.early_updates = turn % 5 == 0;
    s.unit_elements = turn % 2 ? 3000 : 1 << 20;
    INFO(model.type << ", " << core::dtype_name(compute) << ", " << placing.name << ", stage " << s.stage << ", turn "
                    << turn);
    const Outcome outcome = run(model, s);
    CHECK(outcome.state == reference.state);
    CHECK(outcome.losses == reference.losses);
    CHECK(outcome.planned == outcome.measured);
    CHECK(outcome.planned_behind == outcome.measured_behind);
  }
}

// A pipeline has the bits of no pipeline, whether gradients of weights come later or not.
inline void check_pipelines(const models::Model& model, Setting s) {
  using runtime::ScheduleKind;
  const Outcome reference = run(model, s);
  for (const auto& [kind, stages] : {std::pair{ScheduleKind::one_f_one_b, 3}, {ScheduleKind::zb_h1, 2}}) {
    for (const bool overlap : {false, true}) {
      s.overlap = overlap;
      INFO(model.type << ", " << runtime::schedule_name(kind) << ", expert " << s.expert << ", overlap " << overlap);
      const Outcome outcome = run_pipeline(model, s, kind, stages);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.measured == outcome.planned);
    }
  }
}

// |a - b| / |b| of what a step has changed in each tensor, the largest.
inline double largest_difference(const Outcome& a, const Outcome& b, const Outcome& start) {
  double most = 0;
  for (const auto& [name, begin] : start.tensors) {
    std::vector<float> x(begin.size()), y(begin.size());
    for (size_t i = 0; i < begin.size(); ++i) {
      x[i] = a.tensors.at(name)[i] - begin[i], y[i] = b.tensors.at(name)[i] - begin[i];
    }
    most = std::max(most, relative_l2(x, y));
  }
  return most;
}

// A run that goes on from a checkpoint has the bits of one that did not stop; the checkpoint loads on other ranks.
inline void check_resume(const models::Model& model) {
  Setting s;
  s.ranks = 2, s.stage = 3, s.compute = core::DType::bf16;
  const TemporaryFolder folder;
  SavingRun whole(model, s, folder.path, true);
  whole.steps(2);
  whole.save();
  REQUIRE(whole.saved().error.empty());
  const std::string at_save = whole.hash();
  whole.steps(3);
  const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
  SavingRun again(model, s, folder.path / "again", false, &reader);
  again.steps(3);
  CHECK(again.hash() == whole.hash());
  s.ranks = 3, s.stage = 1;
  CHECK(SavingRun(model, s, folder.path / "other", false, &reader).hash() == at_save);
}

}  // namespace zrt::testing
