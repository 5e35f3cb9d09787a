#include "core/cuda/backend.h"

#include "core/cuda/nvml.h"
#include "core/error.h"

namespace zrt::core::cuda {

std::optional<std::string> missing() {
  return not_built;
}
std::string description() {
  throw Error(not_built);
}
std::unique_ptr<Stream> make_stream(std::string) {
  throw Error(not_built);
}
std::unique_ptr<Recording> record(std::span<Stream* const>, const std::function<void()>&) {
  throw Error(not_built);
}
void copy_bytes(void*, const void*, uint64_t) {
  throw Error(not_built);
}
void fill_bytes(void*, uint8_t, uint64_t) {
  throw Error(not_built);
}
void* allocate(uint64_t, bool, uint8_t) {
  throw Error(not_built);
}
void release(void*, bool) {}
void read(void*, const void*, uint64_t) {
  throw Error(not_built);
}
std::optional<NvmlMemory> nvml_memory() {
  return std::nullopt;
}
Memory memory() {
  throw Error(not_built);
}

}  // namespace zrt::core::cuda
