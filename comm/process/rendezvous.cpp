#include "comm/process/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/device.h"
#include "core/error.h"
#include "core/peer_memory.h"

namespace zrt::comm {
namespace {

bool on_gpu() {
  return core::place().device != core::DeviceKind::cpu;
}

}  // namespace

ProcessRendezvous::ProcessRendezvous(Membership membership)
    : membership_(std::move(membership)),
      member_(membership_.peers[static_cast<size_t>(membership_.rank)].member),
      exchanges_(membership_.peers.size()) {
  // A year stands for "never", because a deadline must be representable.
  membership_.timeout = std::min<std::chrono::milliseconds>(membership_.timeout, std::chrono::hours(24 * 365));
  std::vector<int> pids;
  for (const Peer& peer : membership_.peers) {
    pids.push_back(peer.pid);
    has_remote_ = has_remote_ || peer.member < 0;
  }
  watch_ = PeerWatch(pids);
  for (Exchange& exchange : exchanges_) calls_.push_back(&exchange.remote.call);
  calls_[static_cast<size_t>(membership_.rank)] = &own_;
}

void ProcessRendezvous::open(int rank, const std::function<Traffic(CollectiveCall&)>& fill) {
  {
    const std::lock_guard lock(mutex_);
    if (in_call_) throw core::CommError(busy_text(group(), rank, own_));
    const std::string reason = membership_.segment->reason();
    if (!reason.empty()) throw core::CommError(reason);
    const Traffic traffic = fill(own_);
    in_call_ = true;
    between_hosts_ = 0;
    recorder_.start(own_.kind, own_.label, traffic.elements, traffic.bytes);
    membership_.segment->keep_record(member_, recorder_.records(1).front());
  }
  if (auto error = argument_error(own_, rank, size())) {
    fail(rank, fmt::format("group {}: rank {} called {} with {}", group(), rank, describe(own_), *error));
  }
  if (on_gpu() && !shares(rank)) {
    fail(rank, fmt::format("group {}: rank {} called {} with buffers outside of its arenas; ranks of several processes "
                           "read each other's arenas alone on GPUs",
                           group(), rank, describe(own_)));
  }
  mark();
  encoded_ = encode(own_, recorder_.sequence(), size(), *membership_.arenas);
  const uint64_t bytes = encoded_.size();
  encoded_.insert(encoded_.begin(), sizeof bytes, std::byte{0});
  std::memcpy(encoded_.data(), &bytes, sizeof bytes);
  for (int r = 0; r < size(); ++r) {
    Exchange& exchange = exchanges_[static_cast<size_t>(r)];
    exchange.encoded.clear();
    exchange.has_call = r == rank;
    if (r != rank) exchange.out.push_back({FrameKind::call, encoded_.data(), encoded_.size()});
  }
  await(
      [&] {
        bool all = true;
        for (int r = 0; r < size(); ++r) all = take_call(r) && all;
        return all;
      },
      [&](int r) { return !exchanges_[static_cast<size_t>(r)].has_call; });
  if (auto error = mismatch(calls_)) {
    // The call of another machine may be followed by the reason of an abort: then this rank came too late, and the
    // reason says more.
    look_for_aborts();
    if (!membership_.segment->reason().empty()) leave();
    fail(rank, fmt::format("group {}: {}", group(), *error));
  }
  for (int r = 0; r < size(); ++r) {
    const Peer& peer = membership_.peers[static_cast<size_t>(r)];
    if (r == rank || peer.member < 0) continue;
    try {
      resolve_sources(exchanges_[static_cast<size_t>(r)].remote, peer.pid, size(), *membership_.arenas);
    } catch (const core::CommError& error) {
      fail(rank, fmt::format("group {}: rank {} cannot read rank {}: {}", group(), rank, r, error.what()));
    }
  }
  follow();
}

// Counts up this rank's word behind the work that its stream has been given. A rank calls it before it tells the others
// that it came.
void ProcessRendezvous::mark() {
  // One rank waits for nobody, and its steps may be recorded, in which words have no place.
  if (on_gpu() && size() > 1) core::write_word(membership_.segment->reached(member_), ++reached_);
}

// Lets the stream wait for the words of the others, once all have come: later work runs behind what theirs were given.
void ProcessRendezvous::follow() {
  if (!on_gpu()) return;
  for (const Peer& peer : membership_.peers) {
    if (peer.member != member_) core::wait_for_word(membership_.segment->reached(peer.member), reached_);
  }
}

bool ProcessRendezvous::shares(int rank) const {
  return rank == membership_.rank ? sources_shared(own_, size(), *membership_.arenas)
                                  : exchanges_[static_cast<size_t>(rank)].remote.shared;
}

bool ProcessRendezvous::streams(int from, int to) const {
  auto here = [&](int rank) { return membership_.peers[static_cast<size_t>(rank)].member >= 0; };
  return from != to && !(here(from) && here(to) && shares(from));
}

bool ProcessRendezvous::reads_in_place(int a, int b) const {
  return a != b && (!streams(a, b) || !streams(b, a));
}

void ProcessRendezvous::work(int rank, int phase) {
  if (phase > 0) exchange_tokens();
  if (has_remote_) {
    between_hosts_ += received_bytes(calls_, rank, phase,
                                     [&](int r) { return membership_.peers[static_cast<size_t>(r)].member < 0; });
  }
  for (int r = 0; r < size(); ++r) {
    if (!streams(rank, r)) continue;
    for (const Portion& portion : portions_of(calls_, r, phase)) {
      if (portion.from != Portion::everyone && portion.from != rank) continue;
      const uint64_t bytes = static_cast<uint64_t>(portion.count) * core::dtype_size(own_.from);
      exchanges_[static_cast<size_t>(r)].out.push_back({FrameKind::data, source_of(own_, portion), bytes});
    }
  }
  for (const Portion& portion : portions_of(calls_, rank, phase)) move_portion(portion);
  auto sending = [&](int r) {
    const Peer& peer = membership_.peers[static_cast<size_t>(r)];
    return peer.channel && (!exchanges_[static_cast<size_t>(r)].out.empty() || !peer.channel->flushed());
  };
  await(
      [&] {
        for (int r = 0; r < size(); ++r) {
          if (sending(r)) return false;
        }
        return true;
      },
      sending);
}

// Whole where all its sources can be read in place, else frame by frame.
void ProcessRendezvous::move_portion(const Portion& portion) {
  const bool sum = portion.from == Portion::everyone;
  const int first = sum ? 0 : portion.from, last = sum ? size() - 1 : portion.from;
  std::vector<const void*> sources(static_cast<size_t>(last - first + 1));
  std::vector<int> streamed;
  for (int r = first; r <= last; ++r) {
    if (streams(r, membership_.rank)) streamed.push_back(r);
  }
  const auto size = static_cast<int64_t>(core::dtype_size(own_.from));
  const int64_t step = streamed.empty() ? portion.count : static_cast<int64_t>(frame_bytes) / size;
  for (int64_t begin = 0; begin < portion.count; begin += step) {
    const int64_t count = std::min(step, portion.count - begin);
    auto absent = [&](int r) {
      return std::find(streamed.begin(), streamed.end(), r) != streamed.end() && !arrived(r, FrameKind::data);
    };
    if (!streamed.empty()) await([&] { return std::none_of(streamed.begin(), streamed.end(), absent); }, absent);
    for (int r = first; r <= last; ++r) {
      const void*& source = sources[static_cast<size_t>(r - first)];
      if (!streams(r, membership_.rank)) {
        source = source_of(*calls_[static_cast<size_t>(r)], portion) + begin * size;
        continue;
      }
      const Frame frame = *arrived(r, FrameKind::data);
      if (frame.bytes.size() != static_cast<size_t>(count * size)) {
        fail(membership_.rank, fmt::format("group {}: rank {} sent {} bytes of {} where {} were due", group(), r,
                                           frame.bytes.size(), describe(own_), count * size));
      }
      source = frame.bytes.data();
    }
    move(own_, portion, sources, begin, count);
    for (int r : streamed) membership_.peers[static_cast<size_t>(r)].channel->pop();
  }
}

// After it, whoever reads the other's memory in place has finished what lies before it.
void ProcessRendezvous::exchange_tokens() {
  mark();
  for (int r = 0; r < size(); ++r) {
    Exchange& exchange = exchanges_[static_cast<size_t>(r)];
    exchange.has_token = !(reads_in_place(membership_.rank, r) || (on_gpu() && r != membership_.rank));
    if (!exchange.has_token) exchange.out.push_back({FrameKind::token, nullptr, 0});
  }
  await(
      [&] {
        bool all = true;
        for (int r = 0; r < size(); ++r) all = take_token(r) && exchanges_[static_cast<size_t>(r)].out.empty() && all;
        return all;
      },
      [&](int r) { return !exchanges_[static_cast<size_t>(r)].has_token; });
  follow();
}

void ProcessRendezvous::close(int) {
  exchange_tokens();
  {
    const std::lock_guard lock(mutex_);
    recorder_.finish(between_hosts_);
    membership_.segment->keep_record(member_, recorder_.records(1).front());
  }
  end_call();
}

void ProcessRendezvous::push_frames() {
  for (size_t r = 0; r < exchanges_.size(); ++r) {
    std::deque<Extent>& out = exchanges_[r].out;
    while (!out.empty()) {
      Extent& extent = out.front();
      const uint64_t bytes = std::min<uint64_t>(extent.bytes, frame_bytes);
      if (!membership_.peers[r].channel->send(extent.kind, {extent.data, bytes})) break;
      extent.data += bytes;
      extent.bytes -= bytes;
      if (extent.bytes == 0) out.pop_front();
    }
  }
}

// The oldest frame from a rank, which must be of this kind unless it ends the group.
std::optional<Frame> ProcessRendezvous::arrived(int rank, FrameKind kind) {
  const std::optional<Frame> frame = membership_.peers[static_cast<size_t>(rank)].channel->receive();
  if (!frame || frame->kind == kind) return frame;
  if (frame->kind == FrameKind::abort) {
    take_abort(*frame);
    return std::nullopt;
  }
  fail(membership_.rank, fmt::format("group {}: rank {} sent a frame of kind {} where {} was due, during {}", group(),
                                     rank, static_cast<int>(frame->kind), static_cast<int>(kind), describe(own_)));
}

bool ProcessRendezvous::take_call(int rank) {
  Exchange& exchange = exchanges_[static_cast<size_t>(rank)];
  while (!exchange.has_call) {
    const std::optional<Frame> frame = arrived(rank, FrameKind::call);
    if (!frame) return false;
    exchange.encoded.insert(exchange.encoded.end(), frame->bytes.begin(), frame->bytes.end());
    membership_.peers[static_cast<size_t>(rank)].channel->pop();
    uint64_t bytes = 0;
    std::memcpy(&bytes, exchange.encoded.data(), sizeof bytes);
    exchange.has_call = exchange.encoded.size() >= sizeof bytes + bytes;
    if (!exchange.has_call) continue;
    try {
      exchange.remote = decode(std::span(exchange.encoded).subspan(sizeof bytes, bytes));
    } catch (const core::CommError& error) {
      fail(membership_.rank, fmt::format("group {}: rank {}: {}", group(), rank, error.what()));
    }
  }
  return true;
}

bool ProcessRendezvous::take_token(int rank) {
  Exchange& exchange = exchanges_[static_cast<size_t>(rank)];
  if (!exchange.has_token && arrived(rank, FrameKind::token)) {
    membership_.peers[static_cast<size_t>(rank)].channel->pop();
    exchange.has_token = true;
  }
  return exchange.has_token;
}

Counters ProcessRendezvous::counters(int) const {
  const std::lock_guard lock(mutex_);
  return recorder_.counters();
}

std::vector<FlightRecord> ProcessRendezvous::flight_records(int) const {
  const std::lock_guard lock(mutex_);
  return recorder_.records();
}

}  // namespace zrt::comm
