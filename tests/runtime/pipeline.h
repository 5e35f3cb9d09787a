// Runs of pipelines of which all ranks are threads.
#pragma once
#include <vector>

#include "runtime/program/cut.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"

namespace zrt::testing {

// The stages of a pipeline, each of chunks that are cut behind the blocks that `ends` counts: as many as stages, or
// with several chunks a stage a multiple.
struct Pipeline {
  std::vector<runtime::Layout> layouts;

  Pipeline(const models::Model& model, const Setting& s, const std::vector<size_t>& ends) {
    const auto stages = static_cast<size_t>(s.schedule.stages);
    if (stages == 1) layouts.push_back(make_layout(model, s));
    const auto cut = runtime::blocks_of_stages(ends, stages);
    const int sharing = runtime::stages_that_share(model, cut);
    for (const auto& blocks : cut) {
      if (stages == 1) break;
      layouts.push_back(make_layout(model.part(blocks), s));
      layouts.back().stage.index = static_cast<int>(layouts.size()) - 1;
      layouts.back().stage.sharing = sharing;
    }
  }
  std::vector<runtime::Compiled> compile(const Setting& s) const { return compile(phases_of(s)); }
  std::vector<runtime::Compiled> compile(const std::vector<std::string>& phases) const {
    std::vector<runtime::Compiled> stages;
    stages.reserve(layouts.size());
    for (const runtime::Layout& layout : layouts) stages.push_back(runtime::compile(layout, phases));
    std::vector<const runtime::ProgramSet*> sets;
    std::vector<int> firsts;
    sets.reserve(stages.size());
    for (const runtime::Compiled& stage : stages) {
      sets.push_back(&stage.set);
      firsts.push_back(stage.layout.mesh.first_of(stage.layout.stage.index));
    }
    runtime::verify_collectives(sets, firsts);
    return stages;
  }
};

// Returns ends that cut a model as evenly as can be.
inline std::vector<size_t> even_ends(const models::Model& model, int stages) {
  return runtime::cut_blocks(std::vector<double>(model.blocks.size(), 1), static_cast<size_t>(stages));
}

inline Outcome run_pipeline(const models::Model& model, Setting s, runtime::ScheduleKind kind, int stages,
                            int chunks = 1, int group = 0) {
  s.schedule.kind = kind, s.schedule.stages = stages, s.schedule.chunks = chunks;
  s.schedule.group = group > 0 ? group : chunks > 1 ? stages : 1;
  const Pipeline pipeline(model, s, even_ends(model, stages * chunks));
  return run_stages(pipeline.compile(s), s);
}

}  // namespace zrt::testing
