// A back end brings matrix products beside kernels, each of which is declared by a line of its own (core/kernel.h).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/device.h"
#include "models/kernels/gemm.h"

namespace zrt::models {

struct Backend {
  std::unique_ptr<Gemm> (*make_gemm)(const GemmSpec& spec);  // throws core::Error when the library has no such product
  std::string (*libraries)();                                // with versions, for the kernel table
  bool products_fuse;                                        // see gemm.h
  int64_t product_stride;                                    // what product_stride() rounds to
};

namespace cpu {
extern const Backend backend;
}  // namespace cpu
namespace cuda {
extern const Backend backend;  // empty in builds without the CUDA Toolkit
}  // namespace cuda

// Throws ConfigError for a device that this build has nothing for.
const Backend& backend(core::DeviceKind device);

}  // namespace zrt::models
