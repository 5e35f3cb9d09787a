// Kinds of faults that a step program can have. Each knows its sites in a program: `apply` breaks the nth one it can
// find and says whether there was one.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/passes/compile.h"

namespace zrt::testing {

// A fault changes these: a rank's programs, and what they are checked against.
struct Broken {
  runtime::ProgramSet set;
  const runtime::Layout* layout = nullptr;
  std::array<uint64_t, core::tier_count> budgets;
};

struct FaultKind {
  std::string name;
  bool everywhere;  // has sites in every step program
  std::function<bool(Broken& broken, size_t n)> apply;
  size_t least = 15;      // sites in all subjects
  size_t named = 2;       // ops that a message names at least
  bool harmless = false;  // may leave a program that does the same; its bits then say so
};

std::vector<FaultKind> memory_faults();   // of lanes, waits, buffers and slots
std::vector<FaultKind> copy_faults();     // of copies between tiers
std::vector<FaultKind> meaning_faults();  // of weights, gradients, microbatches and the order of a step

// Counts the names of ops of the set that stand in quotes in the first line of a message, each as often as it does.
size_t ops_named(const runtime::ProgramSet& set, const std::string& message);

}  // namespace zrt::testing
