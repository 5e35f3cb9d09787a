#include "core/isa.h"

namespace zrt::core {

Isa best_isa() {
  return Isa::baseline;
}

}  // namespace zrt::core
