#include "core/cuda/flag.h"

#include <memory>
#include <mutex>
#include <vector>

#include "core/cuda/cuda.h"
#include "core/cuda/stream_values.h"

namespace zrt::core::cuda {
namespace {

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free);
// More than programs have waits at a time: pinning memory may wait for the GPU.
constexpr size_t words_at_once = 1 << 16;
// They begin shortly before they wrap, so that every run shows that wrapping is harmless: waits compare cyclically.
constexpr uint32_t first_value = ~0u - 5;

class Pool {
 public:
  Flag take() {
    std::unique_lock lock(mutex_);
    while (free_.empty()) {
      lock.unlock();  // the GPU may wait for threads that want to raise flags
      Word* words = allocate();
      lock.lock();
      add(words);
    }
    Word* word = free_.back();
    free_.pop_back();
    return {word, word->load(std::memory_order_relaxed) + 1};
  }
  void give_back(Word* word) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(word);  // there is room for all
  }

 private:
  static Word* allocate() {
    void* memory = nullptr;
    ZRT_CUDA(cudaHostAlloc(&memory, words_at_once * sizeof(Word), cudaHostAllocPortable | cudaHostAllocMapped));
    return static_cast<Word*>(memory);
  }
  void add(Word* words) {
    total_ += words_at_once;
    free_.reserve(total_);
    for (size_t i = words_at_once; i-- > 0;) free_.push_back(std::construct_at(words + i, first_value));
  }

  std::mutex mutex_;
  size_t total_ = 0;
  std::vector<Word*> free_;
};
// Never freed: streams may still wait for words, and at the end of the program the driver may be gone before them.
Pool& pool() {
  static Pool& pool = *new Pool;
  return pool;
}

}  // namespace

Flag take_flag() {
  return pool().take();
}

void wait_for(cudaStream_t stream, const Flag& flag) {
  wait_value(stream, flag.word, flag.value);
}

void raise(const Flag& flag) noexcept {
  flag.word->store(flag.value, std::memory_order_release);
  pool().give_back(flag.word);
}

}  // namespace zrt::core::cuda
