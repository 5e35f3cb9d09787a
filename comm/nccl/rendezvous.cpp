#include "comm/nccl/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "comm/nccl/give_up.h"
#include "core/device.h"
#include "core/error.h"

namespace zrt::comm {
namespace {
using std::chrono::steady_clock;

constexpr uint64_t alignment = 16;
constexpr auto shortest_nap = std::chrono::microseconds(5), longest_nap = std::chrono::microseconds(500);
constexpr auto farewell = std::chrono::seconds(5);  // for what is on its way when a group is given up
constexpr auto spinning = std::chrono::microseconds(200);
constexpr size_t records_in_report = 5;

uint64_t bytes_for_each(uint64_t bytes, int peers) {
  return peers == 0 ? UINT64_MAX : bytes / static_cast<uint64_t>(peers) / alignment * alignment;
}
}  // namespace

NcclRendezvous::NcclRendezvous(const NcclLibrary& library, ncclComm_t communicator, NcclSeat seat)
    : library_(library),
      seat_(std::move(seat)),
      rank_(seat_.rank),
      staged_bytes_(bytes_for_each(seat_.staging_bytes, seat_.size() - 1)),
      line_(host_line(seat_.hosts)),
      communicator_(communicator),
      calls_(seat_.hosts.size(), &own_) {}

NcclRendezvous::~NcclRendezvous() {
  if (!communicator_) return;
  ncclResult_t code = library_.finalize(communicator_);
  const auto deadline = steady_clock::now() + farewell;
  while (code == ncclInProgress && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(shortest_nap);
    if (library_.async_error(communicator_, &code) != ncclSuccess) break;
  }
  if (code == ncclSuccess) {
    library_.destroy(communicator_);
  } else {
    give_up(library_, communicator_, who(), "its calls do not end, or NCCL met an error");
  }
}

void NcclRendezvous::open(int rank, const std::function<Traffic(CollectiveCall&)>& fill) {
  {
    const std::lock_guard lock(mutex_);
    if (in_call_) throw core::CommError(busy_text(group(), rank, own_));
    if (!reason_.empty()) throw core::CommError(reason_);
    const Traffic traffic = fill(own_);
    in_call_ = true;
    between_hosts_ = 0;
    recorder_.start(own_.kind, own_.label, traffic.elements, traffic.bytes);
    if (seat_.neighbours.queued) {
      FlightRecord record = recorder_.records(1).front();
      record.label = fmt::format("{}: {}", group(), record.label);
      seat_.neighbours.queued(record);
    }
  }
  if (auto error = argument_error(own_, rank, size())) {
    fail(rank, fmt::format("group {}: rank {} called {} with {}", group(), rank, describe(own_), *error));
  }
  own_.used.clear();  // every rank derives all portions from its own call
}

void NcclRendezvous::work(int, int phase) {
  between_hosts_ += received_bytes(calls_, rank_, phase, [&](int r) { return seat_.elsewhere(r); });
  // One rank gathers and sums its own data, without NCCL: host threads call it, too, and recorded steps of a GPU.
  if (size() == 1) {
    for (const Portion& portion : portions_of(calls_, 0, phase)) {
      const void* source = source_of(own_, portion);
      move(own_, portion, {&source, 1}, 0, portion.count);
    }
    return;
  }
  {
    const std::lock_guard lock(queueing_);
    if (!communicator_) throw core::Error(reason());
    ncclResult_t earlier = ncclSuccess;
    library_.check(library_.async_error(communicator_, &earlier), "ncclCommGetAsyncError");
    library_.check(earlier, "an earlier call of NCCL");
  }
  // One rank waits for nobody, and its work may be recorded, where events are other things.
  core::Stream* stream = size() > 1 ? core::place().stream : nullptr;
  core::Event begin = stream ? stream->record() : core::Event();
  queue(phase);
  if (stream) queued_.add(describe(own_), std::move(begin), stream->record());
}

// NCCL's functions are called in turns, between which the group may be aborted. What else a call queues, and asking for
// the stream, may have to wait until the stream comes on, which an abort alone may let it do: both stay outside turns.
std::unique_lock<std::mutex> NcclRendezvous::take_turn() {
  stream_ = library_.stream();
  std::unique_lock lock(queueing_);
  if (!communicator_) throw core::Error(reason());
  return lock;
}

// Waits for NCCL to have queued what it was given: it may have to connect ranks first, which come when their programs
// do.
void NcclRendezvous::settle(ncclResult_t code, const char* call) {
  const auto start = steady_clock::now(), deadline = start + most_wait(seat_.timeout);
  for (auto nap = shortest_nap; code == ncclInProgress; nap = std::min(2 * nap, longest_nap)) {
    {
      const std::lock_guard lock(mutex_);
      if (!reason_.empty()) throw core::Error(reason_);
    }
    if (steady_clock::now() >= deadline) {
      throw core::Error(
          fmt::format("{}{}{} ms: NCCL has not queued the call, as where another rank is missing or an "
                      "earlier call stands still",
                      call, timed_out, most_wait(seat_.timeout).count()));
    }
    // The shortest sleep takes ten times as long as a call that meets no trouble.
    if (steady_clock::now() - start < spinning) {
      std::this_thread::yield();
      nap = shortest_nap;
    } else {
      std::this_thread::sleep_for(nap);
    }
    library_.check(library_.async_error(communicator_, &code), "ncclCommGetAsyncError");
  }
  library_.check(code, call);
}

void NcclRendezvous::queue(int phase) {
  switch (own_.kind) {
    case CollectiveKind::all_gather:
      return gather();
    case CollectiveKind::broadcast: {
      const CallRange& range = own_.ranges[0];
      const uint64_t bytes = static_cast<uint64_t>(range.count) * core::dtype_size(own_.from);
      if (bytes == 0) return;
      const auto turn = take_turn();
      return settle(library_.broadcast(range.target, range.target, bytes, ncclUint8, own_.root, communicator_, stream_),
                    "ncclBroadcast");
    }
    case CollectiveKind::send_recv:
      return exchange_messages();
    case CollectiveKind::barrier: {
      if (size() == 1) return;
      const auto turn = take_turn();
      return settle(library_.all_reduce(seat_.staging, seat_.staging, 1, ncclUint8, ncclMax, communicator_, stream_),
                    "ncclAllReduce");
    }
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      break;
  }
  std::vector<std::vector<Portion>> portions;  // by reader
  for (int r = 0; r < size(); ++r) portions.push_back(portions_of(calls_, r, phase));
  const bool sums =
      own_.kind == CollectiveKind::reduce_scatter || (own_.kind == CollectiveKind::all_reduce && phase == 0);
  sums ? sum_portions(portions) : copy_portions(portions);
}

void NcclRendezvous::in_one_call(const std::function<void()>& calls) {
  const auto turn = take_turn();
  NcclGroup grouped(library_);
  calls();
  settle(grouped.finish(), "ncclGroupEnd");
}

void NcclRendezvous::send(const void* data, uint64_t bytes, int peer) {
  library_.check(library_.send(data, bytes, ncclUint8, peer, communicator_, stream_), "ncclSend");
}

void NcclRendezvous::receive(void* data, uint64_t bytes, int peer) {
  library_.check(library_.receive(data, bytes, ncclUint8, peer, communicator_, stream_), "ncclRecv");
}

void NcclRendezvous::copy_portions(const std::vector<std::vector<Portion>>& portions) {
  const size_t size_of = core::dtype_size(own_.from);
  in_one_call([&] {
    for (int reader = 0; reader < size(); ++reader) {
      for (const Portion& portion : portions[static_cast<size_t>(reader)]) {
        const uint64_t bytes = static_cast<uint64_t>(portion.count) * size_of;
        if (reader != rank_ && portion.from == rank_) send(source_of(own_, portion), bytes, reader);
        if (reader == rank_ && portion.from != rank_) receive(portion.target, bytes, portion.from);
      }
    }
  });
  for (const Portion& portion : portions[static_cast<size_t>(rank_)]) {
    const void* source = source_of(own_, portion);
    if (portion.from == rank_) move(own_, portion, {&source, 1}, 0, portion.count);
  }
}

void NcclRendezvous::gather() {
  in_one_call([&] {
    for (const CallRange& range : own_.ranges) {
      const uint64_t bytes = static_cast<uint64_t>(range.count) * core::dtype_size(own_.from);
      if (bytes == 0) continue;
      library_.check(library_.all_gather(range.source, range.target, bytes, ncclUint8, communicator_, stream_),
                     "ncclAllGather");
    }
  });
}

void NcclRendezvous::exchange_messages() {
  in_one_call([&] {
    for (const Message& message : own_.sends) {
      if (message.peer != rank_ && message.bytes > 0) send(message.data, message.bytes, message.peer);
    }
    for (const Message& message : own_.receives) {
      if (message.peer != rank_ && message.bytes > 0) receive(message.data, message.bytes, message.peer);
    }
  });
  size_t taken = 0;  // messages to itself
  for (const Message& message : own_.receives) {
    if (message.peer != rank_) continue;
    const Message* sent = find_message(own_.sends, rank_, taken++);
    if (!sent || sent->bytes != message.bytes) {
      throw core::Error(fmt::format("message {} to itself: {} B sent, {} B expected", taken - 1, sent ? sent->bytes : 0,
                                    message.bytes));
    }
    core::copy_bytes(message.data, sent->data, message.bytes);
  }
}

void NcclRendezvous::close(int) {
  const std::lock_guard lock(mutex_);
  recorder_.finish(between_hosts_);
  in_call_ = false;
}

void NcclRendezvous::fail(int, const std::string& reason) {
  abort(reason);
  const std::lock_guard lock(mutex_);
  in_call_ = false;
  throw core::CommError(reason_);
}

std::string NcclRendezvous::reason() {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::string NcclRendezvous::trouble() {
  ncclResult_t met = ncclSuccess;
  // Whoever holds the lock queues a call, and meets the error itself.
  if (std::unique_lock lock(queueing_, std::try_to_lock); lock && communicator_) {
    const ncclResult_t asked = library_.async_error(communicator_, &met);
    if (asked != ncclSuccess) met = asked;
  }
  const auto report = [&](const std::string& what) {
    const std::string others = seat_.neighbours.last_calls ? seat_.neighbours.last_calls() : "";
    return fmt::format("group {} of {} ranks: its rank {} cannot go on: {}. Last calls of this rank:\n{}{}", group(),
                       size(), rank_, what, last_calls(), others);
  };
  if (met != ncclSuccess && met != ncclInProgress) {
    return report(
        fmt::format("NCCL reports \"{}\", as where a process has ended or a link is lost; NCCL_DEBUG=WARN "
                    "says more",
                    library_.error_string(met)));
  }
  const QueuedCalls::Standing standing = queued_.look(steady_clock::now());
  const Neighbours& host = seat_.neighbours;
  if (!standing.call.empty() && host.waits) host.waits();
  if (standing.stood < seat_.timeout) return "";
  const std::string who = host.standing ? host.standing() : "";
  if (standing.stood < seat_.timeout + host.patience(who)) return "";
  return report(fmt::format("{}{}{} ms on its GPU: {} has not come to the call, or the link to it stands still",
                            standing.call, timed_out, seat_.timeout.count(), who.empty() ? "another rank" : who));
}

std::string NcclRendezvous::who() const {
  return fmt::format("rank {} of group {}", rank_, group());
}

std::string NcclRendezvous::last_calls() const {
  const std::lock_guard lock(mutex_);
  return recorder_.format(records_in_report);
}

void NcclRendezvous::refuse(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_.empty()) reason_ = reason;
}

void NcclRendezvous::abort(const std::string& reason) {
  refuse(reason);
  const std::lock_guard lock(queueing_);
  if (ncclComm_t communicator = std::exchange(communicator_, nullptr)) give_up(library_, communicator, who(), reason);
}

Counters NcclRendezvous::counters(int) const {
  const std::lock_guard lock(mutex_);
  return recorder_.counters();
}

std::vector<FlightRecord> NcclRendezvous::flight_records(int) const {
  const std::lock_guard lock(mutex_);
  return recorder_.records();
}

}  // namespace zrt::comm
