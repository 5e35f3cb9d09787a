// The files of the emulated runtime share these: work that is queued, streams, events, graphs, and the lock around
// them.
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace zrt::emulator {

using Clock = std::chrono::steady_clock;

// One completion of an event.
struct Mark {
  bool done = false;
  Clock::time_point time;
  EmulatedGraph* graph = nullptr;  // recorded while capturing
};

struct Op {
  enum class Kind { work, mark, wait, external, value, peers } kind = Kind::work;
  std::function<void()> work;
  std::shared_ptr<Mark> mark;            // of mark and wait
  std::shared_ptr<EmulatedEvent> event;  // of external
  const uint32_t* word = nullptr;        // of value: that the host writes, and what it must reach
  uint32_t value = 0;
  bool copies = false;                 // work that may touch the memory of every GPU, connected or not
  uint64_t number = 0;                 // in the order in which work was queued
  std::function<bool()> can, advance;  // of peers: whether something can be done; does it, true at the end
};

}  // namespace zrt::emulator

struct EmulatedEvent {
  int device = 0;
  std::shared_ptr<zrt::emulator::Mark> latest;
};
struct EmulatedStream {
  int device = 0;
  std::deque<zrt::emulator::Op> ops;
  EmulatedGraph* capture = nullptr;
};
struct EmulatedGraph {
  EmulatedStream* origin = nullptr;
  std::map<EmulatedStream*, std::vector<zrt::emulator::Op>> lanes;
  std::set<zrt::emulator::Mark*> waited;
};
struct EmulatedGraphExec {
  EmulatedGraph graph;
};

namespace zrt::emulator {

// One thread at a time plays the GPU or talks to it; a thread that must wait for the host lets the others in.
class Gate {
 public:
  void lock() {
    mutex_.lock();
    ++depth_;
  }
  void unlock() {
    --depth_;
    mutex_.unlock();
  }
  void pause() {
    const int depth = depth_;
    for (int i = 0; i < depth; ++i) unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    for (int i = 0; i < depth; ++i) lock();
  }

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;  // of the thread that is in
};
extern Gate gate;
extern std::set<EmulatedStream*> streams;
extern std::minstd_rand draw;
extern bool fault;  // a test asked for one (faults.h)

cudaError_t result(cudaError_t code);  // notes it for cudaGetLastError

int current_device();  // of the calling thread
int device_count();

// Runs queued work, of any GPU, until `finished`.
void pump(const std::function<bool()>& finished);
void pump_all();
// Lets work run from here on also while nobody of this process waits for it.
void run_by_itself();
// Adds to the end of a stream's work, or to the graph that it is captured for.
cudaError_t add(cudaStream_t stream, Op op);
// Work that other processes take part in, which may run in several goes.
cudaError_t add_with_peers(cudaStream_t stream, std::function<bool()> can, std::function<bool()> advance);
void perform(const Op& op);

bool is_pinned(const void* p);
bool is_pageable(const void* p);  // neither the GPU's nor pinned

// Opens the memory of all GPUs that work of `device` reaches, of every GPU, or of none, and closes the rest.
inline constexpr int all_memory = -1, no_memory = -2;
void open_memory(int device);

}  // namespace zrt::emulator
