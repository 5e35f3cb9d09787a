#include "comm/nccl/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/nccl/rounds.h"
#include "core/device.h"
#include "core/error.h"

namespace zrt::comm {
namespace {
constexpr uint64_t alignment = 16;

uint64_t bytes_for_each(uint64_t bytes, int peers) {
  return peers == 0 ? UINT64_MAX : bytes / static_cast<uint64_t>(peers) / alignment * alignment;
}
}  // namespace

NcclRendezvous::NcclRendezvous(const NcclLibrary& library, ncclComm_t communicator, std::string group, int rank,
                               int size, std::byte* staging, uint64_t staging_bytes)
    : library_(library),
      group_(std::move(group)),
      rank_(rank),
      staging_(staging),
      staged_bytes_(bytes_for_each(staging_bytes, size - 1)),
      communicator_(communicator),
      calls_(static_cast<size_t>(size), &own_) {}

NcclRendezvous::~NcclRendezvous() {
  if (communicator_) library_.destroy(communicator_);
}

void NcclRendezvous::open(int rank, const std::function<Traffic(Call&)>& fill) {
  {
    const std::lock_guard lock(mutex_);
    if (in_call_) throw core::CommError(busy_text(group_, rank, own_));
    if (!reason_.empty()) throw core::CommError(reason_);
    const Traffic traffic = fill(own_);
    in_call_ = true;
    recorder_.start(own_.kind, own_.label, traffic.elements, traffic.bytes);
  }
  if (auto error = argument_error(own_, rank, size())) {
    fail(rank, fmt::format("group {}: rank {} called {} with {}", group_, rank, describe(own_), *error));
  }
}

void NcclRendezvous::work(int, int phase) {
  const std::lock_guard lock(queueing_);
  if (!communicator_) throw core::Error("the group was aborted");
  // Threads of the host, such as a checkpoint's, have no stream; what one rank gathers and sums is its own.
  if (size() == 1 && core::place().device == core::DeviceKind::cpu) {
    for (const Piece& piece : pieces_of(calls_, 0, phase)) {
      const void* source = source_of(own_, piece);
      move(own_, piece, {&source, 1}, 0, piece.count);
    }
    return;
  }
  ncclResult_t earlier = ncclSuccess;
  library_.check(library_.async_error(communicator_, &earlier), "ncclCommGetAsyncError");
  library_.check(earlier, "an earlier call of NCCL");
  switch (own_.kind) {
    case OpKind::all_gather:
      return gather();
    case OpKind::broadcast: {
      const CallRange& range = own_.ranges[0];
      const uint64_t bytes = static_cast<uint64_t>(range.count) * core::dtype_size(own_.from);
      if (bytes == 0) return;
      return library_.check(
          library_.broadcast(range.target, range.target, bytes, ncclUint8, own_.root, communicator_, library_.stream()),
          "ncclBroadcast");
    }
    case OpKind::send_recv:
      return exchange_messages();
    case OpKind::barrier:
      if (size() == 1) return;
      return library_.check(
          library_.all_reduce(staging_, staging_, 1, ncclUint8, ncclMax, communicator_, library_.stream()),
          "ncclAllReduce");
    case OpKind::all_reduce:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
      break;
  }
  std::vector<std::vector<Piece>> pieces;  // by reader
  for (int r = 0; r < size(); ++r) pieces.push_back(pieces_of(calls_, r, phase));
  const bool sums = own_.kind == OpKind::reduce_scatter || (own_.kind == OpKind::all_reduce && phase == 0);
  sums ? sum_pieces(pieces) : copy_pieces(pieces);
}

void NcclRendezvous::send(const void* data, uint64_t bytes, int peer) {
  library_.check(library_.send(data, bytes, ncclUint8, peer, communicator_, library_.stream()), "ncclSend");
}

void NcclRendezvous::receive(void* data, uint64_t bytes, int peer) {
  library_.check(library_.receive(data, bytes, ncclUint8, peer, communicator_, library_.stream()), "ncclRecv");
}

void NcclRendezvous::copy_pieces(const std::vector<std::vector<Piece>>& pieces) {
  const size_t size_of = core::dtype_size(own_.from);
  NcclGroup grouped(library_);
  for (int reader = 0; reader < size(); ++reader) {
    for (const Piece& piece : pieces[static_cast<size_t>(reader)]) {
      const uint64_t bytes = static_cast<uint64_t>(piece.count) * size_of;
      if (reader != rank_ && piece.from == rank_) send(source_of(own_, piece), bytes, reader);
      if (reader == rank_ && piece.from != rank_) receive(piece.target, bytes, piece.from);
    }
  }
  grouped.finish();
  for (const Piece& piece : pieces[static_cast<size_t>(rank_)]) {
    const void* source = source_of(own_, piece);
    if (piece.from == rank_) move(own_, piece, {&source, 1}, 0, piece.count);
  }
}

void NcclRendezvous::sum_pieces(const std::vector<std::vector<Piece>>& pieces) {
  const size_t size_of = core::dtype_size(own_.from);
  std::vector<std::vector<Round>> rounds;  // by reader
  size_t most = 0;
  for (const std::vector<Piece>& list : pieces) {
    rounds.push_back(rounds_of(list, size_of, staged_bytes_));
    most = std::max(most, rounds.back().size());
  }
  const auto own_source = [&](const Piece& piece, const Chunk& chunk) {
    return source_of(own_, piece) + static_cast<size_t>(chunk.begin) * size_of;
  };
  const auto staged = [&](int peer, const Chunk& chunk) {
    return staging_ + static_cast<uint64_t>(peer < rank_ ? peer : peer - 1) * staged_bytes_ + chunk.offset;
  };
  std::vector<const void*> sources(calls_.size());
  for (size_t k = 0; k < most; ++k) {
    NcclGroup grouped(library_);
    for (int reader = 0; reader < size(); ++reader) {
      const auto r = static_cast<size_t>(reader);
      if (k >= rounds[r].size()) continue;
      for (const Chunk& chunk : rounds[r][k]) {
        const uint64_t bytes = static_cast<uint64_t>(chunk.count) * size_of;
        if (reader != rank_) {
          send(own_source(pieces[r][chunk.piece], chunk), bytes, reader);
          continue;
        }
        for (int peer = 0; peer < size(); ++peer) {
          if (peer != rank_) receive(staged(peer, chunk), bytes, peer);
        }
      }
    }
    grouped.finish();
    const auto me = static_cast<size_t>(rank_);
    if (k >= rounds[me].size()) continue;
    for (const Chunk& chunk : rounds[me][k]) {
      const Piece& piece = pieces[me][chunk.piece];
      for (int peer = 0; peer < size(); ++peer) {
        sources[static_cast<size_t>(peer)] = peer == rank_ ? own_source(piece, chunk) : staged(peer, chunk);
      }
      move(own_, piece, sources, chunk.begin, chunk.count);
    }
  }
}

void NcclRendezvous::gather() {
  NcclGroup grouped(library_);
  for (const CallRange& range : own_.ranges) {
    const uint64_t bytes = static_cast<uint64_t>(range.count) * core::dtype_size(own_.from);
    if (bytes == 0) continue;
    library_.check(library_.all_gather(range.source, range.target, bytes, ncclUint8, communicator_, library_.stream()),
                   "ncclAllGather");
  }
  grouped.finish();
}

void NcclRendezvous::exchange_messages() {
  NcclGroup grouped(library_);
  for (const Message& message : own_.sends) {
    if (message.peer != rank_ && message.bytes > 0) send(message.data, message.bytes, message.peer);
  }
  for (const Message& message : own_.receives) {
    if (message.peer != rank_ && message.bytes > 0) receive(message.data, message.bytes, message.peer);
  }
  grouped.finish();
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
  recorder_.finish();
  in_call_ = false;
}

void NcclRendezvous::fail(int, const std::string& reason) {
  abort(reason);
  const std::lock_guard lock(mutex_);
  in_call_ = false;
  throw core::CommError(reason_);
}

void NcclRendezvous::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) return;
    reason_ = reason;
  }
  const std::lock_guard lock(queueing_);
  if (ncclComm_t communicator = std::exchange(communicator_, nullptr)) library_.abort(communicator);
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
