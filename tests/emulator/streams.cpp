// Streams and events.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "emulator/queue.h"

using namespace zrt::emulator;

static std::map<cudaEvent_t, std::shared_ptr<EmulatedEvent>> events;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(gate);
  *stream = new EmulatedStream;
  (*stream)->device = current_device();
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

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(gate);
  pump([device = current_device()] {
    return std::all_of(streams.begin(), streams.end(),
                       [&](const EmulatedStream* stream) { return stream->device != device || stream->ops.empty(); });
  });
  return cudaSuccess;
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
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || !is_pinned(word)) return CUDA_ERROR_INVALID_VALUE;
  if (stream->device != current_device()) return static_cast<CUresult>(cudaErrorInvalidResourceHandle);
  if (stream->capture) return static_cast<CUresult>(cudaErrorStreamCaptureUnsupported);
  return static_cast<CUresult>(add(stream, {Op::Kind::value, {}, nullptr, nullptr, word, value}));
}

static CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const std::lock_guard lock(gate);
  auto* word = reinterpret_cast<uint32_t*>(address);
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || !is_pinned(word)) return CUDA_ERROR_INVALID_VALUE;
  if (stream->device != current_device()) return static_cast<CUresult>(cudaErrorInvalidResourceHandle);
  if (stream->capture) return static_cast<CUresult>(cudaErrorStreamCaptureUnsupported);
  run_by_itself();  // another process may wait for it, whose host this one's may wait for
  return static_cast<CUresult>(
      add(stream, {Op::Kind::work, [word, value] { std::atomic_ref(*word).store(value, std::memory_order_release); }}));
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* found) {
  const std::string_view name = symbol;
  *function = name == "cuStreamWaitValue32"    ? reinterpret_cast<void*>(&wait_value)
              : name == "cuStreamWriteValue32" ? reinterpret_cast<void*>(&write_value)
                                               : nullptr;
  *found = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const std::lock_guard lock(gate);
  auto made = std::make_shared<EmulatedEvent>();
  made->device = current_device();
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
  if (stream && stream->device != event->device) return result(cudaErrorInvalidResourceHandle);
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
  if (from->device != to->device) return result(cudaErrorInvalidResourceHandle);
  if (!from->latest->done || !to->latest->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->latest->time - from->latest->time).count();
  return cudaSuccess;
}
