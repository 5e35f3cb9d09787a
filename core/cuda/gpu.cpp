#include "core/cuda/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <set>
#include <utility>

#include "core/cuda/backend.h"
#include "core/cuda/cuda.h"
#include "core/error.h"

namespace zrt::core {
namespace cuda {
namespace {

std::array<std::atomic<bool>, most_gpus> used;
std::atomic<bool> any_unconnected = false;
// [from · most_gpus + to]: kernels of `from` read memory of `to`.
std::array<std::atomic<bool>, size_t{most_gpus} * most_gpus> connected;

std::atomic<bool>& connection(int from, int to) {
  return connected[static_cast<size_t>(from) * most_gpus + static_cast<size_t>(to)];
}

bool connectable(int from, int to) {
  int able = 0;
  ZRT_CUDA(cudaDeviceCanAccessPeer(&able, from, to));
  return able != 0;
}

bool connect(int from, int to) {
  if (!connectable(from, to)) return false;
  const OnGpu here(from);
  const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
  if (code != cudaSuccess) cudaGetLastError();  // must not surface as the error of a later call
  // A GPU may have but so many peers: beyond them copies do.
  if (code == cudaErrorTooManyPeers || code == cudaErrorPeerAccessUnsupported) return false;
  if (code != cudaErrorPeerAccessAlreadyEnabled) ZRT_CUDA(code);
  connection(from, to) = true;
  return true;
}

// "GPU-" and 32 digits in groups, as nvidia-smi prints it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

int numa_node(int number) {
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), number) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  std::string name = bus.data();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  int node = -1;
  return std::ifstream(fmt::format("/sys/bus/pci/devices/{}/numa_node", name)) >> node ? node : -1;
}

}  // namespace

void note_use() {
  used[static_cast<size_t>(current_gpu())] = true;
}

void synchronize_gpu_of(const void* memory) {
  cudaPointerAttributes attributes;
  ZRT_CUDA(cudaPointerGetAttributes(&attributes, memory));
  if (attributes.type != cudaMemoryTypeDevice) return synchronize_gpus();
  const OnGpu here(attributes.device);
  ZRT_CUDA(cudaDeviceSynchronize());
}

void synchronize_gpus() {
  for (int number = 0; number < most_gpus; ++number) {
    if (!used[static_cast<size_t>(number)]) continue;
    const OnGpu here(number);
    ZRT_CUDA(cudaDeviceSynchronize());
  }
}

bool unconnected() {
  return any_unconnected;
}

bool reaches(const void* memory) {
  cudaPointerAttributes attributes;
  ZRT_CUDA(cudaPointerGetAttributes(&attributes, memory));
  const int here = current_gpu();
  return attributes.type != cudaMemoryTypeDevice || attributes.device == here || connection(here, attributes.device);
}

}  // namespace cuda

int current_gpu() {
  int number = 0;
  ZRT_CUDA(cudaGetDevice(&number));
  if (number >= cuda::most_gpus) {
    throw Error(fmt::format("GPU {}: at most {} GPUs of a host can be used", number, cuda::most_gpus));
  }
  return number;
}

int gpu_count() {
  cuda::ask_for_queues();
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return std::min(count, cuda::most_gpus);
  cudaGetLastError();
  return 0;
}

GpuInfo gpu_info(int number) {
  cudaDeviceProp properties;
  ZRT_CUDA(cudaGetDeviceProperties(&properties, number));
  return {properties.name, cuda::uuid_text(properties.uuid), cuda::numa_node(number)};
}

std::string gpu_name(int number) {
  cudaDeviceProp properties;
  ZRT_CUDA(cudaGetDeviceProperties(&properties, number));
  return properties.name;
}

uint64_t free_gpu_bytes(int number) {
  const OnGpu here(number);
  return cuda::memory().free;
}

uint64_t total_gpu_bytes(int number) {
  const OnGpu here(number);
  return cuda::memory().total;
}

OnGpu::OnGpu(int number) : before_(current_gpu()) {
  if (number != before_) ZRT_CUDA(cudaSetDevice(number));
}
OnGpu::~OnGpu() {
  cudaSetDevice(before_);
}

namespace {

// "0 and 1, 0 and 2": the pairs of which `connected` is false in either direction.
template <class Connected>
std::string pairs_apart(std::span<const int> numbers, const Connected& connected) {
  std::set<std::pair<int, int>> apart;
  for (const int from : numbers) {
    for (const int to : numbers) {
      if (from != to && !connected(from, to)) apart.insert(std::minmax(from, to));
    }
  }
  std::string text;
  for (const auto& [one, other] : apart) text += fmt::format("{}{} and {}", text.empty() ? "" : ", ", one, other);
  return text;
}

}  // namespace

std::string connect_gpus(std::span<const int> numbers) {
  const std::string apart =
      pairs_apart(numbers, [](int from, int to) { return cuda::connection(from, to) || cuda::connect(from, to); });
  if (!apart.empty()) cuda::any_unconnected = true;
  return apart;
}

std::string unconnectable_gpus(std::span<const int> numbers) {
  return pairs_apart(numbers, cuda::connectable);
}

}  // namespace zrt::core
