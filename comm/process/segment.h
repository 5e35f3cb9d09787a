// The processes of one machine share a segment about one group: bells to sleep on, rings of frames, the reason of an
// abort, and the last flight records of every rank, so that survivors can print those of a rank that no longer answers.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/process/channel.h"
#include "comm/process/shared_memory.h"
#include "core/peer_memory.h"

namespace zrt::comm {

class Segment {
 public:
  explicit Segment(int members);            // makes it
  Segment(int pid, int file, int members);  // opens that of the process that made it
  int file() const { return memory_.file(); }

  // Sleeping and waking. `seen` is the bell's value before the caller last looked for what it waits for.
  uint32_t bell(int member) const;
  void sleep(int member, uint32_t seen, int64_t nanoseconds);
  void ring(int member);

  // A rank that waits says so now and then; one that is stopped goes quiet.
  void set_waiting(int member, bool waiting);
  bool is_waiting(int member) const;  // said so within the last second

  // The first reason stays. "" before that.
  void abort(const std::string& reason);
  std::string reason() const;
  bool claim();  // true for the first caller of all processes

  void keep_record(int member, const FlightRecord& record);  // of that member only
  std::vector<FlightRecord> records(int member) const;       // oldest first

  // The stream between two members, seen from `member`.
  std::unique_ptr<Channel> channel(int member, int peer);

  // The word that counts what a member's stream has reached, for the streams of all; they may use it from the first
  // call in this process on. Throws core::Error where there is no GPU.
  uint32_t* reached(int member);
  uint32_t reached_now(int member) const;
  // Streams that wait for a member's word go on where it is behind `own`, what the caller's has reached.
  void release(int member, uint32_t own);

  struct Layout;  // of the shared memory

 private:
  Layout& layout() const;
  SharedMemory memory_;
  int members_;
  std::once_flag streams_;
  std::unique_ptr<core::StreamWords> words_;
};

}  // namespace zrt::comm
