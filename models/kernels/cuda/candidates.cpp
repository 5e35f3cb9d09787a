#include "models/kernels/candidates.h"

#include <bit>

#include "core/cuda/cuda.h"
#include "core/cuda/gpu.h"
#include "models/kernels/cuda/lt.h"

namespace zrt::models::cuda {

std::string chip_name() {
  cudaDeviceProp properties;
  ZRT_CUDA(cudaGetDeviceProperties(&properties, core::current_gpu()));
  return properties.name;
}

std::string lt_libraries() {
  return "cuBLASLt " + lt_version();
}

std::vector<AlgorithmWords> candidates(const GemmSpec& spec) {
  constexpr int most = 64;
  std::vector<AlgorithmWords> words;
  if (spec.fp8) return words;
  const LtProblem problem(spec);
  if (!problem.library_has(lt_wide)) return words;
  for (const cublasLtMatmulAlgo_t& algorithm : problem.algorithms(lt_wide, most)) {
    words.push_back(std::bit_cast<AlgorithmWords>(algorithm));
  }
  return words;
}

void run_candidate(const GemmSpec& spec, const AlgorithmWords& algorithm, const GemmOperands& operands) {
  LtProblem(spec).run(operands, std::bit_cast<cublasLtMatmulAlgo_t>(algorithm));
}

}  // namespace zrt::models::cuda
