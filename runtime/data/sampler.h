// Says which sample each rank reads when. Samples are consumed in order, so a run that stops after n samples resumes
// at sample n whatever its data-parallel size was.
#pragma once
#include <algorithm>
#include <cstdint>

namespace zrt::runtime::data {

struct BatchShape {
  int64_t rows = 1;          // samples of a rank in one microbatch
  int64_t ranks = 1;         // data-parallel
  int64_t microbatches = 1;  // of a rank in one step
  int64_t step_samples() const { return rows * ranks * microbatches; }
};

// Megatron's "single" order: of every rows × ranks samples, rank r takes the r-th run of `rows`. The rank's row i is
// sample first + i. `consumed` samples were used before step 0.
inline int64_t first_sample(const BatchShape& shape, int64_t step, int64_t microbatch, int64_t rank,
                            int64_t consumed = 0) {
  return consumed + step * shape.step_samples() + (microbatch * shape.ranks + rank) * shape.rows;
}

// Evaluation reads every sample once, whatever the number of ranks: the same order, with `count` < rows, possibly 0,
// where the samples run out. Rows from `count` on have no sample and must not enter the loss.
struct EvalBatch {
  int64_t first = 0, count = 0;
};

inline int64_t eval_batches(int64_t samples, int64_t rows, int64_t ranks) {
  return (samples + rows * ranks - 1) / (rows * ranks);
}

inline EvalBatch eval_batch(int64_t samples, int64_t rows, int64_t ranks, int64_t batch, int64_t rank) {
  const int64_t first = (batch * ranks + rank) * rows;
  return {first, std::clamp<int64_t>(samples - first, 0, rows)};
}

}  // namespace zrt::runtime::data
