#include "core/cuda/backend.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <utility>

#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/ledger.h"

namespace zrt::core::cuda {
namespace {

class CudaEvent : public Event::State {
 public:
  explicit CudaEvent(cudaStream_t stream) {
    ZRT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    const cudaError_t recorded = cudaEventRecord(event, stream);
    if (recorded != cudaSuccess) {
      cudaEventDestroy(event);
      ZRT_CUDA(recorded);
    }
  }
  ~CudaEvent() override { cudaEventDestroy(event); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool done() const override { return cudaEventQuery(event) == cudaSuccess; }
  void wait() const override { cudaEventSynchronize(event); }

  cudaEvent_t event = nullptr;
};

class CudaStream : public Stream {
 public:
  explicit CudaStream(std::string name) : Stream(DeviceKind::cuda, std::move(name)) {
    ZRT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~CudaStream() override { cudaStreamDestroy(stream); }

  void run(std::function<void()> task) override {
    if (error_) return;
    const OnPlace here({DeviceKind::cuda, this});
    try {
      task();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void wait(const Event& event) override {
    if (!event.state()) return;
    ZRT_CUDA(cudaStreamWaitEvent(stream, static_cast<const CudaEvent&>(*event.state()).event, 0));
  }
  Event record() override { return Event(std::make_shared<CudaEvent>(stream)); }
  void synchronize() override {
    const cudaError_t finished = cudaStreamSynchronize(stream);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    check(finished, "work queued on a CUDA stream", name().c_str(), 0);
  }

  cudaStream_t stream = nullptr;

 private:
  std::exception_ptr error_;
};

}  // namespace

void fail(cudaError_t code, const char* expression, const char* file, int line) {
  const std::string text = fmt::format("CUDA: {} ({}) from {} at {}:{}", cudaGetErrorName(code),
                                       cudaGetErrorString(code), expression, file, line);
  if (code == cudaErrorMemoryAllocation) throw MemoryError(text);
  throw Error(text);
}

cudaStream_t stream() {
  const Place& here = place();
  if (here.device != DeviceKind::cuda || here.stream == nullptr) {
    throw Error("a CUDA kernel was called on a thread that has no CUDA stream (core::OnPlace)");
  }
  return static_cast<CudaStream*>(here.stream)->stream;
}

int multiprocessors() {
  static const int count = [] {
    int device = 0, value = 0;
    ZRT_CUDA(cudaGetDevice(&device));
    ZRT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    return value;
  }();
  return count;
}

std::optional<std::string> missing() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return std::nullopt;
  cudaGetLastError();  // the refusal must not surface in a later check
  return fmt::format("no NVIDIA GPU can be used here ({}); use --device cpu, or a machine with a GPU and its driver",
                     code == cudaSuccess ? "the driver lists none" : cudaGetErrorString(code));
}

std::string description() {
  int device = 0, driver = 0, runtime = 0;
  cudaDeviceProp properties;
  ZRT_CUDA(cudaGetDevice(&device));
  ZRT_CUDA(cudaGetDeviceProperties(&properties, device));
  ZRT_CUDA(cudaDriverGetVersion(&driver));
  ZRT_CUDA(cudaRuntimeGetVersion(&runtime));
  return fmt::format("{}, compute capability {}.{}, driver for CUDA {}.{}, runtime {}.{}", properties.name,
                     properties.major, properties.minor, driver / 1000, driver % 1000 / 10, runtime / 1000,
                     runtime % 1000 / 10);
}

std::unique_ptr<Stream> make_stream(std::string name) {
  return std::make_unique<CudaStream>(std::move(name));
}

void copy_bytes(void* to, const void* from, uint64_t bytes) {
  if (bytes > 0) ZRT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()));
}

void fill_bytes(void* to, uint8_t value, uint64_t bytes) {
  if (bytes > 0) ZRT_CUDA(cudaMemsetAsync(to, value, bytes, stream()));
}

void* allocate(uint64_t bytes, bool pinned, uint8_t fill) {
  void* memory = nullptr;
  const cudaError_t code = pinned ? cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) : cudaMalloc(&memory, bytes);
  if (code != cudaSuccess) {
    cudaGetLastError();
    throw MemoryError(fmt::format("{} of {} could not be taken from the {}: {}", pinned ? "pinned memory" : "an arena",
                                  format_bytes(bytes), pinned ? "host" : "GPU", cudaGetErrorString(code)));
  }
  if (pinned) {
    std::memset(memory, fill, bytes);
  } else {
    ZRT_CUDA(cudaMemset(memory, fill, bytes));
    ZRT_CUDA(cudaDeviceSynchronize());  // streams of our own do not wait for the default stream
  }
  return memory;
}

void release(void* memory, bool pinned) {
  if (pinned) {
    cudaFreeHost(memory);
  } else {
    cudaFree(memory);
  }
}

void read(void* to, const void* from, uint64_t bytes) {
  ZRT_CUDA(cudaDeviceSynchronize());
  ZRT_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

Memory memory() {
  size_t free = 0, total = 0;
  ZRT_CUDA(cudaMemGetInfo(&free, &total));
  return {free, total};
}

}  // namespace zrt::core::cuda
