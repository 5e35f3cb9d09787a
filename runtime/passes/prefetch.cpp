#include <algorithm>
#include <array>
#include <map>

#include "runtime/passes/draft.h"
#include "runtime/passes/prefetch_distance.h"

namespace zrt::runtime {
namespace {

// Positions are numbers of works, counted over all segments with each segment once: a gather or fetch at position p
// stands in front of work p and of all that stands there, so that its lane is busy with it meanwhile.
struct Gather {
  Op op;
  size_t segment = 0;
  size_t consumer = 0;  // the first work behind it
  size_t behind = 0;    // ops in front of that work that it stands behind
  size_t position = 0;
  bool stays = false;    // where it is: behind what it needs
  int64_t elements = 0;  // that its transient buffers hold
};

struct WorkItem {  // a work and what stands before it
  std::vector<Op> others;
  std::vector<Op> work;  // one, or at a segment's end none
};

bool moves(const Op& op) {
  return spec(op.kind).travel == Travel::ahead;
}

class Prefetcher {
 public:
  Prefetcher(Draft& draft, const ProgramSet& set, const Layout& layout)
      : draft_(draft), set_(set), layout_(layout), distance_(make_prefetch_distance(layout)) {
    for (size_t s = 0; s < draft.segments.size(); ++s) take_apart(s);
  }

  void move() {
    find_crossings();
    choose();
    // A turn's tail may gather for the next turn and for the next segment: both must want the same there.
    while (forbid_unequal()) choose();
    rebuild();
  }

 private:
  struct Range {
    size_t first = 0, count = 0;           // works
    std::vector<size_t> gathers;           // of this segment, in order
    std::optional<size_t> previous, next;  // segments with works
    bool crosses = false;                  // its gathers may stand in the segment before
    std::vector<WorkItem> items;
  };

  void take_apart(size_t s) {
    Range& range = ranges_.emplace_back();
    range.first = current_.size();
    range.items.emplace_back();
    std::vector<size_t> waiting;
    for (Op& op : draft_.segments[s].ops) {
      if (moves(op)) {
        Gather gather;
        gather.segment = s;
        gather.stays = op.fixed;
        for (const Access& access : op.accesses) {
          const Buffer& buffer = set_.buffers[access.buffer];
          if (access.use != Use::write || buffer.life != Life::transient || access.role == Role::packed) continue;
          gather.elements += static_cast<int64_t>(buffer.bytes / core::dtype_size(layout_.compute));
        }
        gather.op = std::move(op);
        gather.behind = range.items.back().others.size();
        waiting.push_back(gathers_.size());
        range.gathers.push_back(gathers_.size());
        gathers_.push_back(std::move(gather));
        continue;
      }
      if (!works(op)) {
        range.items.back().others.push_back(std::move(op));
        continue;
      }
      int64_t read = 0;
      for (const Access& access : op.accesses) {
        const Buffer& buffer = set_.buffers[access.buffer];
        if (access.role == Role::weight && buffer.life == Life::transient) {
          read += static_cast<int64_t>(buffer.bytes / core::dtype_size(layout_.compute));
        }
      }
      for (size_t g : waiting) gathers_[g].consumer = current_.size();
      waiting.clear();
      current_.push_back(read);
      row_.push_back(op.row);
      range.items.back().work.push_back(std::move(op));
      range.items.emplace_back();
    }
    range.count = current_.size() - range.first;
    for (size_t g : waiting) gathers_[g].consumer = current_.size(), gathers_[g].stays = true;
  }

  bool same_gathers(const Range& a, const Range& b) const {
    return std::equal(a.gathers.begin(), a.gathers.end(), b.gathers.begin(), b.gathers.end(), [&](size_t x, size_t y) {
      const Gather &p = gathers_[x], &q = gathers_[y];
      return p.consumer - a.first == q.consumer - b.first && p.op.units == q.op.units &&
             std::equal(p.op.accesses.begin(), p.op.accesses.end(), q.op.accesses.begin(), q.op.accesses.end(),
                        [](const Access& i, const Access& j) {
                          return i.buffer == j.buffer && i.use == j.use && i.slot.first == j.slot.first &&
                                 i.slot.step == 0 && j.slot.step == 0;
                        });
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
    find_passed();
    std::array<size_t, 2> lasts{};
    for (Gather& gather : gathers_) {
      const Range& range = ranges_[gather.segment];
      size_t& position = gather.position = gather.consumer;
      if (!may_lead(gather)) {
        gather.stays = true;
        if (gather.consumer < range.first + range.count) {
          passed_[gather.consumer].push_back(&gather.op);
        } else if (range.count > 0) {
          passed_[gather.consumer - 1].push_back(&gather.op);
        }
        continue;
      }
      size_t& last = lasts[row_[gather.consumer]];
      const size_t floor = std::max(last, range.crosses ? ranges_[*range.previous].first : range.first);
      while (position > floor && may_stand_before(position - 1, gather) && !needs(gather.op, passed_[position - 1])) {
        --position;
      }
      for (size_t q = position; q < gather.consumer; ++q) ahead_[q][gather.consumer] += gather.elements;
      last = position;
    }
  }

  // True where a gather may stand in front of the other ops at its place.
  bool may_lead(const Gather& gather) const {
    const Range& range = ranges_[gather.segment];
    if (gather.stays || gather.consumer >= range.first + range.count) return false;
    const std::vector<Op>& others = range.items[gather.consumer - range.first].others;
    for (size_t i = 0; i < gather.behind; ++i) {
      if (conflict(gather.op, others[i])) return false;
    }
    return std::none_of(gathers_.begin(), gathers_.end(), [&](const Gather& earlier) {
      return &earlier < &gather && earlier.stays && earlier.segment == gather.segment &&
             earlier.consumer == gather.consumer && conflict(gather.op, earlier.op);
    });
  }

  // Finds the ops that a gather passes when it moves from in front of work q + 1 to in front of work q.
  void find_passed() {
    passed_.assign(current_.size(), {});
    size_t q = 0;
    for (const Range& range : ranges_) {
      for (size_t i = 0; i < range.items.size(); ++i) {
        if (i < range.count) q = range.first + i;
        if (q >= passed_.size() || (i == range.count && range.first + range.count == 0)) continue;
        for (const Op& op : range.items[i].others) passed_[q].push_back(&op);
        for (const Op& op : range.items[i].work) passed_[q].push_back(&op);
      }
    }
    for (const Gather& gather : gathers_) {
      const Range& range = ranges_[gather.segment];
      if (gather.stays && range.count > 0 && gather.consumer == range.first + range.count) {
        passed_[gather.consumer - 1].push_back(&gather.op);
      }
    }
  }

  static bool needs(const Op& gather, const std::vector<const Op*>& ops) {
    return std::any_of(ops.begin(), ops.end(), [&](const Op* op) { return conflict(gather, *op); });
  }

  // True where a gather may run while work q does, which is not the one that reads it.
  bool may_stand_before(size_t q, const Gather& gather) const {
    const bool fetch = transfers(gather.op.kind);
    if (!fetch && !layout_.overlap) return false;
    if (!fetch && gather.elements == 0) return true;
    // Gathers for updates between backwards and gathers for the backwards do not count for each other. The former come
    // no earlier than while one block runs.
    const uint8_t row = row_[gather.consumer];
    int64_t all = gather.elements;
    bool others = false;
    for (const auto& [consumer, elements] : ahead_[q]) {
      if (row_[consumer] != row) continue;
      all += elements;
      others = others || (consumer != gather.consumer && elements > 0);
    }
    if (all + (row_[q] == row ? current_[q] : 0) > layout_.max_live) return false;
    return distance_->reaches({all, !others, row && !row_[q] && block_between(q, gather.consumer), fetch});
  }

  // True where one of the works between two is a block.
  bool block_between(size_t q, size_t consumer) const {
    const auto at = [&](size_t i) { return row_.begin() + static_cast<std::ptrdiff_t>(i); };
    return std::find(at(q + 1), at(consumer), 0) != at(consumer);
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
    for (Gather& gather : gathers_) {
      if (!gather.stays) at[gather.position].push_back(std::move(gather.op));
    }
    for (size_t s = 0; s < ranges_.size(); ++s) {
      Range& range = ranges_[s];
      std::vector<Op>& ops = draft_.segments[s].ops;
      ops.clear();
      size_t next = 0;  // of the segment's gathers
      for (size_t i = 0; i < range.items.size(); ++i) {
        if (i < range.count) std::move(at[range.first + i].begin(), at[range.first + i].end(), std::back_inserter(ops));
        std::vector<Op>& others = range.items[i].others;
        for (size_t o = 0; o <= others.size(); ++o) {
          for (; next < range.gathers.size(); ++next) {
            Gather& gather = gathers_[range.gathers[next]];
            if (!gather.stays) continue;
            if (gather.consumer != range.first + i || gather.behind > o) break;
            ops.push_back(std::move(gather.op));
          }
          if (o < others.size()) ops.push_back(std::move(others[o]));
        }
        std::move(range.items[i].work.begin(), range.items[i].work.end(), std::back_inserter(ops));
      }
    }
  }

  Draft& draft_;
  const ProgramSet& set_;
  const Layout& layout_;
  const std::unique_ptr<PrefetchDistance> distance_;
  std::vector<Range> ranges_;
  std::vector<Gather> gathers_;
  std::vector<std::vector<const Op*>> passed_;    // by work
  std::vector<int64_t> current_;                  // by work: gathered elements that it reads
  std::vector<uint8_t> row_;                      // by work: Op::row
  std::vector<std::map<size_t, int64_t>> ahead_;  // by work: gathered beside it for later ones
};

}  // namespace

void prefetch(Draft& draft, const ProgramSet& set, const Layout& layout) {
  Prefetcher(draft, set, layout).move();
}

}  // namespace zrt::runtime
