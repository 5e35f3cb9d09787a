#include "comm/thread_group.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <utility>

#include "comm/reduce.h"
#include "comm/thread/meeting.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

size_t bytes_of(int64_t count, DType type) {
  return static_cast<size_t>(count) * core::dtype_size(type);
}
const std::byte* at(const void* data, size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* at(void* data, size_t offset) {
  return static_cast<std::byte*>(data) + offset;
}
// memcpy with null pointers is undefined even for 0 bytes.
void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  const std::string& group() const override { return meeting_->group(); }

  void all_reduce(void* data, int64_t count, DType type, std::string_view label) override {
    const CallRange range{data, data, count, false};
    const int64_t own = slice_begin(count, rank_ + 1) - slice_begin(count, rank_);
    const uint64_t elements = elements_of(own * (size() - 1) + count - own);
    run(OpKind::all_reduce, type, type, 0, label, {&range, 1}, elements, [&] {
      reduce_slice();
      meeting_->meet(rank_);
      pull_slices();
    });
  }

  void reduce_scatter(std::span<const ReduceRange> ranges, DType from, DType to, std::string_view label) override {
    std::vector<CallRange> list;
    uint64_t elements = 0;
    for (const ReduceRange& range : ranges) {
      list.push_back({range.source, range.target, range.shard, range.accumulate});
      elements += elements_of(range.shard * (size() - 1));
    }
    run(OpKind::reduce_scatter, from, to, 0, label, list, elements, [&] { reduce_shards(); });
  }

  void all_gather(std::span<const GatherRange> ranges, DType type, std::string_view label) override {
    std::vector<CallRange> list;
    uint64_t elements = 0;
    for (const GatherRange& range : ranges) {
      list.push_back({range.source, range.target, range.shard, false});
      elements += elements_of(range.shard * (size() - 1));
    }
    run(OpKind::all_gather, type, type, 0, label, list, elements, [&] { pull_shards(); });
  }

  void all_to_all(const void* source, void* target, int64_t count, DType type, std::string_view label) override {
    const CallRange range{source, target, count, false};
    run(OpKind::all_to_all, type, type, 0, label, {&range, 1}, elements_of(count * (size() - 1)),
        [&] { pull_blocks(); });
  }

  void broadcast(void* data, int64_t count, DType type, int root, std::string_view label) override {
    const CallRange range{data, data, count, false};
    run(OpKind::broadcast, type, type, root, label, {&range, 1}, rank_ == root ? 0 : elements_of(count),
        [&] { copy(data, meeting_->call(root).ranges[0].source, bytes_of(count, type)); });
  }

  void send_recv(std::span<const Message> sends, std::span<const Message> receives, std::string_view label) override;

  void barrier(std::string_view label) override {
    run(OpKind::barrier, DType::u8, DType::u8, 0, label, {}, 0, [] {});
  }

  void abort(const std::string& reason) override { meeting_->abort(reason); }
  Counters counters() const override { return meeting_->counters(rank_); }
  std::vector<FlightRecord> flight_records() const override { return meeting_->flight_records(rank_); }

 private:
  template <class Work>
  void run(OpKind kind, DType from, DType to, int root, std::string_view label, std::span<const CallRange> ranges,
           uint64_t elements, const Work& work, std::span<const Message> sends = {},
           std::span<const Message> receives = {});
  void reduce_slice();
  void pull_slices();
  void reduce_shards();
  void pull_shards();
  void pull_blocks();
  void pull_messages();

  // all_reduce gives rank r the elements [slice_begin(r), slice_begin(r + 1)).
  int64_t slice_begin(int64_t count, int rank) const { return count / size() * rank + count % size() * rank / size(); }
  static uint64_t elements_of(int64_t count) { return static_cast<uint64_t>(count < 0 ? 0 : count); }
  int next(int step) const { return (rank_ + step) % size(); }  // starts everybody at another peer
  const Call& own_call() const { return meeting_->call(rank_); }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

template <class Work>
void ThreadCommunicator::run(OpKind kind, DType from, DType to, int root, std::string_view label,
                             std::span<const CallRange> ranges, uint64_t elements, const Work& work,
                             std::span<const Message> sends, std::span<const Message> receives) {
  meeting_->open(rank_, [&](Call& call) {
    call.kind = kind, call.from = from, call.to = to, call.root = root;
    call.label.assign(label);
    call.ranges.assign(ranges.begin(), ranges.end());
    call.sends.assign(sends.begin(), sends.end());
    call.receives.assign(receives.begin(), receives.end());
    return Meeting::Traffic{elements, elements * core::dtype_size(from)};
  });
  try {
    work();
  } catch (const core::CommError&) {
    throw;  // from a meeting, which all members have left
  } catch (const std::exception& error) {
    meeting_->fail(rank_, fmt::format("group {}: {} \"{}\" failed on rank {}: {}", group(), op_name(kind), label, rank_,
                                      error.what()));
  }
  meeting_->close(rank_);
}

// Sums this rank's slice in place: no other rank reads or writes it in this rank's buffer until the next meeting.
void ThreadCommunicator::reduce_slice() {
  const Call& call = own_call();
  const CallRange& range = call.ranges[0];
  const int64_t begin = slice_begin(range.count, rank_), end = slice_begin(range.count, rank_ + 1);
  std::vector<const void*> sources;
  for (int r = 0; r < size(); ++r) {
    sources.push_back(at(meeting_->call(r).ranges[0].source, bytes_of(begin, call.from)));
  }
  reduce(sources, call.from, at(range.target, bytes_of(begin, call.from)), call.from, false, end - begin);
}

void ThreadCommunicator::pull_slices() {
  const Call& call = own_call();
  const CallRange& range = call.ranges[0];
  for (int step = 1; step < size(); ++step) {
    const int peer = next(step);
    const size_t begin = bytes_of(slice_begin(range.count, peer), call.from);
    const size_t end = bytes_of(slice_begin(range.count, peer + 1), call.from);
    copy(at(range.target, begin), at(meeting_->call(peer).ranges[0].source, begin), end - begin);
  }
}

void ThreadCommunicator::reduce_shards() {
  const Call& call = own_call();
  std::vector<const void*> sources(static_cast<size_t>(size()));
  for (size_t i = 0; i < call.ranges.size(); ++i) {
    const CallRange& range = call.ranges[i];
    const size_t own = bytes_of(range.count, call.from) * static_cast<size_t>(rank_);
    for (int r = 0; r < size(); ++r) {
      sources[static_cast<size_t>(r)] = at(meeting_->call(r).ranges[i].source, own);
    }
    reduce(sources, call.from, range.target, call.to, range.accumulate, range.count);
  }
}

void ThreadCommunicator::pull_shards() {
  const Call& call = own_call();
  for (size_t i = 0; i < call.ranges.size(); ++i) {
    const size_t bytes = bytes_of(call.ranges[i].count, call.from);
    for (int step = 0; step < size(); ++step) {
      const int peer = next(step);
      copy(at(call.ranges[i].target, bytes * static_cast<size_t>(peer)), meeting_->call(peer).ranges[i].source, bytes);
    }
  }
}

void ThreadCommunicator::pull_blocks() {
  const Call& call = own_call();
  const size_t bytes = bytes_of(call.ranges[0].count, call.from);
  for (int step = 0; step < size(); ++step) {
    const size_t peer = static_cast<size_t>(next(step));
    const void* block = at(meeting_->call(next(step)).ranges[0].source, bytes * static_cast<size_t>(rank_));
    copy(at(call.ranges[0].target, bytes * peer), block, bytes);
  }
}

void ThreadCommunicator::send_recv(std::span<const Message> sends, std::span<const Message> receives,
                                   std::string_view label) {
  uint64_t bytes = 0;  // messages have no type: their elements are bytes
  for (const Message& message : receives) bytes += message.peer == rank_ ? 0 : message.bytes;
  run(
      OpKind::send_recv, DType::u8, DType::u8, 0, label, {}, bytes, [&] { pull_messages(); }, sends, receives);
}

void ThreadCommunicator::pull_messages() {
  std::vector<size_t> taken(static_cast<size_t>(size()), 0);  // messages received so far, by peer
  for (const Message& receive : own_call().receives) {
    const Message* send =
        find_message(meeting_->call(receive.peer).sends, rank_, taken[static_cast<size_t>(receive.peer)]++);
    copy(receive.data, send->data, receive.bytes);
  }
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(const std::string& group, int size,
                                                             std::chrono::milliseconds timeout) {
  if (size < 1) {
    throw core::CommError(fmt::format("group {} cannot have {} ranks; legal is 1 or more", group, size));
  }
  auto meeting = std::make_shared<Meeting>(group, size, timeout);
  std::vector<std::unique_ptr<Communicator>> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(std::make_unique<ThreadCommunicator>(meeting, rank));
  return members;
}

}  // namespace zrt::comm
