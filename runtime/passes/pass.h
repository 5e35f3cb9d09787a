// A pass is one step on the way from a layout to programs. compile() makes those that apply to a layout, lets each in
// its order rewrite the draft of every phase, and then lets each finish. A pass from outside the library is added with
// register_pass (tools/examples/custom_pass).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/passes/draft.h"
#include "runtime/program/block_plan.h"
#include "runtime/program/memory_plan.h"

namespace zrt::runtime {

// The data that passes share: they read the layout, and write the set and its state buffers.
struct Compilation {
  const Layout& layout;
  std::vector<std::string> phases;  // that are asked for
  Sabotage sabotage;
  std::vector<BlockPlan> blocks;  // of the layout
  ProgramSet set;                 // its programs as soon as all passes have rewritten them
  StateBuffers state;

  bool training() const;  // whether "step" is among the phases
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual void rewrite(Draft&) {}  // the draft of one phase; phase after phase
  virtual void finish() {}         // behind the last phase, when the set has all programs
};

struct PassSpec {
  std::string name;
  bool (*applies)(const Layout& layout);
  std::unique_ptr<Pass> (*make)(Compilation& compilation);  // may add buffers that all phases share
  bool finishes = false;                                    // finish() is what it does, else rewrite()
};

// All passes in order.
const std::vector<PassSpec>& passes();

// Adds a pass behind the one called `behind`. Throws ConfigError where there is none, or already one of this name. Not
// while programs are compiled.
void register_pass(PassSpec pass, std::string_view behind);

}  // namespace zrt::runtime
