// A transport of threads whose collectives of one kind take longer than they must.
#pragma once
#include <chrono>
#include <thread>

#include "comm/transport.h"

namespace zrt::testing {

class SlowCommunicator : public comm::Communicator {
 public:
  SlowCommunicator(std::unique_ptr<comm::Communicator> inner, std::chrono::milliseconds gather)
      : inner_(std::move(inner)), gather_(gather) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& group() const override { return inner_->group(); }
  void all_reduce(void* data, int64_t count, core::DType type, std::string_view label) override {
    inner_->all_reduce(data, count, type, label);
  }
  void reduce_scatter(std::span<const comm::ReduceRange> ranges, core::DType from, core::DType to,
                      std::string_view label) override {
    inner_->reduce_scatter(ranges, from, to, label);
  }
  void all_gather(std::span<const comm::GatherRange> ranges, core::DType type, std::string_view label) override {
    inner_->all_gather(ranges, type, label);
    if (label.starts_with("gather")) std::this_thread::sleep_for(gather_);
  }
  void all_to_all(const void* source, void* target, int64_t count, core::DType type, std::string_view label) override {
    inner_->all_to_all(source, target, count, type, label);
  }
  void broadcast(void* data, int64_t count, core::DType type, int root, std::string_view label) override {
    inner_->broadcast(data, count, type, root, label);
  }
  void send_recv(std::span<const comm::Message> sends, std::span<const comm::Message> receives,
                 std::string_view label) override {
    inner_->send_recv(sends, receives, label);
  }
  void barrier(std::string_view label) override { inner_->barrier(label); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  comm::Counters counters() const override { return inner_->counters(); }
  std::vector<comm::FlightRecord> flight_records() const override { return inner_->flight_records(); }

 private:
  std::unique_ptr<comm::Communicator> inner_;
  const std::chrono::milliseconds gather_;
};

class SlowTransport : public comm::Transport {
 public:
  // Gathers of units take `gather` longer.
  SlowTransport(int world, std::chrono::milliseconds gather)
      : inner_(comm::make_thread_transport(world)), gather_(gather) {}
  std::string_view name() const override { return "slow"; }
  int world() const override { return inner_->world(); }
  int first_local() const override { return 0; }
  int local_count() const override { return inner_->local_count(); }
  int host_count() const override { return inner_->host_count(); }
  std::vector<std::unique_ptr<comm::Communicator>> make_groups(const std::string& name,
                                                               const comm::Partition& partition,
                                                               std::chrono::milliseconds timeout) override {
    auto members = inner_->make_groups(name, partition, timeout);
    for (auto& member : members) member = std::make_unique<SlowCommunicator>(std::move(member), gather_);
    return members;
  }
  std::unique_ptr<core::Arena> make_arena(int rank, core::Tier tier, uint64_t bytes, core::DeviceKind device) override {
    return inner_->make_arena(rank, tier, bytes, device);
  }
  std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) override {
    return inner_->exchange(text, timeout);
  }
  void fail(const std::exception&, const std::function<void()>&, int) override {}

 private:
  std::unique_ptr<comm::Transport> inner_;
  const std::chrono::milliseconds gather_;
};

}  // namespace zrt::testing
