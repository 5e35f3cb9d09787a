// The threads of a block as fibers that take turns on the calling thread. A thread runs until it must wait for others;
// who is next changes from block to block, so that what only works in one order is found.
#include "emulator/block.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "emulator/device.h"

// Goes on with the stack `to`, after leaving what a call must keep on this one, whose top it stores. As setjmp and
// longjmp do, of which sanitizers make system calls.
extern "C" void zrt_emulator_switch(void** from, void* to);
asm(R"(
.text
.type zrt_emulator_switch, @function
zrt_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size zrt_emulator_switch, . - zrt_emulator_switch
)");

namespace zrt::emulator {

Thread now;

namespace {

constexpr size_t stack_bytes = 128 << 10;
constexpr unsigned most_threads = 1024;

struct Fiber {
  std::unique_ptr<std::byte[]> stack{new std::byte[stack_bytes]};
  void* top;  // while others run
  bool done = false;
  uint3 thread;
  std::vector<PendingCopy> copies;
  Products products;
};

struct Warp {
  std::array<std::array<Words, 32>, 2> slots;  // of two exchanges in turn, so that none is overwritten too early
  unsigned parity = 0, arrived = 0;
  uint64_t generation = 0;
};

// The block that runs; one at a time in the whole process.
struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::array<Warp, most_threads / 32> warps;
  unsigned threads = 0, current = 0, finished = 0, arrived = 0, turn_step = 1;
  uint64_t generation = 0;
  bool any = false, any_last = false;
  const std::function<void()>* body = nullptr;
  void* main = nullptr;  // the stack that run_block was called on
  std::string error;
};
Block block;
alignas(1024) std::byte dynamic_shared[256 << 10];
unsigned dynamic_bytes = 0;

void enter(void** from, unsigned next) {
  block.current = next;
  const Fiber& fiber = *block.fibers[next];
  now.thread = fiber.thread;
  now.lane = next % 32;
  zrt_emulator_switch(from, fiber.top);
}

// Goes on with another thread that has not finished; comes back when it is this one's turn again.
void yield() {
  Fiber& own = *block.fibers[block.current];
  unsigned next = block.current;
  for (unsigned i = 0; i < block.threads; ++i) {
    next = (next + block.turn_step) % block.threads;
    if (!block.fibers[next]->done) break;
  }
  if (next != block.current) enter(&own.top, next);
}

// Runs a thread of one block after the other.
void fiber_main() {
  while (true) {
    try {
      (*block.body)();
    } catch (const std::exception& error) {
      block.error = error.what();
    }
    Fiber& own = *block.fibers[block.current];
    own.done = true;
    if (++block.finished == block.threads) {
      zrt_emulator_switch(&own.top, block.main);
      continue;
    }
    // Those who wait at a barrier may now be complete.
    if (block.arrived > 0 && block.arrived == block.threads - block.finished) {
      block.arrived = 0, block.any_last = block.any, block.any = false;
      ++block.generation;
    }
    yield();  // comes back with the next block
  }
}

std::unique_ptr<Fiber> make_fiber() {
  auto fiber = std::make_unique<Fiber>();
  // The stack looks as if the fiber had switched at its beginning: six registers, where to go on, and no caller.
  auto* const end = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(fiber->stack.get() + stack_bytes) / 16 * 16);
  std::fill(end - 8, end, nullptr);
  end[-2] = reinterpret_cast<void*>(&fiber_main);
  fiber->top = end - 8;
  return fiber;
}

void run_block() {
  block.finished = block.arrived = 0;
  block.any = false;
  for (Warp& warp : block.warps) warp.arrived = 0;
  for (unsigned i = 0; i < block.threads; ++i) {
    Fiber& fiber = *block.fibers[i];
    fiber.done = false;
    fiber.copies.clear();
    fiber.products.clear();
    const dim3& extent = now.block_extent;
    fiber.thread = {i % extent.x, i / extent.x % extent.y, i / (extent.x * extent.y)};
  }
  enter(&block.main, 0);
}

}  // namespace

void run_grid(dim3 grid, dim3 extent, size_t shared, const std::function<void()>& thread) {
  block.threads = extent.x * extent.y * extent.z;
  block.body = &thread;
  block.error.clear();
  dynamic_bytes = static_cast<unsigned>(shared);
  while (block.fibers.size() < block.threads) block.fibers.push_back(make_fiber());
  now.block_extent = extent, now.grid_extent = grid;
  unsigned number = 0;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x, ++number) {
        now.block = {x, y, z};
        block.turn_step = number % 2 == 0 ? 1 : block.threads - 1;  // forwards and backwards
        std::memset(dynamic_shared, 0xff, shared);                  // not a number
        run_block();
        if (!block.error.empty()) throw std::runtime_error(block.error);
      }
    }
  }
}

void sync_block() {
  sync_block_or(false);
}

bool sync_block_or(bool value) {
  block.any = block.any || value;
  const uint64_t generation = block.generation;
  if (++block.arrived == block.threads - block.finished) {
    block.arrived = 0, block.any_last = block.any, block.any = false;
    ++block.generation;
  } else {
    while (block.generation == generation) yield();
  }
  return block.any_last;
}

const Words* sync_warp(unsigned mask, const Words& given) {
  Warp& warp = block.warps[block.current / 32];
  auto& slots = warp.slots[warp.parity];
  slots[now.lane] = given;
  const uint64_t generation = warp.generation;
  const unsigned lanes = std::min(32u, block.threads - block.current / 32 * 32);
  const unsigned expected = static_cast<unsigned>(std::popcount(mask & (lanes == 32 ? ~0u : (1u << lanes) - 1)));
  if ((mask >> now.lane & 1u) == 0) throw std::runtime_error("a lane outside the mask took part in a warp's exchange");
  if (++warp.arrived == expected) {
    warp.arrived = 0, warp.parity ^= 1u;
    ++warp.generation;
  } else {
    while (warp.generation == generation) yield();
  }
  return slots.data();
}

std::byte* shared_memory() {
  return dynamic_shared;
}
unsigned shared_bytes() {
  return dynamic_bytes;
}
Products& products() {
  return block.fibers[block.current]->products;
}

void Products::queue(float* to, bool add, const Sums& now, std::function<Sums()> again) {
  if (!begun) throw std::runtime_error("a product follows registers that no begin_products() settled");
  Product product{to, {}, now, std::move(again), true};
  for (const Product& other : queued_) product.first = product.first && (!add || other.to != to);
  if (add && product.first) std::copy_n(to, now.size(), product.before.begin());
  std::fill_n(to, now.size(), std::numeric_limits<float>::quiet_NaN());
  queued_.push_back(std::move(product));
}

void Products::wait(size_t pending) {
  begun = false;
  if (ends_.size() <= pending) return;
  const size_t done = ends_[ends_.size() - pending - 1];
  for (size_t i = 0; i < done; ++i) {
    const Product& product = queued_[i];
    if (const Sums again = product.again(); std::memcmp(again.data(), product.sums.data(), sizeof again) != 0)
      throw std::runtime_error("a tile changed while a product read it");
    if (product.first) std::ranges::copy(product.before, product.to);
    for (size_t j = 0; j < product.sums.size(); ++j) product.to[j] += product.sums[j];
  }
  queued_.erase(queued_.begin(), queued_.begin() + static_cast<std::ptrdiff_t>(done));
  ends_.erase(ends_.begin(), ends_.end() - static_cast<std::ptrdiff_t>(pending));
  for (size_t& end : ends_) end -= done;
}

std::vector<PendingCopy>& pending_copies() {
  return block.fibers[block.current]->copies;
}

}  // namespace zrt::emulator
