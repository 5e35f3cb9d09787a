// Turns a layout into verified programs with a memory plan: all passes run in order.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/program/block_plan.h"
#include "runtime/program/layout.h"
#include "runtime/program/memory_plan.h"
#include "runtime/program/program.h"
#include "runtime/program/state_buffers.h"

namespace zrt::runtime {

// All that the ranks of a stage of a pipeline run; without a pipeline there is one stage.
struct Compiled {
  Layout layout;
  std::vector<BlockPlan> blocks;  // of the layout
  ProgramSet set;
  StateBuffers state;
  MemoryPlan plan;
  double verify_seconds = 0;
};

// Called behind each pass with what it has made of a phase's draft, and behind one that finishes the set with every
// program.
using AfterPass = std::function<void(const std::string& pass, const ProgramSet& set, const Program& program)>;

// Phases, in the order given: "init", "load", "step", "eval", "decode", "export", "save". "step" brings gradients and
// optimizer states into the arena. Looks kernels up for the calling thread's core::threads(). With `check` false the
// verifier is left out (tests of what happens then).
// A set with "step" also has "refresh" where whole weights are gathered by the step that needs them: it does so for the
// other phases, between steps. With Layout::late_updates() it also has "update", which makes the updates that a step
// has left, so that other phases find the weights of the steps so far.
Compiled compile(const Layout& layout, const std::vector<std::string>& phases, const Sabotage& sabotage = {},
                 bool check = true, const AfterPass& after = {});

}  // namespace zrt::runtime
