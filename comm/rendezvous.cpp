#include "comm/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comm/portions.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

// A collective over any rendezvous.
class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(std::shared_ptr<Rendezvous> rendezvous, int rank)
      : rendezvous_(std::move(rendezvous)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return rendezvous_->size(); }
  const std::string& group() const override { return rendezvous_->group(); }

  void all_reduce(void* data, int64_t count, DType type, std::string_view label) override {
    const CallRange range{data, data, count, false};
    const int64_t own = slice_begin(count, size(), rank_ + 1) - slice_begin(count, size(), rank_);
    run(CollectiveKind::all_reduce, type, type, 0, label, {&range, 1}, elements_of(own * (size() - 1) + count - own));
  }

  void reduce_scatter(std::span<const ReduceRange> ranges, DType from, DType to, std::string_view label) override {
    std::vector<CallRange> list;
    uint64_t elements = 0;
    for (const ReduceRange& range : ranges) {
      list.push_back({range.source, range.target, range.shard, range.accumulate});
      elements += elements_of(range.shard * (size() - 1));
    }
    run(CollectiveKind::reduce_scatter, from, to, 0, label, list, elements);
  }

  void all_gather(std::span<const GatherRange> ranges, DType type, std::string_view label) override {
    std::vector<CallRange> list;
    uint64_t elements = 0;
    for (const GatherRange& range : ranges) {
      list.push_back({range.source, range.target, range.shard, false});
      elements += elements_of(range.shard * (size() - 1));
    }
    run(CollectiveKind::all_gather, type, type, 0, label, list, elements);
  }

  void all_to_all(const void* source, void* target, int64_t count, DType type, std::string_view label,
                  std::span<const int64_t> used) override {
    const CallRange range{source, target, count, false};
    uint64_t elements = elements_of(count * (size() - 1));
    if (!used.empty() && rendezvous_->moves_used()) {
      elements = 0;
      for (size_t r = 0; r < used.size(); ++r) elements += r == static_cast<size_t>(rank_) ? 0 : elements_of(used[r]);
    }
    run(CollectiveKind::all_to_all, type, type, 0, label, {&range, 1}, elements, {}, {}, used);
  }

  void broadcast(void* data, int64_t count, DType type, int root, std::string_view label) override {
    const CallRange range{data, data, count, false};
    run(CollectiveKind::broadcast, type, type, root, label, {&range, 1}, rank_ == root ? 0 : elements_of(count));
  }

  void send_recv(std::span<const Message> sends, std::span<const Message> receives, std::string_view label) override {
    uint64_t bytes = 0;  // messages have no type: their elements are bytes
    for (const Message& message : receives) bytes += message.peer == rank_ ? 0 : message.bytes;
    run(CollectiveKind::send_recv, DType::u8, DType::u8, 0, label, {}, bytes, sends, receives);
  }

  void barrier(std::string_view label) override { run(CollectiveKind::barrier, DType::u8, DType::u8, 0, label, {}, 0); }

  void abort(const std::string& reason) override {
    rendezvous_->abort(reason.empty() ? fmt::format("group {} was aborted without a reason", group()) : reason);
  }
  void require_alive() const override {
    if (const std::string reason = rendezvous_->reason(); !reason.empty()) throw core::CommError(reason);
  }
  Counters counters() const override { return rendezvous_->counters(rank_); }
  std::vector<FlightRecord> flight_records() const override { return rendezvous_->flight_records(rank_); }

 private:
  static uint64_t elements_of(int64_t count) { return static_cast<uint64_t>(count < 0 ? 0 : count); }

  void run(CollectiveKind kind, DType from, DType to, int root, std::string_view label,
           std::span<const CallRange> ranges, uint64_t elements, std::span<const Message> sends = {},
           std::span<const Message> receives = {}, std::span<const int64_t> used = {}) {
    rendezvous_->open(rank_, [&](CollectiveCall& call) {
      call.kind = kind, call.from = from, call.to = to, call.root = root;
      call.label.assign(label);
      call.ranges.assign(ranges.begin(), ranges.end());
      call.used.assign(used.begin(), used.end());
      call.sends.assign(sends.begin(), sends.end());
      call.receives.assign(receives.begin(), receives.end());
      return Rendezvous::Traffic{elements, elements * core::dtype_size(from)};
    });
    try {
      for (int phase = 0; phase < phases(kind); ++phase) rendezvous_->work(rank_, phase);
      rendezvous_->close(rank_);
    } catch (const core::CommError&) {
      throw;  // from the rendezvous, which this member has left
    } catch (const std::exception& error) {
      rendezvous_->fail(rank_, fmt::format("group {}: {} \"{}\" failed on rank {}: {}", group(),
                                           collective_kind_name(kind), label, rank_, error.what()));
    }
  }

  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Rendezvous> rendezvous, int rank) {
  return std::make_unique<GroupCommunicator>(std::move(rendezvous), rank);
}

std::string busy_text(const std::string& group, int rank, const CollectiveCall& running) {
  return fmt::format(
      "rank {} of group {} started a collective while {} still runs on another thread; a communicator serves one lane "
      "at a time, so give each lane its own group",
      rank, group, describe(running));
}

std::string timeout_text(const std::string& group, int rank, int size, const CollectiveCall& call, uint64_t sequence,
                         std::chrono::milliseconds timeout, const std::vector<int>& missing) {
  std::string lost, waiting;
  for (int r = 0; r < size; ++r) {
    std::string& list = std::find(missing.begin(), missing.end(), r) != missing.end() ? lost : waiting;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", r);
  }
  // "dp.inner[4-7]": rank 1 of it is rank 5 of the run.
  const bool counts_inside = group.ends_with(']');
  return fmt::format(
      "group {} of {} ranks: {} (call {} of rank {}){}{} ms; missing ranks: {}; waiting ranks: {}{}. Look "
      "for an earlier error or a longer path on the missing ranks, or raise run.timeout_seconds. Last calls:\n",
      group, size, describe(call), sequence, rank, timed_out, timeout.count(), lost, waiting,
      counts_inside ? " (counted inside the group, whose name lists the ranks of the run)" : "");
}

}  // namespace zrt::comm
