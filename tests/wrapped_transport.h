// A transport that tells of every collective before and behind it: for tests that slow one down, or strike there.
#pragma once
#include <functional>
#include <utility>

#include "comm/transport.h"

namespace zrt::testing {

// Called on the lane thread that makes the call; either may be null. An exchange that only sends or receives has the
// word in front of its label.
struct CallHooks {
  std::function<void(std::string_view label)> before, after;
  // Sees each range that a reduce_scatter has filled, for tests that spoil it.
  std::function<void(std::string_view label, const comm::ReduceRange& range, core::DType type)> summed = nullptr;
};

class WrappedCommunicator : public comm::Communicator {
 public:
  WrappedCommunicator(std::unique_ptr<comm::Communicator> inner, CallHooks hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& group() const override { return inner_->group(); }
  void all_reduce(void* data, int64_t count, core::DType type, std::string_view label) override {
    tell(label, [&] { inner_->all_reduce(data, count, type, label); });
  }
  void reduce_scatter(std::span<const comm::ReduceRange> ranges, core::DType from, core::DType to,
                      std::string_view label) override {
    tell(label, [&] { inner_->reduce_scatter(ranges, from, to, label); });
    if (!hooks_.summed) return;
    for (const comm::ReduceRange& range : ranges) hooks_.summed(label, range, to);
  }
  void all_gather(std::span<const comm::GatherRange> ranges, core::DType type, std::string_view label) override {
    tell(label, [&] { inner_->all_gather(ranges, type, label); });
  }
  void all_to_all(const void* source, void* target, int64_t count, core::DType type, std::string_view label,
                  std::span<const int64_t> used) override {
    tell(label, [&] { inner_->all_to_all(source, target, count, type, label, used); });
  }
  void broadcast(void* data, int64_t count, core::DType type, int root, std::string_view label) override {
    tell(label, [&] { inner_->broadcast(data, count, type, root, label); });
  }
  void send_recv(std::span<const comm::Message> sends, std::span<const comm::Message> receives,
                 std::string_view label) override {
    std::string what = sends.empty() ? "receive " : receives.empty() ? "send " : "";
    tell(what += label, [&] { inner_->send_recv(sends, receives, label); });
  }
  void barrier(std::string_view label) override {
    tell(label, [&] { inner_->barrier(label); });
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  void require_alive() const override { inner_->require_alive(); }
  comm::Counters counters() const override { return inner_->counters(); }
  std::vector<comm::FlightRecord> flight_records() const override { return inner_->flight_records(); }

 private:
  template <class Call>
  void tell(std::string_view label, const Call& call) const {
    if (hooks_.before) hooks_.before(label);
    call();
    if (hooks_.after) hooks_.after(label);
  }
  std::unique_ptr<comm::Communicator> inner_;
  const CallHooks hooks_;
};

class WrappedTransport : public comm::Transport {
 public:
  WrappedTransport(std::unique_ptr<comm::Transport> inner, CallHooks hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)) {}
  std::string_view name() const override { return inner_->name(); }
  int world() const override { return inner_->world(); }
  int first_local() const override { return inner_->first_local(); }
  int local_count() const override { return inner_->local_count(); }
  int host_count() const override { return inner_->host_count(); }
  void connect_gpus_by_nccl() override { inner_->connect_gpus_by_nccl(); }
  std::vector<std::unique_ptr<comm::Communicator>> make_groups(const std::string& name,
                                                               const comm::Partition& partition,
                                                               std::chrono::milliseconds timeout) override {
    auto members = inner_->make_groups(name, partition, timeout);
    for (auto& member : members) member = std::make_unique<WrappedCommunicator>(std::move(member), hooks_);
    return members;
  }
  std::unique_ptr<core::Arena> make_arena(int rank, core::Tier tier, uint64_t bytes, core::DeviceKind device) override {
    return inner_->make_arena(rank, tier, bytes, device);
  }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) override {
    return inner_->exchange(text, timeout);
  }
  std::string last_calls() const override { return inner_->last_calls(); }
  void fail(const std::exception& error, const std::function<void()>& print, int code) override {
    inner_->fail(error, print, code);
  }

 private:
  std::unique_ptr<comm::Transport> inner_;
  const CallHooks hooks_;
};

}  // namespace zrt::testing
