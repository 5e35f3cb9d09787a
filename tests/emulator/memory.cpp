// Memory of the GPU, which can be touched only while work runs: a host that follows a pointer to it ends with a signal.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "emulator/queue.h"

namespace zrt::emulator {
namespace {

struct Range {
  size_t bytes;
  int device;
  int file;            // of the memory, by which other processes map it; -1 for another process's
  long maker[2] = {};  // of another process's: its pid and file
};
// The contents of a handle, at its start.
struct Handle {
  long magic, pid, file, bytes, device;
};
constexpr long handle_magic = 0x7a72742d697063;
std::map<const std::byte*, Range> device_memory;
std::map<const std::byte*, size_t> pinned_memory;
std::set<std::pair<int, int>> connected;  // kernels of the first touch memory of the second
constexpr size_t context_bytes = size_t{64} << 20;
constexpr size_t total_bytes = size_t{16} << 30;  // of each GPU
int open_for = no_memory;

size_t bytes_of(size_t bytes) {
  return bytes;
}
size_t bytes_of(const Range& range) {
  return range.bytes;
}

size_t page_rounded(size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

template <class Ranges>
bool within(const Ranges& ranges, const void* p) {
  const auto* at = static_cast<const std::byte*>(p);
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return false;
  --next;
  return at < next->first + bytes_of(next->second);
}

bool opens(int view, int device) {
  return view == all_memory || view == device || connected.contains({view, device});
}

void* map(int file, size_t bytes, int device) {
  return mmap(nullptr, page_rounded(bytes), opens(open_for, device) ? PROT_READ | PROT_WRITE : PROT_NONE,
              MAP_SHARED | MAP_NORESERVE, file, 0);
}

void forget(void* memory) {
  const auto found = device_memory.find(static_cast<std::byte*>(memory));
  munmap(memory, page_rounded(found->second.bytes));
  if (found->second.file >= 0) close(found->second.file);
  device_memory.erase(found);
}

// Opens but the pages of one copy: of a large memory that takes a fraction of the time.
struct OpenPages {
  OpenPages(const void* at, size_t bytes) {
    if (open_for != no_memory || bytes == 0 || !within(device_memory, at)) return;
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

}  // namespace

// Opening and closing takes time for every page: what is open already stays so.
void open_memory(int device) {
  if (device == open_for) return;
  for (const auto& [memory, range] : device_memory) {
    const bool opened = opens(device, range.device);
    if (opened == opens(open_for, range.device)) continue;
    mprotect(const_cast<std::byte*>(memory), page_rounded(range.bytes), opened ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  open_for = device;
}

bool is_pinned(const void* p) {
  return within(pinned_memory, p);
}
bool is_pageable(const void* p) {
  return !within(device_memory, p) && !is_pinned(p);
}

}  // namespace zrt::emulator

using namespace zrt::emulator;

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(gate);
  size_t used = context_bytes;
  for (const auto& [memory, range] : device_memory) used += range.device == current_device() ? range.bytes : 0;
  *total = total_bytes;
  *free = total_bytes - used;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(gate);
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  if (bytes > free) return result(cudaErrorMemoryAllocation);
  const int file = memfd_create("emulated GPU", MFD_CLOEXEC);
  void* mapping = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(page_rounded(bytes))) == 0) mapping = map(file, bytes, current_device());
  if (mapping == MAP_FAILED) {
    close(file);
    return result(cudaErrorMemoryAllocation);
  }
  device_memory[static_cast<std::byte*>(mapping)] = {bytes, current_device(), file};
  *memory = mapping;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(gate);
  pump_all();
  const auto found = device_memory.find(static_cast<std::byte*>(memory));
  if (memory == nullptr) return cudaSuccess;
  if (found == device_memory.end() || found->second.file < 0) return result(cudaErrorInvalidValue);
  forget(memory);
  return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  const std::lock_guard lock(gate);
  const auto found = device_memory.find(static_cast<std::byte*>(memory));
  if (found == device_memory.end() || found->second.file < 0) return result(cudaErrorInvalidValue);
  // The driver's handle is of a page of its own size, which a smaller allocation shares with others.
  if (found->second.bytes % (2 << 20) != 0) return result(cudaErrorInvalidValue);
  const Handle made{handle_magic, getpid(), found->second.file, static_cast<long>(found->second.bytes),
                    found->second.device};
  std::memcpy(handle->reserved, &made, sizeof made);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned flags) {
  const std::lock_guard lock(gate);
  Handle made{};
  std::memcpy(&made, handle.reserved, sizeof made);
  if (made.magic != handle_magic || flags != cudaIpcMemLazyEnablePeerAccess) return result(cudaErrorInvalidValue);
  if (made.pid == getpid()) return result(cudaErrorDeviceUninitialized);
  for (const auto& [begin, range] : device_memory) {
    if (range.maker[0] == made.pid && range.maker[1] == made.file) return result(cudaErrorAlreadyMapped);
  }
  const auto device = static_cast<int>(made.device);
  if (device != current_device()) {
    int able = 0;
    cudaDeviceCanAccessPeer(&able, current_device(), device);
    if (able == 0) return result(cudaErrorPeerAccessUnsupported);
    connected.insert({current_device(), device});
  }
  const std::string path = "/proc/" + std::to_string(made.pid) + "/fd/" + std::to_string(made.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const auto bytes = static_cast<size_t>(made.bytes);
  void* mapping = file < 0 ? MAP_FAILED : map(file, bytes, device);
  close(file);
  if (mapping == MAP_FAILED) return result(cudaErrorInvalidValue);
  device_memory[static_cast<std::byte*>(mapping)] = {bytes, device, -1, {made.pid, made.file}};
  *memory = mapping;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(gate);
  const auto found = device_memory.find(static_cast<std::byte*>(memory));
  if (found == device_memory.end() || found->second.file >= 0) return result(cudaErrorInvalidValue);
  forget(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(gate);
  if (!stream || stream->device != current_device()) return result(cudaErrorInvalidValue);
  return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  const std::lock_guard lock(gate);
  if (!device_memory.contains(static_cast<std::byte*>(memory))) return result(cudaErrorInvalidValue);
  return add(stream, {Op::Kind::work, [memory] { forget(memory); }});
}

cudaError_t cudaDeviceCanAccessPeer(int* able, int device, int peer) {
  const char* given = std::getenv("ZRT_EMULATED_PEERS");
  *able = device != peer && (!given || std::atoi(given) != 0) ? 1 : 0;
  return device < device_count() && peer < device_count() ? cudaSuccess : result(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  const std::lock_guard lock(gate);
  int able = 0;
  cudaDeviceCanAccessPeer(&able, current_device(), peer);
  if (able == 0) return result(cudaErrorInvalidDevice);
  return connected.insert({current_device(), peer}).second ? cudaSuccess : result(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const std::lock_guard lock(gate);
  *attributes = {is_pinned(memory) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered, 0};
  if (within(device_memory, memory)) {
    const auto found = std::prev(device_memory.upper_bound(static_cast<const std::byte*>(memory)));
    *attributes = {cudaMemoryTypeDevice, found->second.device};
  }
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
  if (stream && stream->capture && (is_pageable(to) || is_pageable(from)))
    return result(cudaErrorStreamCaptureUnsupported);
  if (is_pageable(from)) {  // read before the call returns
    auto staged = std::make_shared<std::vector<std::byte>>(static_cast<const std::byte*>(from),
                                                           static_cast<const std::byte*>(from) + bytes);
    Op copy{Op::Kind::work, [=] { std::memcpy(to, staged->data(), bytes); }};
    copy.copies = true;
    return add(stream, std::move(copy));
  }
  Op copy{Op::Kind::work, [=] { std::memmove(to, from, bytes); }};
  copy.copies = true;
  const cudaError_t code = add(stream, std::move(copy));
  const bool on_host = !within(device_memory, to) && !within(device_memory, from) && !(stream && stream->capture);
  // CUDA keeps the host while it copies from host to host, pinned or not.
  if (code == cudaSuccess && (is_pageable(to) || on_host)) return cudaStreamSynchronize(stream);
  return code;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(gate);
  return queue(stream, [=] { std::memset(to, value, bytes); });  // a kernel, on some drivers
}
