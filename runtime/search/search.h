// Finds the fastest ways to spread a run over its ranks that fit the cluster's memory: estimates all (estimate.h),
// compiles the best and ranks these by the simulated seconds of their programs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/limits.h"
#include "runtime/plan/run_cost.h"
#include "runtime/search/choice.h"

namespace zrt::runtime::search {

struct Found {
  Choice choice;
  double seconds = 0;       // of a step
  double busy_seconds = 0;  // of it the busiest stage computes,
  double comm_seconds = 0;  // waits for communication
  double io_seconds = 0;    // and for copies
  TierBytes peaks{};        // the most of any rank
  // The rest of a step, but for the rounding of sums.
  double idle_seconds() const {
    const double left = seconds - busy_seconds - comm_seconds - io_seconds;
    return left > 1e-9 * seconds ? left : 0;
  }
};

struct Result {
  std::vector<Found> found;  // that fit, the fastest first
  size_t considered = 0;     // choices that are legal
  size_t compiled = 0;
  bool placed = false;    // none of those that were compiled fits with all states on the device: others were tried
  bool offloads = false;  // states or activations of some that fit are elsewhere
  std::string refused;    // why the first choice was refused, where all were
};

// Says how many of the choices at hand are done.
using Progress = std::function<void(const std::string& what, size_t done, size_t all)>;

// Compiles at most `most` choices. Steps of many microbatches are timed by two shorter ones: a turn takes as long as
// any other. Throws ConfigError for a run whose layers share parameters.
Result search(const Task& task, const Cluster& cluster, size_t most, const Progress& progress);

// Says by how much a way is slower than the fastest, and what it loses most by.
std::string loss_text(const Found& found, const Found& first);

// `price` asks what tokens cost at the seconds that were found.
std::string search_text(const Result& result, const Task& task, const Cluster& cluster, const Price& price,
                        const std::string& command);
std::string search_json(const Result& result, const Task& task, const Cluster& cluster, const Price& price);

}  // namespace zrt::runtime::search
