// Streams, events, memory and graphs. Work is queued and runs when somebody waits for some of it; among the streams
// that could go on, one is drawn, so that what is not ordered by events happens in any order. Memory of the GPU can be
// touched only while work runs: a host that follows a pointer to it ends with a signal.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "emulator/block.h"
#include "emulator/faults.h"

namespace {

using Clock = std::chrono::steady_clock;

// One completion of an event.
struct Mark {
  bool done = false;
  Clock::time_point time;
  EmulatedGraph* graph = nullptr;  // recorded while capturing
};

struct Op {
  enum class Kind { work, mark, wait, external, value } kind = Kind::work;
  std::function<void()> work;
  std::shared_ptr<Mark> mark;            // of mark and wait
  std::shared_ptr<EmulatedEvent> event;  // of external
  const uint32_t* word = nullptr;        // of value: that the host writes, and what it must reach
  uint32_t value = 0;
};

}  // namespace

struct EmulatedEvent {
  std::shared_ptr<Mark> latest;
};
struct EmulatedStream {
  std::deque<Op> ops;
  EmulatedGraph* capture = nullptr;
};
struct EmulatedGraph {
  EmulatedStream* origin = nullptr;
  std::map<EmulatedStream*, std::vector<Op>> lanes;
  std::set<Mark*> waited;
};
struct EmulatedGraphExec {
  EmulatedGraph graph;
};

namespace {

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
Gate gate;
std::set<EmulatedStream*> streams;
std::map<cudaEvent_t, std::shared_ptr<EmulatedEvent>> events;
std::map<const std::byte*, size_t> device_memory, pinned_memory;
std::map<const void*, int> shared_limits;
std::minstd_rand draw{12345};
constexpr std::chrono::minutes longest_wait{5};  // for the host
constexpr size_t total_bytes = size_t{16} << 30, context_bytes = size_t{64} << 20;
thread_local cudaError_t last_error = cudaSuccess;
int running = 0;  // depth of work
// What a test asked for (faults.h); `fault` stays until the test takes it back, as a real one until the process ends.
bool fault = false, no_image = false;

cudaError_t result(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

size_t page_rounded(size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

bool within(const std::map<const std::byte*, size_t>& ranges, const void* p) {
  const auto* at = static_cast<const std::byte*>(p);
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return false;
  --next;
  return at < next->first + next->second;
}

// Opens the GPU's memory as long as it lives.
struct Running {
  Running() {
    if (running++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  ~Running() {
    if (--running == 0) protect(PROT_NONE);
  }
  static void protect(int protection) {
    for (const auto& [memory, bytes] : device_memory) {
      mprotect(const_cast<std::byte*>(memory), page_rounded(bytes), protection);
    }
  }
};

// Opens but the pages of one copy: of a large memory that takes a fraction of the time.
struct OpenPages {
  OpenPages(const void* at, size_t bytes) {
    if (running > 0 || bytes == 0 || !within(device_memory, at)) return;
    const auto from = reinterpret_cast<uintptr_t>(at) / 4096 * 4096;
    begin = reinterpret_cast<void*>(from), size = page_rounded(reinterpret_cast<uintptr_t>(at) + bytes - from);
    mprotect(begin, size, PROT_READ | PROT_WRITE);
  }
  ~OpenPages() {
    if (begin) mprotect(begin, size, PROT_NONE);
  }
  OpenPages(const OpenPages&) = delete;
  OpenPages& operator=(const OpenPages&) = delete;
  void* begin = nullptr;
  size_t size = 0;
};

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

bool can_run(const Op& op) {
  if (op.kind == Op::Kind::value) {
    const uint32_t now = std::atomic_ref(*const_cast<uint32_t*>(op.word)).load(std::memory_order_acquire);
    return static_cast<int32_t>(now - op.value) >= 0;
  }
  return op.kind != Op::Kind::wait || op.mark->done;
}

// Runs queued work until `finished`.
void pump(const std::function<bool()>& finished) {
  if (fault || finished()) return;
  std::optional<Running> open(std::in_place);
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
      open.reset();
      gate.pause();
      open.emplace();
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

// A graph is one piece of work: its lanes in any order that its events allow.
void run_graph(const EmulatedGraph& graph) {
  std::map<const Mark*, bool> done;
  std::vector<std::pair<const std::vector<Op>*, size_t>> lanes;
  for (const auto& [stream, ops] : graph.lanes) lanes.push_back({&ops, 0});
  while (true) {
    std::vector<size_t> ready;
    bool left = false;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].second == lanes[i].first->size()) continue;
      left = true;
      const Op& op = (*lanes[i].first)[lanes[i].second];
      if (op.kind != Op::Kind::wait || done[op.mark.get()]) ready.push_back(i);
    }
    if (!left) return;
    if (ready.empty()) {
      std::fprintf(stderr, "emulator: a graph waits for itself\n");
      std::abort();
    }
    auto& lane = lanes[ready[draw() % ready.size()]];
    const Op& op = (*lane.first)[lane.second++];
    if (op.kind == Op::Kind::mark) {
      done[op.mark.get()] = true;
    } else {
      perform(op);
    }
  }
}

}  // namespace

namespace zrt::emulator {

Fault::Fault() {
  const std::lock_guard lock(gate);
  fault = true;
}
Fault::~Fault() {
  const std::lock_guard lock(gate);
  fault = false;
}
NoImage::NoImage() {
  no_image = true;
}
NoImage::~NoImage() {
  no_image = false;
}
cudaError_t image_error() {
  return no_image ? result(cudaErrorNoKernelImageForDevice) : cudaSuccess;
}

cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(gate);
  return add(stream, {Op::Kind::work, std::move(work)});
}

cudaError_t set_shared_limit(const void* kernel, int bytes) {
  const std::lock_guard lock(gate);
  if (bytes > 227 << 10) return result(cudaErrorInvalidValue);
  shared_limits[kernel] = bytes;
  return cudaSuccess;
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   std::function<void()> thread) {
  const std::lock_guard lock(gate);
  const auto limit = shared_limits.find(kernel);
  const size_t most = limit == shared_limits.end() ? 48 << 10 : static_cast<size_t>(limit->second);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads < 1 || threads > 1024 || grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffffu ||
      grid.y > 65535 || grid.z > 65535 || shared > std::max<size_t>(most, 48 << 10)) {
    return result(cudaErrorInvalidConfiguration);
  }
  return add(stream, {Op::Kind::work, [=, body = std::move(thread)] { run_grid(grid, block, shared, body); }});
}

}  // namespace zrt::emulator

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaSuccess ? "cudaSuccess" : "cudaError of the emulator";
}
const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureUnjoined:
      return "capture has work that the origin does not wait for";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureIsolation:
      return "dependency on uncaptured work in another stream";
    default:
      return "invalid argument";
  }
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", 9, 0, 132};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) {
  return cudaErrorInvalidValue;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(gate);
  size_t used = context_bytes;
  for (const auto& [memory, bytes] : device_memory) used += bytes;
  *total = total_bytes;
  *free = total_bytes - used;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(gate);
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  if (bytes > free) return result(cudaErrorMemoryAllocation);
  void* mapping = mmap(nullptr, page_rounded(bytes), running > 0 ? PROT_READ | PROT_WRITE : PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return result(cudaErrorMemoryAllocation);
  device_memory[static_cast<std::byte*>(mapping)] = bytes;
  *memory = mapping;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(gate);
  pump_all();
  const auto found = device_memory.find(static_cast<std::byte*>(memory));
  if (found == device_memory.end()) return memory ? result(cudaErrorInvalidValue) : cudaSuccess;
  munmap(memory, page_rounded(found->second));
  device_memory.erase(found);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const std::lock_guard lock(gate);
  *memory = std::aligned_alloc(4096, page_rounded(std::max<size_t>(bytes, 1)));
  if (!*memory) return result(cudaErrorMemoryAllocation);
  pinned_memory[static_cast<std::byte*>(*memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(gate);
  pump_all();
  pinned_memory.erase(static_cast<std::byte*>(memory));
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  const std::lock_guard lock(gate);
  if (within(pinned_memory, memory)) return result(cudaErrorInvalidValue);
  pinned_memory[static_cast<std::byte*>(memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(gate);
  return pinned_memory.erase(static_cast<std::byte*>(memory)) == 1 ? cudaSuccess : result(cudaErrorInvalidValue);
}

cudaError_t cudaHostGetDevicePointer(void** address, void* memory, unsigned) {
  const std::lock_guard lock(gate);
  if (!within(pinned_memory, memory)) return result(cudaErrorInvalidValue);
  *address = memory;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(gate);
  pump_all();
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  const std::lock_guard lock(gate);
  const OpenPages source(from, bytes), target(to, bytes);
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  const std::lock_guard lock(gate);
  const OpenPages target(to, bytes);
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const std::lock_guard lock(gate);
  const auto pageable = [](const void* p) { return !within(device_memory, p) && !within(pinned_memory, p); };
  if (stream && stream->capture && (pageable(to) || pageable(from))) return result(cudaErrorStreamCaptureUnsupported);
  if (pageable(from)) {  // read before the call returns
    auto staged = std::make_shared<std::vector<std::byte>>(static_cast<const std::byte*>(from),
                                                           static_cast<const std::byte*>(from) + bytes);
    return add(stream, {Op::Kind::work, [=] { std::memcpy(to, staged->data(), bytes); }});
  }
  const cudaError_t code = add(stream, {Op::Kind::work, [=] { std::memmove(to, from, bytes); }});
  if (code == cudaSuccess && pageable(to)) return cudaStreamSynchronize(stream);
  return code;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(gate);
  return add(stream, {Op::Kind::work, [=] { std::memset(to, value, bytes); }});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(gate);
  *stream = new EmulatedStream;
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(gate);
  pump([&] { return stream->ops.empty(); });
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(gate);
  if (stream->capture) return result(cudaErrorStreamCaptureUnsupported);
  pump([&] { return stream->ops.empty(); });
  return fault ? result(cudaErrorIllegalAddress) : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(gate);
  const std::shared_ptr<Mark> mark = event->latest;
  if (!mark) return cudaSuccess;
  if (mark->graph) {
    if (stream->capture && stream->capture != mark->graph) return result(cudaErrorStreamCaptureIsolation);
    stream->capture = mark->graph;
    mark->graph->waited.insert(mark.get());
  } else if (stream->capture && !mark->done) {
    return result(cudaErrorStreamCaptureIsolation);
  } else if (stream->capture) {
    return result(cudaErrorStreamCaptureIsolation);
  }
  return add(stream, {Op::Kind::wait, {}, mark});
}
static CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const std::lock_guard lock(gate);
  const auto* word = reinterpret_cast<const uint32_t*>(address);
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || !within(pinned_memory, word)) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return static_cast<CUresult>(cudaErrorStreamCaptureUnsupported);
  return static_cast<CUresult>(add(stream, {Op::Kind::value, {}, nullptr, nullptr, word, value}));
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* found) {
  const bool known = std::string_view(symbol) == "cuStreamWaitValue32";
  *function = known ? reinterpret_cast<void*>(&wait_value) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(gate);
  *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(gate);
  if (stream->capture) return result(cudaErrorIllegalState);
  stream->capture = new EmulatedGraph;
  stream->capture->origin = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(gate);
  EmulatedGraph* captured = stream->capture;
  *graph = nullptr;
  if (!captured || captured->origin != stream) return result(cudaErrorIllegalState);
  bool joined = true;
  for (EmulatedStream* other : streams) {
    if (other->capture != captured) continue;
    other->capture = nullptr;
    if (other == stream) continue;
    const auto& ops = captured->lanes[other];
    joined =
        joined && !ops.empty() && ops.back().kind == Op::Kind::mark && captured->waited.count(ops.back().mark.get());
  }
  if (!joined) {
    delete captured;
    return result(cudaErrorStreamCaptureUnjoined);
  }
  *graph = captured;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const std::lock_guard lock(gate);
  auto made = std::make_shared<EmulatedEvent>();
  *event = made.get();
  events[made.get()] = made;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(gate);
  events.erase(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(gate);
  event->latest = std::make_shared<Mark>();
  event->latest->graph = stream->capture;
  return add(stream, {Op::Kind::mark, {}, event->latest});
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const std::lock_guard lock(gate);
  if (flags != cudaEventRecordExternal) return cudaEventRecord(event, stream);
  if (!stream->capture) return result(cudaErrorInvalidValue);
  return add(stream, {Op::Kind::external, {}, nullptr, events.at(event)});
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(gate);
  if (event->latest && event->latest->graph) return result(cudaErrorCapturedEvent);
  if (fault) return result(cudaErrorIllegalAddress);
  return !event->latest || event->latest->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(gate);
  const std::shared_ptr<Mark> mark = event->latest;
  if (mark && mark->graph) return result(cudaErrorCapturedEvent);
  pump([&] { return !mark || mark->done; });
  return fault ? result(cudaErrorIllegalAddress) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const std::lock_guard lock(gate);
  if (!from->latest || !to->latest) return result(cudaErrorInvalidValue);
  if (!from->latest->done || !to->latest->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->latest->time - from->latest->time).count();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(gate);
  *exec = new EmulatedGraphExec{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(gate);
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const std::lock_guard lock(gate);
  pump_all();
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return zrt::emulator::queue(stream, [exec] { run_graph(exec->graph); });
}
