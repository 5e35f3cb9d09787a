// Streams, events and recordings of a GPU.
#include "core/stream.h"

#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "core/cpu/event.h"
#include "core/cuda/backend.h"
#include "core/cuda/cuda.h"
#include "core/cuda/flag.h"
#include "core/cuda/gpu.h"
#include "core/error.h"

namespace zrt::core::cuda {
namespace {

bool recording(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ZRT_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

class CudaEvent : public Event::State {
 public:
  CudaEvent(cudaStream_t stream, bool timed) {
    // A CPU stream that waits for it must sleep, not spin: other threads of the rank compute meanwhile.
    ZRT_CUDA(
        cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming | cudaEventBlockingSync));
    // While work is being recorded, an event with a time becomes a node of the graph and gets a new time in each
    // replay.
    const bool external = timed && recording(stream);
    const cudaError_t recorded =
        external ? cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal) : cudaEventRecord(event, stream);
    if (recorded == cudaSuccess) return;
    cudaEventDestroy(event);
    ZRT_CUDA(recorded);
  }
  ~CudaEvent() override { cudaEventDestroy(event); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // A fault of the device ends every event; taken for completion, lanes of the host would go on with what was never
  // computed.
  bool done() const override {
    const cudaError_t code = cudaEventQuery(event);
    if (code == cudaErrorNotReady) {
      cudaGetLastError();  // no error, and must not surface as one
      return false;
    }
    check(code, "work before a CUDA event", __FILE__, __LINE__);
    return true;
  }
  void wait() const override { check(cudaEventSynchronize(event), "work before a CUDA event", __FILE__, __LINE__); }
  double seconds_since(const State& earlier) const override {
    float milliseconds = 0;
    ZRT_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<const CudaEvent&>(earlier).event, event));
    return static_cast<double>(milliseconds) * 1e-3;
  }
  double seconds(const Anchor& anchor) const override { return anchor.seconds + seconds_since(*anchor.event.state()); }

  cudaEvent_t event = nullptr;
};

// Keeps what is queued on a stream below what the driver takes: 1,020 pieces of work on an H200. Beyond it the host
// waits inside its call, and a run with states on NVMe, whose stream waited for a lane of the host, stood still for
// good. Here the host waits outside, for the stream to come on.
class Backlog {
 public:
  Backlog() = default;
  ~Backlog() {
    for (const cudaEvent_t mark : marks_) {
      if (mark) cudaEventDestroy(mark);
    }
  }
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  // Is called before a piece of work is queued.
  void note(cudaStream_t stream) {
    if (++pieces_ % pieces_per_mark != 0) return;
    cudaEvent_t& mark = marks_[pieces_ / pieces_per_mark % marks_.size()];
    if (mark) {
      cudaEventSynchronize(mark);  // a fault of the device shows where the stream is waited for
    } else {
      ZRT_CUDA(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming | cudaEventBlockingSync));
    }
    ZRT_CUDA(cudaEventRecord(mark, stream));
  }

 private:
  // Streams may share a queue of the driver.
  static constexpr uint64_t pieces_per_mark = 64;
  uint64_t pieces_ = 0;
  std::array<cudaEvent_t, 4> marks_{};
};

class CudaStream : public Stream {
 public:
  explicit CudaStream(std::string name) : Stream(DeviceKind::cuda, std::move(name)), gpu(current_gpu()) {
    note_use();
    ZRT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~CudaStream() override { cudaStreamDestroy(stream); }

  // A piece of work is about to be queued. A recording has none until it is replayed.
  void note() {
    if (!recorded) backlog_.note(stream);
  }

  void run(std::function<void()> task) override {
    if (error) return;
    const OnGpu of_stream(gpu);
    const OnPlace here({DeviceKind::cuda, this});
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
  }
  void wait(const Event& event) override {
    if (!event.state()) return;
    const OnGpu of_stream(gpu);
    note();
    if (auto* of_host = dynamic_cast<CpuEvent*>(event.state().get())) return wait_for_host(*of_host);
    ZRT_CUDA(cudaStreamWaitEvent(stream, static_cast<const CudaEvent&>(*event.state()).event, 0));
  }
  Event record() override { return make_event(false); }
  Event record_time() override { return make_event(true); }
  void synchronize() override {
    const cudaError_t finished = cudaStreamSynchronize(stream);
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    check(finished, "work queued on a CUDA stream", name().c_str(), 0);
  }

  const int gpu;
  cudaStream_t stream = nullptr;
  std::exception_ptr error;
  bool recorded = false;  // its work is being recorded

 private:
  Event make_event(bool timed) {
    const OnGpu of_stream(gpu);
    note();
    return Event(std::make_shared<CudaEvent>(stream, timed));
  }
  void wait_for_host(CpuEvent& event) {
    if (recording(stream)) {
      throw Error("a recording cannot wait for a CPU stream: replays would not wait again; give its work each time");
    }
    if (event.done()) return;
    const Flag flag = take_flag();
    event.then([flag] { raise(flag); });
    wait_for(stream, flag);
  }

  Backlog backlog_;
};

class CudaRecording : public Recording {
 public:
  explicit CudaRecording(cudaGraph_t graph) { ZRT_CUDA(cudaGraphInstantiate(&graph_, graph, 0)); }
  ~CudaRecording() override { cudaGraphExecDestroy(graph_); }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  void replay(Stream& stream) override {
    const OnGpu of_stream(static_cast<CudaStream&>(stream).gpu);
    ZRT_CUDA(cudaGraphLaunch(graph_, static_cast<CudaStream&>(stream).stream));
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

cudaStream_t stream() {
  const Place& here = place();
  if (here.device != DeviceKind::cuda || here.stream == nullptr) {
    throw Error("a CUDA kernel was called on a thread that has no CUDA stream (core::OnPlace)");
  }
  auto& stream = static_cast<CudaStream&>(*here.stream);
  stream.note();
  return stream.stream;
}

std::unique_ptr<Stream> make_stream(std::string name) {
  return std::make_unique<CudaStream>(std::move(name));
}

std::unique_ptr<Recording> record(std::span<Stream* const> streams, const std::function<void()>& give) {
  for (const Stream* stream : streams) {
    if (stream->device() == DeviceKind::cuda) continue;
    throw Error("only streams of a GPU can be recorded, not '" + stream->name() + "'");
  }
  cudaStream_t first = static_cast<CudaStream*>(streams[0])->stream;
  const OnGpu of_streams(static_cast<CudaStream*>(streams[0])->gpu);
  // Other threads of this process may be ranks of their own, whose calls must not end this recording.
  ZRT_CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  for (Stream* stream : streams) static_cast<CudaStream*>(stream)->recorded = true;
  std::exception_ptr error;
  try {
    const Event begin = streams[0]->record();
    for (Stream* other : streams.subspan(1)) other->wait(begin);
    give();
    for (Stream* other : streams.subspan(1)) streams[0]->wait(other->record());
  } catch (...) {
    error = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(first, &graph);
  for (Stream* stream : streams) {
    auto& of_stream = static_cast<CudaStream*>(stream)->error;
    if (of_stream && !error) error = of_stream;
    of_stream = nullptr;
    static_cast<CudaStream*>(stream)->recorded = false;
  }
  if (error || ended != cudaSuccess) {
    cudaGetLastError();
    if (graph) cudaGraphDestroy(graph);
    if (error) std::rethrow_exception(error);
    ZRT_CUDA(ended);
  }
  std::unique_ptr<Recording> recording;
  try {
    recording = std::make_unique<CudaRecording>(graph);
  } catch (...) {
    cudaGraphDestroy(graph);
    throw;
  }
  cudaGraphDestroy(graph);
  return recording;
}

}  // namespace zrt::core::cuda
