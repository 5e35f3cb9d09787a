#include "runtime/ops.h"

namespace zrt::runtime {

void run_transfer(const OpCall& call) {
  const Access &from = *call.find(Role::copied), &to = *call.find(Role::copy);
  core::copy_bytes(call.address(to), call.address(from), call.bytes(from));
}

}  // namespace zrt::runtime
