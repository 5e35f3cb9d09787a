#include "core/isa.h"

namespace zrt::core {

Isa detected_isa() {
  return Isa::avx2;  // the lowest level, which isa_names calls "generic" here
}

}  // namespace zrt::core
