#include <algorithm>
#include <array>
#include <optional>

#include "runtime/passes/access_order.h"
#include "runtime/passes/draft.h"
#include "runtime/passes/prefetch_distance.h"
#include "runtime/program/timeline.h"

namespace zrt::runtime {
namespace {

// Keeps communication at its place. A gather starts when the computation in front of which it stands can start; a
// computation waits for the reductions of all blocks but the last one, or with overlap but the last two. What needs no
// buffer of its own may run ahead. Without overlap nothing runs beside a computation. Updates on the host between
// blocks are a row of works of their own: neither row waits for what the other one moves.
class Bounds {
 public:
  Bounds(Program& program, const ProgramSet& set, const Layout& layout)
      : program_(program),
        set_(set),
        layout_(layout),
        distance_(make_prefetch_distance(layout)),
        only_gathers_(std::none_of(program.ops.begin(), program.ops.end(), works)) {}

  void add() {
    const uint32_t most = checked_turns(set_, program_);
    for (const Segment& segment : program_.segments) {
      std::vector<int64_t> before;
      for (uint32_t turn = 0; turn < std::min(most, segment.repeat); ++turn) {
        for (OpId id = segment.first; id < segment.first + segment.count; ++id) add(id);
        // A turn that leaves what the one before left adds what the next one does.
        std::vector<int64_t> left = on_the_way();
        if (turn > 0 && left == before) break;
        before = std::move(left);
      }
    }
  }

 private:
  void add(OpId id) {
    const Op& op = program_.ops[id];
    const OpSpec& kind = spec(op.kind);
    if (works(op) || (only_gathers_ && op.kind == OpKind::gather)) return work(id);
    if (kind.travel == Travel::none) return;
    kind.communicates() ? collective(id, kind.travel) : transfer(id, kind.travel);
  }

  struct Sent {
    OpId op;
    size_t after;  // computations before it, of an evict works
    int64_t elements;
    bool overlaps;  // may go on beside the one behind it
  };
  // Lists all that the next op's waits depend on, counted from what has been computed and worked so far.
  std::vector<int64_t> on_the_way() const {
    std::vector<int64_t> all{last_ ? int64_t{*last_} : -1};
    const auto add = [&](const std::vector<Sent>& sent, size_t now) {
      all.push_back(-1);
      for (const Sent& one : sent) {
        all.insert(all.end(), {one.op, static_cast<int64_t>(now - one.after), one.elements, one.overlaps ? 1 : 0});
      }
    };
    add(sent_, computed_);
    for (const Row& row : rows_) {
      all.push_back(row.last ? int64_t{*row.last} : -1);
      add(row.evicted, row.worked);
    }
    return all;
  }

  struct Row {  // works one after the other, and what they evicted
    std::optional<OpId> last;
    size_t worked = 0;
    std::vector<Sent> evicted;
  };

  void work(OpId id) {
    Op& op = program_.ops[id];
    Row& row = rows_[row_of(op)];
    const bool counts = ends(op);
    wait_for_sent(op, row.evicted, row.worked);
    row.worked += counts;
    row.last = id;
    if (!computes(op)) return;
    wait_for_sent(op, sent_, computed_);
    computed_ += counts;
    last_ = id;
  }

  // A block's pass: the last of its runs of parts; a recomputation is one with its backward.
  bool ends(const Op& op) const {
    if (op.kind == OpKind::recompute) return false;
    if (op.kind == OpKind::backward) return op.parts.first == 0;
    const auto mode = spec(op.kind).block;
    return !mode || op.parts.end >= models::forward_parts(*layout_.model->blocks[op.block], *mode).end;
  }

  void transfer(OpId id, Travel travel) {
    Op& op = program_.ops[id];
    const uint8_t number = row_of(op);
    if (travel == Travel::ahead) {
      for (uint8_t r = 0; r <= number; ++r) {
        if (rows_[r].last) op.waits.push_back(*rows_[r].last);
      }
      if (op.fixed) wait_for_weights(op, rows_[number]);
      return;
    }
    Row& row = rows_[number];
    row.evicted.push_back({id, row.worked, elements(op, Use::read, layout_.compute), true});
  }

  // A fixed fetch waits until the weights whose place it takes are written back, where a gather has changed them.
  void wait_for_weights(Op& op, const Row& row) const {
    for (const Sent& sent : row.evicted) {
      const BufferId from = program_.ops[sent.op].accesses.front().buffer;
      const bool weights = set_.buffers[from].category == core::Category::weights;
      if (weights) op.waits.push_back(sent.op);
    }
  }

  void collective(OpId id, Travel travel) {
    Op& op = program_.ops[id];
    if (travel == Travel::ahead) {
      if (last_ && (bytes(op, Use::write) > 0 || !layout_.overlap)) op.waits.push_back(*last_);
      if (!layout_.overlap) sent_.push_back({id, computed_, 0, false});
      return;
    }
    if (bytes(op, Use::read) == 0 && layout_.overlap) return;
    sent_.push_back({id, computed_, elements(op, Use::read, layout_.local_grad), layout_.overlap});
  }

  // On a lane of its own, the host's, a work and what is moved for it keep to their own row.
  uint8_t row_of(const Op& op) const {
    return transfers(op.kind) || set_.lanes[op.lane].kind == LaneKind::host ? op.row : 0;
  }

  // Transient bytes that an op writes, or reads.
  uint64_t bytes(const Op& op, Use use) const {
    uint64_t sum = 0;
    for (const Access& access : op.accesses) {
      const Buffer& buffer = set_.buffers[access.buffer];
      if (access.use == use && buffer.life == Life::transient) sum += buffer.bytes;
    }
    return sum;
  }

  int64_t elements(const Op& op, Use use, core::DType type) const {
    return static_cast<int64_t>(bytes(op, use) / core::dtype_size(type));
  }

  void wait_for_sent(Op& op, std::vector<Sent>& sent, size_t now) {
    int64_t elements = 0;
    std::vector<Sent> kept;
    std::array<bool, max_lanes> waited{};
    // The newest first: a lane runs in order, so that one wait stands for all before it.
    for (size_t i = sent.size(); i-- > 0;) {
      elements += sent[i].elements;
      const bool recent = sent[i].after == now || distance_->lingers(elements);
      if (sent[i].overlaps && recent) {
        kept.push_back(sent[i]);
        continue;
      }
      bool& lane_waited = waited[program_.ops[sent[i].op].lane];
      if (!lane_waited) op.waits.push_back(sent[i].op);
      lane_waited = true;
    }
    sent.assign(kept.rbegin(), kept.rend());
  }

  Program& program_;
  const ProgramSet& set_;
  const Layout& layout_;
  const std::unique_ptr<PrefetchDistance> distance_;
  const bool only_gathers_;   // which are what such a program is a row of
  std::optional<OpId> last_;  // computation
  size_t computed_ = 0;
  std::vector<Sent> sent_;
  std::array<Row, 2> rows_;  // Op::row
};

// The whole state of one unit at a time: a gather waits until the unit before it has been exported.
void bound_export(Program& program) {
  OpId exported = 0;
  bool open = false;  // no gather waits for that export yet; the second one of a unit follows the first
  for (OpId id = 0; id < program.ops.size(); ++id) {
    Op& op = program.ops[id];
    const bool gathers = op.kind == OpKind::gather_state || op.kind == OpKind::gather_parts;
    if (gathers && open) op.waits.push_back(exported);
    if (gathers) open = false;
    if (op.kind == OpKind::export_state) exported = id, open = true;
  }
}

void keep_once(std::vector<OpId>& waits) {
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
}

}  // namespace

void add_waits(Draft& draft, const ProgramSet& set, const Layout& layout) {
  Program program = flatten(draft);
  Bounds(program, set, layout).add();
  bound_export(program);
  for (Op& op : program.ops) keep_once(op.waits);  // each turn of a segment has added the same
  order_accesses(program, set);
  auto op = program.ops.begin();
  for (DraftSegment& segment : draft.segments) {
    for (Op& waiting : segment.ops) waiting = std::move(*op++);
  }
}

}  // namespace zrt::runtime
