// Stands for cuda/ in builds without the CUDA Toolkit: core::require_device has refused the device long before.
#include "models/kernels/candidates.h"

#include "core/cuda/backend.h"
#include "core/error.h"

namespace zrt::models::cuda {

std::string chip_name() {
  throw core::ConfigError(core::cuda::not_built);
}
std::string lt_libraries() {
  throw core::ConfigError(core::cuda::not_built);
}
std::vector<AlgorithmWords> candidates(const GemmSpec&) {
  throw core::ConfigError(core::cuda::not_built);
}
void run_candidate(const GemmSpec&, const AlgorithmWords&, const GemmOperands&) {
  throw core::ConfigError(core::cuda::not_built);
}

}  // namespace zrt::models::cuda
