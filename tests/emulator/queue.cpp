// Work is queued and runs when somebody waits for some of it; among the streams that could go on, one is drawn, so that
// what is not ordered by events happens in any order.
#include "emulator/queue.h"

#include <unistd.h>

#include <algorithm>
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
constexpr size_t queue_length = 1000;

bool can_run(const Op& op) {
  if (op.kind == Op::Kind::value) {
    const uint32_t now = std::atomic_ref(*const_cast<uint32_t*>(op.word)).load(std::memory_order_acquire);
    return static_cast<int32_t>(now - op.value) >= 0;
  }
  if (op.kind == Op::Kind::peers) return op.can();
  return op.kind != Op::Kind::wait || op.mark->done;
}

// With ZRT_EMULATED_QUEUES=1 a GPU takes all streams up by one queue: what was queued first must begin first.
bool one_queue() {
  static const char* const given = std::getenv("ZRT_EMULATED_QUEUES");
  return given && std::atoi(given) == 1;
}

bool stands_behind(const EmulatedStream* stream) {
  return std::any_of(streams.begin(), streams.end(), [stream](const EmulatedStream* other) {
    return other->device == stream->device && !other->ops.empty() &&
           other->ops.front().number < stream->ops.front().number;
  });
}

std::vector<EmulatedStream*> ready_streams(bool& host) {
  std::vector<EmulatedStream*> ready;
  for (EmulatedStream* stream : streams) {
    if (stream->ops.empty() || (one_queue() && stands_behind(stream))) continue;
    if (can_run(stream->ops.front())) {
      ready.push_back(stream);
    } else if (stream->ops.front().kind != Op::Kind::wait) {
      host = true;
    }
  }
  return ready;
}

// One GPU or none lags for a while: it goes on when no other can. Only what it was told to wait for orders it, then.
int lagging = no_memory;

void draw_lagging() {
  const int drawn = static_cast<int>(draw() % (2 * static_cast<unsigned>(device_count())));
  lagging = drawn < device_count() ? drawn : no_memory;
}

void leave_out_lagging(std::vector<EmulatedStream*>& ready) {
  std::erase_if(ready, [](const EmulatedStream* stream) { return stream->device == lagging; });
}

void run_one_of(const std::vector<EmulatedStream*>& all) {
  if (draw() % 32 == 0) draw_lagging();
  std::vector<EmulatedStream*> ready = all;
  leave_out_lagging(ready);
  if (ready.empty()) ready = all;
  EmulatedStream* stream = ready[draw() % ready.size()];
  const Op op = std::move(stream->ops.front());
  stream->ops.pop_front();
  const bool peers = op.kind == Op::Kind::peers;
  if (peers || op.kind == Op::Kind::work) open_memory(op.copies ? all_memory : stream->device);
  if (peers && !op.advance()) return stream->ops.push_front(op);
  try {
    perform(op);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emulator: a kernel failed: %s\n", error.what());
    std::abort();
  }
}

struct Closing {
  ~Closing() { open_memory(no_memory); }
};

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
    case Op::Kind::peers:
      return;
  }
}

void pump(const std::function<bool()>& finished) {
  if (fault || finished()) return;
  const Closing closing;
  Clock::time_point last = Clock::now();
  while (!finished()) {
    bool host = false;  // some stream waits for it, or for another process
    const std::vector<EmulatedStream*> ready = ready_streams(host);
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
    run_one_of(ready);
  }
}

void run_by_itself() {
  static std::jthread runner([](const std::stop_token& stop) {
    std::minstd_rand pauses(static_cast<unsigned>(getpid()));  // others than those of the other processes
    while (!stop.stop_requested()) {
      {
        const std::lock_guard lock(gate);
        const Closing closing;
        if (pauses() % 8 == 0) draw_lagging();
        bool host = false;
        for (auto left = pauses() % 64; left > 0 && !fault; --left) {
          std::vector<EmulatedStream*> ready = ready_streams(host);
          leave_out_lagging(ready);
          if (ready.empty()) break;
          run_one_of(ready);
        }
      }
      // At times all GPUs of this process lag behind its host and the other processes.
      std::this_thread::sleep_for(std::chrono::microseconds(pauses() % 32 == 0 ? 4000 : 100));
    }
  });
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
    static uint64_t queued = 0;
    op.number = ++queued;
    if (stream->ops.size() >= queue_length) {
      std::fprintf(
          stderr,
          "emulator: %zu pieces of work are queued on one stream: a GPU's driver would keep the host in its call, "
          "and with it the threads that this work may wait for\n",
          stream->ops.size());
      std::abort();
    }
    stream->ops.push_back(std::move(op));
  }
  return cudaSuccess;
}

cudaError_t add_with_peers(cudaStream_t stream, std::function<bool()> can, std::function<bool()> advance) {
  if (stream && stream->device != current_device()) return result(cudaErrorInvalidResourceHandle);
  if (stream && stream->capture) return result(cudaErrorStreamCaptureUnsupported);
  Op op{Op::Kind::peers};
  op.can = std::move(can), op.advance = std::move(advance);
  return add(stream, std::move(op));
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
  return add(stream, {Op::Kind::work, [=, body = std::move(thread)] {
                        count_launch();
                        run_grid(grid, block, shared, body);
                      }});
}

// The file that ZRT_EMULATED_LAUNCHES names gets their number when the process ends.
void count_launch() {
  static struct Launches {
    ~Launches() {
      const char* const path = std::getenv("ZRT_EMULATED_LAUNCHES");
      if (std::FILE* const file = path != nullptr ? std::fopen(path, "w") : nullptr) {
        std::fprintf(file, "%llu\n", static_cast<unsigned long long>(count.load()));
        std::fclose(file);
      }
    }
    std::atomic<uint64_t> count{0};
  } launches;
  ++launches.count;
}

}  // namespace zrt::emulator
