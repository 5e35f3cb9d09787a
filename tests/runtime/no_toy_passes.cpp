// Without the CUDA Toolkit no place is a GPU.
#include "core/cuda/backend.h"
#include "core/error.h"
#include "tests/runtime/toy_passes.h"

namespace zrt::testing {

void launch_toy(ToyPass, const ToyCall&) {
  throw core::Error(core::cuda::not_built);
}

}  // namespace zrt::testing
