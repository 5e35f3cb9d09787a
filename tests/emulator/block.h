// Runs the blocks of a grid, one after the other.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/device.h"

namespace zrt::emulator {

// Calls `thread` for every thread of the grid, with `now` set. Throws what a thread throws. A barrier that some threads
// never reach ends in a deadlock, which is what a GPU would do, too.
void run_grid(dim3 grid, dim3 block, size_t shared, const std::function<void()>& thread);

unsigned shared_bytes();  // dynamic, of the block

// cp.async: the bytes arrive when the thread waits for them, not earlier.
struct PendingCopy {
  std::byte* to;     // null: here a batch ends
  const void* from;  // null: zeros
  unsigned bytes;
};
std::vector<PendingCopy>& pending_copies();  // of the thread whose turn it is

// wgmma: a thread's 32 sums arrive when it waits for the batch that they are of, and are not a number before. What a
// product reads must not change until then.
class Products {
 public:
  using Sums = std::array<float, 32>;
  bool unfenced = false;  // the thread copied to shared memory, and no fence followed
  bool begun = false;     // since it last waited for products

  void queue(float* to, bool add, const Sums& now, std::function<Sums()> again);
  void end_batch() { ends_.push_back(queued_.size()); }
  void wait(size_t pending);
  void clear() { queued_.clear(), ends_.clear(), unfenced = begun = false; }

 private:
  struct Product {
    float* to;
    Sums before, sums;
    std::function<Sums()> again;
    bool first;  // of those that add to the same
  };
  std::vector<Product> queued_;
  std::vector<size_t> ends_;  // of batches, in queued_
};
Products& products();  // of the thread whose turn it is

}  // namespace zrt::emulator
