// Steps of one configuration, measured and predicted.
#pragma once
#include "runtime/bench/bench.h"
#include "runtime/plan/simulator.h"

namespace zrt::runtime {

struct PredictBench {
  Simulation predicted;  // of one step
  Spread step_seconds;   // until the last local rank is done
  Spread exposed_comm_seconds;
  double error() const { return predicted.seconds / step_seconds.median - 1; }
};

// Runs `rounds` counted steps of random tokens after one that is not counted. Collective over processes, each of which
// measures its own ranks.
PredictBench bench_predict(const Config& config, const models::Model& model, const Cluster& cluster,
                           comm::Transport& transport, int rounds, const Progress& progress);

}  // namespace zrt::runtime
