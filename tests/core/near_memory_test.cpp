#include "core/near_memory.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "catch.h"

namespace zrt::core::near_memory_test {
namespace {

// The policy of the calling thread, and the first 64 nodes that it names.
std::pair<int, unsigned long> policy() {
  int mode = -1;
  unsigned long nodes[16] = {};
  if (syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8ul, nullptr, 0ul) != 0) return {-1, 0};
  return {mode, nodes[0]};
}

// Tries to choose for the calling thread, and returns whether the system lets it.
bool lets_choose() {
  unsigned long first = 1;
  return syscall(SYS_set_mempolicy, MPOL_PREFERRED, &first, 65ul) == 0;
}

}  // namespace

TEST_CASE("a thread that prefers a node's memory gives that to the threads it starts, and to no other") {
  const std::pair<int, unsigned long> before = policy();
  bool set = false, can = false;
  std::pair<int, unsigned long> own, started;
  std::thread([&] {
    set = prefer_memory_of(0);
    own = policy();
    std::thread([&] { started = policy(); }).join();
  }).join();
  CHECK(policy() == before);
  std::thread([&] { can = lets_choose(); }).join();
  CHECK(set == can);
  if (!can) {
    WARN("this system lets nobody choose a node: this test shows nothing");
    return;
  }
  CHECK(own == std::pair<int, unsigned long>(MPOL_PREFERRED, 1));
  CHECK(started == own);
}

TEST_CASE("a node that is not known, or that the host lacks, changes nothing") {
  std::thread([] {
    const std::pair<int, unsigned long> before = policy();
    for (const int node : {-1, 1000, 1 << 20}) CHECK_FALSE(prefer_memory_of(node));
    CHECK(policy() == before);
  }).join();
}

}  // namespace zrt::core::near_memory_test
