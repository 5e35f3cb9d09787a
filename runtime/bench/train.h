// Whole training steps on random tokens, stage beside stage.
#pragma once
#include <array>

#include "runtime/bench/bench.h"
#include "runtime/bench/ceiling.h"
#include "runtime/engine/executor.h"

namespace zrt::runtime {

struct TrainBenchStage {
  int stage = 0;
  double setup_seconds = 0;  // until the first step: the programs, the memory, the weights
  Spread step_seconds;
  double tokens_per_second = 0, model_flops_per_second = 0;  // of all ranks, from the median
  Spread of_first;  // step time of the first stage ÷ this one's, round by round
  // Model FLOP/s ÷ the ceilings that were measured before and after the round.
  Spread of_ceiling, of_fp32_ceiling, of_matrix_rate;
  // Figures of rank 0: bytes of each tier, and what a step loses and moves.
  std::array<uint64_t, core::tier_count> planned_bytes{}, measured_bytes{};
  double exposed_comm_seconds = 0, exposed_io_seconds = 0;  // medians
  Moved moved;
  // Rates of the copies between host and device in one more step: bytes ÷ seconds in which a copy ran; 0 without any.
  double to_device_bytes_per_second = 0, to_host_bytes_per_second = 0;
};
struct TrainBench {
  std::vector<TrainBenchStage> stages;
  GemmCeiling ceiling;  // measured in turn with the rounds
  // Ceilings of a CPU: fused multiply-adds in registers, and the same products in fp32.
  Spread fma_peak;
  GemmCeiling fp32_ceiling;
  Spread matrix_rate;  // of a GPU; 0 on a CPU
  double flops_per_token = 0;
  int64_t parameters = 0, tokens_per_step = 0;
};
// Steps of every stage in turn within one process; the first round is not counted. Weights come from a table of normal
// numbers over and over: a step takes as long as with those of a run, which take minutes to make for a large model.
// python: a Python with PyTorch, whose products then compete for the ceilings of a CPU; "": none.
TrainBench bench_train(const Config& config, const std::vector<int>& stages, int rounds, const std::string& python,
                       const Progress& progress);

}  // namespace zrt::runtime
