// The algorithms that `zrt bench tune` chooses among, of GPUs alone.
#pragma once
#include <string>
#include <vector>

#include "core/device.h"
#include "models/kernels/kernel_file.h"

namespace zrt::models {

// Every product that find_gemm() has made for the device, in the order of their text.
std::vector<GemmSpec> found_products(core::DeviceKind device);

namespace cuda {

std::string chip_name();     // of the current device: "NVIDIA H200"
std::string lt_libraries();  // "cuBLASLt 13.0.2"

// The library's deterministic algorithms for a product of operands on 16 bytes, the one that runs without a file first.
// Empty where the product is composed of passes or rounds its operands first.
std::vector<AlgorithmWords> candidates(const GemmSpec& spec);
// Queues the product on the calling thread's stream.
void run_candidate(const GemmSpec& spec, const AlgorithmWords& algorithm, const GemmOperands& operands);

}  // namespace cuda
}  // namespace zrt::models
