#include "core/near_memory.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace zrt::core {

bool prefer_memory_of(int node) {
  constexpr int bits = sizeof(unsigned long) * CHAR_BIT, most = 16 * bits;
  if (node < 0 || node >= most) return false;
  unsigned long nodes[most / bits] = {};
  nodes[node / bits] = 1ul << (node % bits);
  // The kernel counts one bit less than it is told of.
  return syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, static_cast<unsigned long>(most) + 1) == 0;
}

}  // namespace zrt::core
