// Transfers between memory and one file, several in flight. The kernel's ways of doing so are back ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace zrt::offload {

struct Transfer {
  bool writes = false;
  uint64_t offset = 0;  // in the file
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

struct Memory {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

class Transfers {
 public:
  struct Done {
    unsigned slot = 0;
    int64_t result = 0;  // bytes moved, which may be fewer than asked for, or minus the errno
  };
  virtual ~Transfers() = default;

  // Slots name transfers in flight and are smaller than the depth. Memory must stay until wait() has returned the slot.
  // Both throw DataError when the kernel refuses the request as such; no further transfer is then begun.
  virtual void start(unsigned slot, const Transfer& transfer) = 0;
  virtual Done wait() = 0;  // the next one that is done, in any order

  // Has the kernel pin this memory, and only this, once for all transfers; returns 0 or the errno, and then nothing is
  // pinned. With nothing in flight.
  virtual int pin(const std::vector<Memory>& memory) = 0;
};

// By io_uring. Null, with the errno in `error`, where this system does not let the process use it.
std::unique_ptr<Transfers> make_uring_transfers(int descriptor, unsigned depth, int& error);
// By pread and pwrite, one at a time within start().
std::unique_ptr<Transfers> make_plain_transfers(int descriptor);

}  // namespace zrt::offload
