#include <algorithm>
#include <map>

#include "runtime/passes/draft.h"

namespace zrt::runtime {
namespace {

// Positions are numbers of computations, counted over all segments with each segment once: a gather at position p
// stands right in front of computation p, so that the lane works on it while p computes.
struct Gather {
  Op op;
  size_t segment = 0;
  size_t consumer = 0;  // the first computation that reads it
  size_t position = 0;
  int64_t elements = 0;  // that its transient buffers hold
};

struct Piece {  // a computation and what stands before it
  std::vector<Op> others;
  std::vector<Op> compute;  // one, or at a segment's end none
};

class Prefetcher {
 public:
  Prefetcher(Draft& draft, const ProgramSet& set, const Layout& layout) : draft_(draft), set_(set), layout_(layout) {
    for (size_t s = 0; s < draft.segments.size(); ++s) take_apart(s);
  }

  void move() {
    find_crossings();
    choose();
    // Where a turn's tail gathers for the next turn and for the next segment, both must want the same there.
    while (forbid_unequal()) choose();
    rebuild();
  }

 private:
  struct Range {
    size_t first = 0, count = 0;             // computations
    std::vector<size_t> gathers;             // of this segment, in order
    std::optional<size_t> previous, next;    // segments with computations
    std::map<BufferId, size_t> last_reader;  // of gathered weights: the last computation to use them
    bool crosses = false;                    // its gathers may stand in the segment before
    std::vector<Piece> pieces;
  };

  void take_apart(size_t s) {
    Range& range = ranges_.emplace_back();
    range.first = current_.size();
    range.pieces.emplace_back();
    std::vector<size_t> waiting;
    for (Op& op : draft_.segments[s].ops) {
      if (op.kind == OpKind::gather) {
        Gather gather;
        gather.segment = s;
        for (const Access& access : op.accesses) {
          const Buffer& buffer = set_.buffers[access.buffer];
          if (access.use != Use::write || buffer.life != Life::transient) continue;
          gather.elements += static_cast<int64_t>(buffer.bytes / core::dtype_size(layout_.compute));
        }
        gather.op = std::move(op);
        waiting.push_back(gathers_.size());
        range.gathers.push_back(gathers_.size());
        gathers_.push_back(std::move(gather));
        continue;
      }
      if (!computes(op)) {
        range.pieces.back().others.push_back(std::move(op));
        continue;
      }
      int64_t read = 0;
      for (const Access& access : op.accesses) {
        const Buffer& buffer = set_.buffers[access.buffer];
        if (access.role == Role::weight && buffer.life == Life::transient) {
          read += static_cast<int64_t>(buffer.bytes / core::dtype_size(layout_.compute));
          range.last_reader[access.buffer] = current_.size();
        }
      }
      for (size_t g : waiting) gathers_[g].consumer = current_.size();
      waiting.clear();
      current_.push_back(read);
      range.pieces.back().compute.push_back(std::move(op));
      range.pieces.emplace_back();
    }
    range.count = current_.size() - range.first;
  }

  bool same_gathers(const Range& a, const Range& b) const {
    return std::equal(a.gathers.begin(), a.gathers.end(), b.gathers.begin(), b.gathers.end(), [&](size_t x, size_t y) {
      const Gather &p = gathers_[x], &q = gathers_[y];
      return p.consumer - a.first == q.consumer - b.first && p.op.units == q.op.units &&
             std::equal(p.op.accesses.begin(), p.op.accesses.end(), q.op.accesses.begin(), q.op.accesses.end(),
                        [](const Access& i, const Access& j) { return i.buffer == j.buffer && i.use == j.use; });
    });
  }

  // A segment's first gathers may move into the one before. Those of a repeated segment move into its own tail as well,
  // where they must be right for its next turn and for the segment that follows.
  void find_crossings() {
    std::optional<size_t> previous;
    for (size_t s = 0; s < ranges_.size(); ++s) {
      if (ranges_[s].count == 0) continue;
      ranges_[s].previous = previous;
      if (previous) ranges_[*previous].next = s;
      previous = s;
    }
    auto repeated = [&](size_t s) { return draft_.segments[s].repeat > 1; };
    for (size_t s = 0; s < ranges_.size(); ++s) {
      Range& range = ranges_[s];
      range.crosses = range.previous && (!repeated(s) || (range.next && same_gathers(range, ranges_[*range.next]))) &&
                      (!repeated(*range.previous) || same_gathers(ranges_[*range.previous], range));
    }
    agree();
  }

  // A repeated segment and the one that follows cross together or not at all.
  void agree() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t s = 0; s < ranges_.size(); ++s) {
        Range& range = ranges_[s];
        if (draft_.segments[s].repeat == 1 || !range.next) continue;
        Range& next = ranges_[*range.next];
        if (range.crosses == next.crosses) continue;
        range.crosses = next.crosses = false;
        changed = true;
      }
    }
  }

  void choose() {
    ahead_.assign(current_.size(), {});
    size_t last = 0;
    for (Gather& gather : gathers_) {
      const Range& range = ranges_[gather.segment];
      const size_t floor = std::max(last, range.crosses ? earliest(gather, ranges_[*range.previous]) : range.first);
      size_t& position = gather.position = gather.consumer;
      while (position > floor && may_stand_before(position - 1, gather)) --position;
      for (size_t q = position; q < gather.consumer; ++q) ahead_[q][gather.consumer] += gather.elements;
      last = position;
    }
  }

  // In the segment before, not in front of a computation that still uses what its own gather brought to the same place.
  static size_t earliest(const Gather& gather, const Range& previous) {
    size_t position = previous.first;
    for (const Access& access : gather.op.accesses) {
      const auto found = previous.last_reader.find(access.buffer);
      if (access.use != Use::read && found != previous.last_reader.end()) {
        position = std::max(position, found->second + 1);
      }
    }
    return position;
  }

  // Whether a gather may run while computation q does, which is not the one that reads it.
  bool may_stand_before(size_t q, const Gather& gather) const {
    if (gather.elements == 0) return true;
    int64_t all = gather.elements;
    bool others = false;
    for (const auto& [consumer, elements] : ahead_[q]) {
      all += elements;
      others = others || (consumer != gather.consumer && elements > 0);
    }
    if (all + current_[q] > layout_.max_live) return false;
    return layout_.prefetch ? all <= *layout_.prefetch : !others;
  }

  bool forbid_unequal() {
    bool changed = false;
    for (size_t s = 0; s < ranges_.size(); ++s) {
      Range& range = ranges_[s];
      if (draft_.segments[s].repeat == 1 || !range.crosses) continue;
      const Range& next = ranges_[*range.next];
      const bool equal = std::equal(
          range.gathers.begin(), range.gathers.end(), next.gathers.begin(), next.gathers.end(),
          [&](size_t x, size_t y) { return gathers_[x].position + next.first == gathers_[y].position + range.first; });
      if (equal) continue;
      range.crosses = false;
      changed = true;
    }
    agree();
    return changed;
  }

  void rebuild() {
    std::vector<std::vector<Op>> at(current_.size());
    for (Gather& gather : gathers_) at[gather.position].push_back(std::move(gather.op));
    for (size_t s = 0; s < ranges_.size(); ++s) {
      std::vector<Op>& ops = draft_.segments[s].ops;
      ops.clear();
      auto append = [&](std::vector<Op>& from) {
        for (Op& op : from) ops.push_back(std::move(op));
      };
      for (size_t i = 0; i < ranges_[s].pieces.size(); ++i) {
        if (i < ranges_[s].count) append(at[ranges_[s].first + i]);
        append(ranges_[s].pieces[i].others);
        append(ranges_[s].pieces[i].compute);
      }
    }
  }

  Draft& draft_;
  const ProgramSet& set_;
  const Layout& layout_;
  std::vector<Range> ranges_;
  std::vector<Gather> gathers_;
  std::vector<int64_t> current_;                  // by computation: gathered elements that it reads
  std::vector<std::map<size_t, int64_t>> ahead_;  // by computation: gathered beside it for later ones
};

}  // namespace

void prefetch(Draft& draft, const ProgramSet& set, const Layout& layout) {
  Prefetcher(draft, set, layout).move();
}

}  // namespace zrt::runtime
