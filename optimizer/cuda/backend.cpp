#include "optimizer/backend.h"

namespace zrt::optimizer::cuda {

const Backend backend{};

}  // namespace zrt::optimizer::cuda
