// Memory that processes of one machine share: an anonymous file (memfd), opened by the others through
// /proc/<pid>/fd/<file>. Nothing lies in /dev/shm, which containers keep small, and nothing is left behind.
#pragma once
#include <cstddef>
#include <cstdint>

namespace zrt::comm {

class SharedMemory {
 public:
  SharedMemory(const char* name, uint64_t bytes);  // makes it, zeroed. All constructors throw CommError
  // Maps the memory that process `pid` has open as `file`.
  SharedMemory(int pid, int file, uint64_t bytes, bool writable);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  int file() const { return file_; }  // of the maker; -1 elsewhere

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_;
  int file_ = -1;
};

// A new empty memfd. Throws CommError.
int make_memory_file(const char* name);

// A word in shared memory that a rank sleeps on and others ring.
void wait_on(uint32_t* word, uint32_t seen, int64_t nanoseconds);  // until the word is not `seen`, or the time is over
void wake(uint32_t* word);

}  // namespace zrt::comm
