// The sums of a group that NCCL connects: each rank is sent the contributions to its part, partial sums go along the
// line of hosts, or NCCL sums.
#include <fmt/format.h>

#include <algorithm>

#include "comm/nccl/host_line.h"
#include "comm/nccl/rendezvous.h"
#include "comm/nccl/rounds.h"
#include "core/device.h"
#include "core/error.h"

namespace zrt::comm {

namespace {

ncclDataType_t nccl_type(core::DType type) {
  switch (type) {
    case core::DType::f32:
      return ncclFloat32;
    case core::DType::bf16:
      return ncclBfloat16;
    case core::DType::f16:
      return ncclFloat16;
    default:
      throw core::Error(fmt::format("NCCL cannot sum {}", core::dtype_name(type)));
  }
}

struct Rounds {
  std::vector<std::vector<Round>> by_reader;
  size_t most = 0;  // of a reader
};

Rounds rounds_by_reader(const std::vector<std::vector<Portion>>& portions, size_t element_bytes, uint64_t bytes) {
  Rounds rounds;
  for (const std::vector<Portion>& list : portions) {
    rounds.by_reader.push_back(rounds_of(list, element_bytes, bytes));
    rounds.most = std::max(rounds.most, rounds.by_reader.back().size());
  }
  return rounds;
}

}  // namespace

void NcclRendezvous::sum_portions(const std::vector<std::vector<Portion>>& portions) {
  const size_t size_of = core::dtype_size(own_.from);
  if (seat_.fast_sums) return sum_by_nccl(portions);
  if (const uint64_t part = line_part(portions)) return sum_along_line(portions, part);
  const Rounds all = rounds_by_reader(portions, size_of, staged_bytes_);
  const std::vector<std::vector<Round>>& rounds = all.by_reader;
  const auto own_source = [&](const Portion& portion, const Chunk& chunk) {
    return source_of(own_, portion) + static_cast<size_t>(chunk.begin) * size_of;
  };
  const auto staged = [&](int peer, const Chunk& chunk) {
    return seat_.staging + static_cast<uint64_t>(peer < rank_ ? peer : peer - 1) * staged_bytes_ + chunk.offset;
  };
  std::vector<const void*> sources(calls_.size());
  for (size_t k = 0; k < all.most; ++k) {
    in_one_call([&] {
      for (int reader = 0; reader < size(); ++reader) {
        const auto r = static_cast<size_t>(reader);
        if (k >= rounds[r].size()) continue;
        for (const Chunk& chunk : rounds[r][k]) {
          const uint64_t bytes = static_cast<uint64_t>(chunk.count) * size_of;
          if (reader != rank_) {
            send(own_source(portions[r][chunk.portion], chunk), bytes, reader);
            continue;
          }
          for (int peer = 0; peer < size(); ++peer) {
            if (peer != rank_) receive(staged(peer, chunk), bytes, peer);
          }
        }
      }
    });
    const auto me = static_cast<size_t>(rank_);
    if (k >= rounds[me].size()) continue;
    for (const Chunk& chunk : rounds[me][k]) {
      const Portion& portion = portions[me][chunk.portion];
      for (int peer = 0; peer < size(); ++peer) {
        sources[static_cast<size_t>(peer)] = peer == rank_ ? own_source(portion, chunk) : staged(peer, chunk);
      }
      move(own_, portion, sources, chunk.begin, chunk.count);
    }
  }
}

// Each rank's part is one reduction to it. A rank that is the first of its host in a ring receives from another host.
void NcclRendezvous::sum_by_nccl(const std::vector<std::vector<Portion>>& portions) {
  const size_t size_of = core::dtype_size(own_.from);
  const Rounds all = rounds_by_reader(portions, size_of, seat_.staging_bytes);
  const std::vector<std::vector<Round>>& rounds = all.by_reader;
  const auto me = static_cast<size_t>(rank_);
  for (size_t k = 0; k < all.most; ++k) {
    in_one_call([&] {
      for (int reader = 0; reader < size(); ++reader) {
        const auto r = static_cast<size_t>(reader);
        if (k >= rounds[r].size()) continue;
        for (const Chunk& chunk : rounds[r][k]) {
          const std::byte* source =
              source_of(own_, portions[r][chunk.portion]) + static_cast<size_t>(chunk.begin) * size_of;
          library_.check(library_.reduce(source, reader == rank_ ? seat_.staging + chunk.offset : nullptr,
                                         static_cast<size_t>(chunk.count), nccl_type(own_.from), ncclSum, reader,
                                         communicator_, stream_),
                         "ncclReduce");
        }
      }
    });
    if (k >= rounds[me].size()) continue;
    for (const Chunk& chunk : rounds[me][k]) {
      const void* sum = seat_.staging + chunk.offset;
      move(own_, portions[me][chunk.portion], {&sum, 1}, chunk.begin, chunk.count);
    }
  }
  uint64_t bytes = 0;
  for (const Portion& portion : portions[me]) bytes += static_cast<uint64_t>(portion.count) * size_of;
  const int before = (rank_ + size() - 1) % size();
  between_hosts_ = seat_.elsewhere(before) ? bytes * static_cast<uint64_t>(size() - 1) : 0;
}

// The size of a part of staging for sums along the line of hosts; 0 where there is no line, or it does not pay, or
// where the last host would round a sum before its reader adds it to 16 bits.
uint64_t NcclRendezvous::line_part(const std::vector<std::vector<Portion>>& portions) const {
  if (!line_) return 0;
  uint64_t elements = 0;
  for (const std::vector<Portion>& list : portions) {
    for (const Portion& portion : list) {
      if (portion.accumulate && own_.to != core::DType::f32) return 0;
      elements += static_cast<uint64_t>(portion.count);
    }
  }
  if (!seat_.by_line.value_or(line_->pays(elements, own_.from, own_.to, seat_.staging_bytes))) return 0;
  return part_bytes(*line_, seat_.staging_bytes, core::dtype_size(own_.from));
}

void NcclRendezvous::sum_along_line(const std::vector<std::vector<Portion>>& portions, uint64_t part) {
  const HostLine& line = *line_;
  const size_t from_size = core::dtype_size(own_.from), to_size = core::dtype_size(own_.to);
  std::vector<std::vector<Round>> rounds;  // by reader
  for (const std::vector<Portion>& list : portions) rounds.push_back(rounds_of(list, from_size, part));
  const LineSchedule schedule(line, rounds);
  const int host = line.host(rank_), column = line.column(rank_), last = line.hosts - 1;
  const uint64_t wide = part / from_size * sizeof(float);
  std::byte* const arrived = seat_.staging + static_cast<uint64_t>(line.per_host - 1) * part;  // a partial
  std::byte* const summed = arrived + wide;
  std::byte* const result = summed + wide;
  const auto source = [&](int reader, const Chunk& chunk) {
    const Portion& portion = portions[static_cast<size_t>(reader)][chunk.portion];
    return source_of(own_, portion) + static_cast<size_t>(chunk.begin) * from_size;
  };
  const auto staged = [&](int c, const Chunk& chunk) {
    return seat_.staging + static_cast<uint64_t>(c < column ? c : c - 1) * part + chunk.offset;
  };
  const auto bytes_of = [&](const LineSchedule::Item& item, size_t size) { return item.extent(from_size) * size; };
  between_hosts_ = 0;
  std::vector<const void*> sources(static_cast<size_t>(line.per_host));
  for (int64_t tick = 0; tick < schedule.ticks(); ++tick) {
    const LineSchedule::Item* now = schedule.at(column, tick - host);
    const LineSchedule::Item* before = schedule.at(column, tick - 1 - host);
    const LineSchedule::Item* done = schedule.at(column, tick - 1 - last);
    const bool mine = done && done->reader == rank_ && host != last;
    in_one_call([&] {
      for (int c = 0; c < line.per_host; ++c) {
        const int peer = line.rank(host, c);
        const LineSchedule::Item* theirs = c == column ? nullptr : schedule.at(c, tick - host);
        for (size_t i = 0; theirs && i < theirs->round->size(); ++i) {
          const Chunk& chunk = (*theirs->round)[i];
          send(source(theirs->reader, chunk), static_cast<uint64_t>(chunk.count) * from_size, peer);
        }
        for (size_t i = 0; now && c != column && i < now->round->size(); ++i) {
          const Chunk& chunk = (*now->round)[i];
          receive(staged(c, chunk), static_cast<uint64_t>(chunk.count) * from_size, peer);
        }
      }
      if (now && host > 0) {
        receive(arrived, bytes_of(*now, sizeof(float)), line.rank(host - 1, column));
        between_hosts_ += now->elements() * sizeof(float);
      }
      if (before && host < last) send(summed, bytes_of(*before, sizeof(float)), line.rank(host + 1, column));
      if (done && host == last && done->reader != rank_) send(summed, bytes_of(*done, to_size), done->reader);
      if (mine) {
        receive(result, bytes_of(*done, to_size), line.rank(last, column));
        between_hosts_ += done->elements() * to_size;
      }
    });
    for (size_t i = 0; now && i < now->round->size(); ++i) {
      const Chunk& chunk = (*now->round)[i];
      const Portion& portion = portions[static_cast<size_t>(now->reader)][chunk.portion];
      for (int c = 0; c < line.per_host; ++c) {
        sources[static_cast<size_t>(c)] = c == column ? source(now->reader, chunk) : staged(c, chunk);
      }
      const uint64_t at = chunk.offset / from_size;  // elements
      const auto* partial = host > 0 ? reinterpret_cast<const float*>(arrived) + at : nullptr;
      if (host < last) {
        add_up(sources, own_.from, summed + at * sizeof(float), core::DType::f32, false, chunk.count, partial);
      } else if (now->reader == rank_) {
        add_up(sources, own_.from, portion.target + static_cast<size_t>(chunk.begin) * to_size, own_.to,
               portion.accumulate, chunk.count, partial);
      } else {
        add_up(sources, own_.from, summed + at * to_size, own_.to, false, chunk.count, partial);
      }
    }
    for (size_t i = 0; mine && i < done->round->size(); ++i) {
      const Chunk& chunk = (*done->round)[i];
      const Portion& portion = portions[static_cast<size_t>(rank_)][chunk.portion];
      const void* sum = result + chunk.offset / from_size * to_size;
      std::byte* target = portion.target + static_cast<size_t>(chunk.begin) * to_size;
      if (portion.accumulate) {
        add_up({&sum, 1}, own_.to, target, own_.to, true, chunk.count);
      } else {
        core::copy_bytes(target, sum, static_cast<size_t>(chunk.count) * to_size);
      }
    }
  }
}

}  // namespace zrt::comm
