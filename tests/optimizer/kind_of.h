// Names the optimizer that a test is at, for messages.
#pragma once
#include <typeinfo>

#include "optimizer/optimizer.h"

namespace zrt::testing {

inline const char* kind_of(const optimizer::Optimizer& optimizer) {
  return typeid(optimizer).name();
}

}  // namespace zrt::testing
