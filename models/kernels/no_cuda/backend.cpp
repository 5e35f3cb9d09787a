// Stands for cuda/ in builds without the CUDA Toolkit: core::require_device has refused the device long before.
#include "models/kernels/backend.h"

namespace zrt::models::cuda {

const Backend backend{};

}  // namespace zrt::models::cuda
