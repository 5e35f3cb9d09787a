#include "models/kernels/backend.h"

#include "core/error.h"

namespace zrt::models::cuda {

#define ZRT_ADDRESS(name) &cuda::name,

std::unique_ptr<Gemm> make_gemm(const GemmSpec&) {
  throw core::Error("gemm: not on CUDA yet");
}
std::string libraries() {
  return "cuBLASLt";
}

const Backend backend{ZRT_KERNELS(ZRT_ADDRESS) make_gemm, libraries};

}  // namespace zrt::models::cuda
