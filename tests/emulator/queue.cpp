// Work is queued and runs when somebody waits for some of it; among the streams that could go on, one is drawn, so that
// what is not ordered by events happens in any order.
#include "emulator/queue.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "emulator/block.h"

namespace zrt::emulator {

Gate gate;
std::set<EmulatedStream*> streams;
std::minstd_rand draw{12345};

namespace {

std::map<std::pair<const void*, int>, int> shared_limits;  // by kernel and GPU
constexpr std::chrono::minutes longest_wait{5};            // for the host

bool can_run(const Op& op) {
  if (op.kind == Op::Kind::value) {
    const uint32_t now = std::atomic_ref(*const_cast<uint32_t*>(op.word)).load(std::memory_order_acquire);
    return static_cast<int32_t>(now - op.value) >= 0;
  }
  return op.kind != Op::Kind::wait || op.mark->done;
}

}  // namespace

void perform(const Op& op) {
  switch (op.kind) {
    case Op::Kind::work:
      op.work();
      return;
    case Op::Kind::mark:
      op.mark->time = Clock::now();
      op.mark->done = true;
      return;
    case Op::Kind::external:
      op.event->latest = std::make_shared<Mark>(Mark{true, Clock::now(), nullptr});
      return;
    case Op::Kind::wait:
    case Op::Kind::value:
      return;
  }
}

void pump(const std::function<bool()>& finished) {
  if (fault || finished()) return;
  struct Closing {
    ~Closing() { open_memory(no_memory); }
  } const closing;
  Clock::time_point last = Clock::now();
  while (!finished()) {
    std::vector<EmulatedStream*> ready;
    bool host = false;  // some stream waits for it
    for (EmulatedStream* stream : streams) {
      if (stream->ops.empty()) continue;
      if (can_run(stream->ops.front())) {
        ready.push_back(stream);
      } else if (stream->ops.front().kind == Op::Kind::value) {
        host = true;
      }
    }
    if (ready.empty() && host && Clock::now() - last < longest_wait) {
      open_memory(no_memory);
      gate.pause();
      continue;
    }
    if (ready.empty()) {
      std::fprintf(stderr, "emulator: streams wait for each other for ever\n");
      std::abort();
    }
    last = Clock::now();
    EmulatedStream* stream = ready[draw() % ready.size()];
    const Op op = std::move(stream->ops.front());
    stream->ops.pop_front();
    if (op.kind == Op::Kind::work) open_memory(op.copies ? all_memory : stream->device);
    try {
      perform(op);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "emulator: a kernel failed: %s\n", error.what());
      std::abort();
    }
  }
}

void pump_all() {
  pump([] {
    for (const EmulatedStream* stream : streams) {
      if (!stream->ops.empty()) return false;
    }
    return true;
  });
}

cudaError_t add(cudaStream_t stream, Op op) {
  if (fault) return result(cudaErrorIllegalAddress);
  if (!stream) return result(cudaErrorInvalidValue);
  if (stream->capture) {
    stream->capture->lanes[stream].push_back(std::move(op));
  } else {
    stream->ops.push_back(std::move(op));
  }
  return cudaSuccess;
}

cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(gate);
  if (stream && stream->device != current_device()) return result(cudaErrorInvalidResourceHandle);
  return add(stream, {Op::Kind::work, std::move(work)});
}

cudaError_t set_shared_limit(const void* kernel, int bytes) {
  const std::lock_guard lock(gate);
  if (bytes > 227 << 10) return result(cudaErrorInvalidValue);
  shared_limits[{kernel, current_device()}] = bytes;
  return cudaSuccess;
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   std::function<void()> thread) {
  const std::lock_guard lock(gate);
  if (stream && stream->device != current_device()) return result(cudaErrorInvalidResourceHandle);
  const auto limit = shared_limits.find({kernel, current_device()});
  const size_t most = limit == shared_limits.end() ? 48 << 10 : static_cast<size_t>(limit->second);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads < 1 || threads > 1024 || grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffffu ||
      grid.y > 65535 || grid.z > 65535 || shared > std::max<size_t>(most, 48 << 10)) {
    return result(cudaErrorInvalidConfiguration);
  }
  return add(stream, {Op::Kind::work, [=, body = std::move(thread)] { run_grid(grid, block, shared, body); }});
}

}  // namespace zrt::emulator
