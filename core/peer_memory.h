// Lets processes of one host work on each other's GPU memory: they open an arena by its handle and read it in place,
// and their streams wait for each other by words of memory that the processes share.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace zrt::core {

using GpuHandle = std::array<std::byte, 64>;
// Makes the handle of memory that core::Arena took on a GPU; any process of this host may open it. Throws core::Error.
GpuHandle gpu_handle(const void* memory);

// Another process's memory, mapped for the calling thread's GPU. A handle can be opened once in a process, and not in
// the one that made it; its maker must not free the memory before this has ended. Throws core::Error where that does
// not work: other containers, GPUs that are not connected.
class PeerMemory {
 public:
  explicit PeerMemory(const GpuHandle& handle);
  ~PeerMemory();  // waits for the work of this process's GPUs
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  const std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// Shared memory of the host that streams of this process may wait for and write to, as long as this lives. `page` and
// `bytes` are multiples of 4096.
class StreamWords {
 public:
  StreamWords(void* page, size_t bytes);
  ~StreamWords();
  StreamWords(const StreamWords&) = delete;
  StreamWords& operator=(const StreamWords&) = delete;

 private:
  void* page_;
};

// Both queue on the stream of the calling thread's place. The word becomes `value` when the stream has come so far, and
// what it wrote before is seen by whoever waits for that.
void write_word(uint32_t* word, uint32_t value);
// Later work of the stream starts once the word is `value` or more, counted cyclically.
void wait_for_word(uint32_t* word, uint32_t value);

}  // namespace zrt::core
