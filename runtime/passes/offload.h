// Brings what an op needs to where it runs, and back: a state or a saved activation is resident in one tier
// (Layout::placement), an op runs on what lies in the device tier or, if it is an update on the host, in the host tier.
// The op works on a transient copy where the two differ: a fetch makes it in front of the op, an evict writes it back
// when it has changed, and a copy stays as long as the op that uses it next is near. Between the device and a file lies
// a copy in the host tier. Each rank moves its shard, and collectives see device memory only.
// (Ren et al., "ZeRO-Offload", 2021; Rajbhandari et al., "ZeRO-Infinity", 2021.)
#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/passes/pass.h"
#include "runtime/passes/sliding.h"

namespace zrt::runtime {

class Offload : public Pass {
 public:
  // Gives the state buffers their tiers.
  Offload(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& blocks, const StateBuffers& state);

  // Rewrites the accesses of one program and inserts its transfers.
  void rewrite(Draft& draft) override;

 private:
  struct State {  // of a state buffer
    uint32_t unit = 0;
    uint64_t shard_bytes = 0;  // of one rank's shard
    bool whole = false;        // the buffer holds the whole unit
  };
  struct Copy {
    BufferId resident = no_buffer;
    Index slot;
    Tier tier = Tier::device;
    BufferId buffer = no_buffer;
    bool part = false;    // holds this rank's shard of a whole unit
    bool dirty = false;   // newer than the resident buffer
    bool slides = false;  // leaves with its layer
  };

  void place_activations(const Draft& draft);
  void find_last_reads(const Draft& draft);
  Tier tier_for(const Op& op, const Access& access) const;
  bool needs_shard(const Op& op, const Access& access) const;
  bool overwrites(const Op& op, const Access& access) const;
  void attach(Op& op, Access& access);
  Copy& add_copy(const Op& op, const Access& access, bool slides);
  void slide(const std::vector<Op>& ops, const SlidingLayers::Move& move);
  const optimizer::Unit& unit_of(const Op& op) const { return layout_.units.units[op.units[0]]; }
  bool is_control(BufferId buffer) const { return buffer == control_ || buffer == decided_; }
  Copy* find(BufferId resident, Index slot, Tier tier, bool part);
  void bring(const Op& op, const Copy& copy, bool shard_only);
  void write_back(const Op& op, const Copy& copy);
  void drop_after(const std::vector<Op>& ops, size_t position);
  bool stays(const std::vector<Op>& ops, size_t position, const Copy& copy) const;
  bool read_later(const Copy& copy, size_t position) const;
  BufferId copy_buffer(BufferId resident, Index slot, Tier tier, bool part);
  void transfer(const Op& cause, OpKind kind, BufferId from, Index from_slot, BufferId to, Index to_slot, bool part,
                BufferId resident);

  ProgramSet& set_;
  const Layout& layout_;
  const std::vector<BlockPlan>& blocks_;
  BufferId control_, decided_;
  std::map<BufferId, State> states_;
  std::optional<SlidingLayers> sliding_;
  std::map<std::tuple<BufferId, Tier, bool, uint32_t>, BufferId> buffers_;
  // These belong to the draft at hand.
  std::map<BufferId, std::pair<size_t, size_t>> last_read_;  // segment and op
  size_t segment_ = 0;
  std::vector<Op>* out_ = nullptr;
  std::vector<Copy> copies_;
};

}  // namespace zrt::runtime
