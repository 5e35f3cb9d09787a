#include "comm/portions.h"

#include "comm/cuda/reduce.h"
#include "comm/reduce.h"
#include "core/device.h"

namespace zrt::comm {
namespace {

std::byte* at(void* data, size_t offset) {
  return data ? static_cast<std::byte*>(data) + offset : nullptr;
}

// Collects the portions of one reader.
class Lister {
 public:
  Lister(Calls calls, int reader) : calls_(calls), reader_(reader), call_(*calls[static_cast<size_t>(reader)]) {}

  std::vector<Portion> list(int phase) {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
        phase == 0 ? sum_own_slice() : copy_slices();
        break;
      case CollectiveKind::reduce_scatter:
        sum_shards();
        break;
      case CollectiveKind::all_gather:
        copy_shards();
        break;
      case CollectiveKind::all_to_all:
        copy_blocks();
        break;
      case CollectiveKind::broadcast:
        copy_root();
        break;
      case CollectiveKind::send_recv:
        copy_messages();
        break;
      case CollectiveKind::barrier:
        break;
    }
    return std::move(portions_);
  }

 private:
  int size() const { return static_cast<int>(calls_.size()); }
  int next(int step) const { return (reader_ + step) % size(); }  // starts everybody at another peer
  size_t bytes(int64_t count) const { return static_cast<size_t>(count) * core::dtype_size(call_.from); }
  void add(Portion portion) {
    if (portion.count > 0) portions_.push_back(portion);
  }

  // Sums in place: no other rank reads or writes this slice of the reader's buffer in this phase.
  void sum_own_slice() {
    const CallRange& range = call_.ranges[0];
    const int64_t begin = slice_begin(range.count, size(), reader_),
                  end = slice_begin(range.count, size(), reader_ + 1);
    add({Portion::everyone, 0, bytes(begin), at(range.target, bytes(begin)), end - begin, false});
  }
  void copy_slices() {
    const CallRange& range = call_.ranges[0];
    for (int step = 1; step < size(); ++step) {
      const int64_t begin = slice_begin(range.count, size(), next(step)),
                    end = slice_begin(range.count, size(), next(step) + 1);
      add({next(step), 0, bytes(begin), at(range.target, bytes(begin)), end - begin, false});
    }
  }
  void sum_shards() {
    for (size_t i = 0; i < call_.ranges.size(); ++i) {
      const CallRange& range = call_.ranges[i];
      const size_t own = bytes(range.count) * static_cast<size_t>(reader_);
      add({Portion::everyone, i, own, at(range.target, 0), range.count, range.accumulate});
    }
  }
  void copy_shards() {
    for (size_t i = 0; i < call_.ranges.size(); ++i) {
      const CallRange& range = call_.ranges[i];
      for (int step = 0; step < size(); ++step) {
        const size_t place = bytes(range.count) * static_cast<size_t>(next(step));
        add({next(step), i, 0, at(range.target, place), range.count, false});
      }
    }
  }
  void copy_blocks() {
    const CallRange& range = call_.ranges[0];
    const size_t block = bytes(range.count);
    for (int step = 0; step < size(); ++step) {
      const int peer = next(step);
      const int64_t used = call_.used.empty() ? range.count : call_.used[static_cast<size_t>(peer)];
      add({peer, 0, block * static_cast<size_t>(reader_), at(range.target, block * static_cast<size_t>(peer)), used,
           false});
    }
  }
  void copy_root() {
    if (reader_ != call_.root) add({call_.root, 0, 0, at(call_.ranges[0].target, 0), call_.ranges[0].count, false});
  }
  void copy_messages() {
    std::vector<size_t> taken(calls_.size(), 0);  // messages received so far, by peer
    for (const Message& receive : call_.receives) {
      const std::vector<Message>& sends = calls_[static_cast<size_t>(receive.peer)]->sends;
      const Message* send = find_message(sends, reader_, taken[static_cast<size_t>(receive.peer)]++);
      add({receive.peer, static_cast<size_t>(send - sends.data()), 0, at(receive.data, 0),
           static_cast<int64_t>(receive.bytes), false});
    }
  }

  Calls calls_;
  int reader_;
  const CollectiveCall& call_;
  std::vector<Portion> portions_;
};

}  // namespace

int64_t slice_begin(int64_t count, int size, int rank) {
  return count / size * rank + count % size * rank / size;
}

int phases(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce ? 2 : 1;
}

std::vector<Portion> portions_of(Calls calls, int reader, int phase) {
  return Lister(calls, reader).list(phase);
}

uint64_t received_bytes(Calls calls, int reader, int phase, const std::function<bool(int rank)>& counts) {
  uint64_t bytes = 0;
  for (const Portion& portion : portions_of(calls, reader, phase)) {
    const bool sum = portion.from == Portion::everyone;
    const int first = sum ? 0 : portion.from, last = sum ? static_cast<int>(calls.size()) - 1 : portion.from;
    const uint64_t each =
        static_cast<uint64_t>(portion.count) * core::dtype_size(calls[static_cast<size_t>(reader)]->from);
    for (int rank = first; rank <= last; ++rank) bytes += rank != reader && counts(rank) ? each : 0;
  }
  return bytes;
}

const std::byte* source_of(const CollectiveCall& call, const Portion& portion) {
  const void* buffer =
      call.kind == CollectiveKind::send_recv ? call.sends[portion.buffer].data : call.ranges[portion.buffer].source;
  return static_cast<const std::byte*>(buffer) + portion.offset;
}

void add_up(std::span<const void* const> sources, core::DType from, void* target, core::DType to, bool accumulate,
            int64_t count, const float* before) {
  if (core::place().device == core::DeviceKind::cuda) {
    cuda::reduce(sources, from, target, to, accumulate, count, before);
  } else {
    reduce(sources, from, target, to, accumulate, count, core::best_isa(), before);
  }
}

void move(const CollectiveCall& call, const Portion& portion, std::span<const void* const> sources, int64_t begin,
          int64_t count) {
  if (portion.from == Portion::everyone) {
    std::byte* target = portion.target + static_cast<size_t>(begin) * core::dtype_size(call.to);
    const bool alone = sources.size() == 1 && sources[0] == target && call.from == call.to && !portion.accumulate;
    if (alone) return;  // a sum of one lies where it belongs
    return add_up(sources, call.from, target, call.to, portion.accumulate, count);
  }
  const size_t size = core::dtype_size(call.from);
  std::byte* target = portion.target + static_cast<size_t>(begin) * size;
  if (target != sources[0]) core::copy_bytes(target, sources[0], static_cast<size_t>(count) * size);
}

}  // namespace zrt::comm
