// A library that writes down every kernel and copy of a program on a GPU: the driver loads it where
// CUDA_INJECTION64_PATH names it (CUPTI, "Tracing and Profiling of CUDA applications"). At the program's end the file
// ZRT_KERNEL_LOG has one line for each, in the order of their beginning: nanoseconds from the first, duration in
// nanoseconds, stream, name.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Entry {
  uint64_t start, end;
  uint32_t stream;
  std::string name;
};

std::mutex lock;
// Both live as long as the program, whose end writes them.
std::vector<Entry>& entries() {
  static auto* of = new std::vector<Entry>;
  return *of;
}

std::string plain(const char* name) {
  int status = 0;
  char* text = name ? abi::__cxa_demangle(name, nullptr, nullptr, &status) : nullptr;
  std::string result = text ? text : name ? name : "?";
  std::free(text);
  return result;
}

void give_buffer(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 8 << 20;
  *records = 0;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
}

void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard guard(lock);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      // Records only grow at their end; this form is toolkit 12's.
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      entries().push_back({kernel->start, kernel->end, kernel->streamId, plain(kernel->name)});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      entries().push_back(
          {copy->start, copy->end, copy->streamId, "copy of " + std::to_string(copy->bytes) + " bytes"});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto* set = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      entries().push_back({set->start, set->end, set->streamId, "fill of " + std::to_string(set->bytes) + " bytes"});
    }
  }
  std::free(buffer);
}

void write_log() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard guard(lock);
  const char* path = std::getenv("ZRT_KERNEL_LOG");
  std::FILE* file = std::fopen(path ? path : "kernel_log.tsv", "w");
  if (!file) return;
  std::ranges::sort(entries(), {}, &Entry::start);
  for (const Entry& e : entries()) {
    std::fprintf(file, "%llu\t%llu\t%u\t%s\n", static_cast<unsigned long long>(e.start - entries().front().start),
                 static_cast<unsigned long long>(e.end - e.start), e.stream, e.name.c_str());
  }
  std::fclose(file);
}

}  // namespace

extern "C" int InitializeInjection() {
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS)
      std::fprintf(stderr, "kernel_log: CUPTI refuses activity %d\n", kind);
  }
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  std::atexit(write_log);
  return 1;
}
