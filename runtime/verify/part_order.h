// The verifier's own account of a block: the order in which its ops come, and what they exchange and keep. It follows
// from the block's anatomy, the model's degrees and the layout's settings. Passes and ranks go by a plan of their own,
// which this knows nothing of: a fault in one of the two shows as a difference.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/program/layout.h"

namespace zrt::runtime::verification {

struct PartRun {
  models::Parts parts;
  models::Half half = models::Half::both;
  bool operator==(const PartRun&) const = default;
};

class PartOrder {
 public:
  PartOrder(const Layout& layout, size_t block);  // reads the layout's model as long as it lives

  // The runs of parts that ops of this kind are of, for one microbatch, in the order in which they come.
  const std::vector<PartRun>& runs(OpKind kind) const;
  // The parts from the first of these runs to the last.
  models::Parts whole(OpKind kind) const;

  models::Collective completed_by(const models::Port& port, bool backward) const;  // none: by nothing
  // Says whether an op ends between this part and the next one, since ranks exchange something there.
  bool cut(size_t part, bool backward) const;
  // Says whether gradients of a run's weights are made of what forward handed on in this port. Ranks that have all rows
  // find it in what the block has kept.
  bool reads_back(const models::Port& port, models::Parts run) const { return rows_ && anatomy_.reads_back(port, run); }
  uint64_t port_bytes(const models::Port& port, const models::Shape& shape) const;

  // The parts of which a forward keeps nothing until the backward, which a recompute in front of it makes up for.
  models::Parts left_out() const { return left_out_; }
  // Says whether a recompute only makes a port again, and nothing that a forward has not kept.
  bool makes_port(models::Parts run) const { return run.first < again_.first || run.end > again_.end; }
  // The parts that share with a run a buffer for what lies between the halves of their backward.
  models::Parts held_with(models::Parts run) const { return apart_ ? anatomy_.all() : run; }

 private:
  void recompute(const Layout& layout, size_t block);
  void add_ports_again();
  std::vector<PartRun> forward_runs(models::Parts parts) const;
  std::vector<PartRun> backward_runs() const;
  std::vector<PartRun> halves(bool overlap) const;

  int ranks(const models::Port& port) const { return mesh_.degree(port.seam.axis); }

  const models::Block& block_;
  const models::Anatomy& anatomy_;
  core::Mesh mesh_;
  bool rows_;   // ranks share them
  bool apart_;  // gradients of weights come behind other microbatches
  models::Parts again_{}, left_out_{};
  std::vector<PartRun> training_, whole_, recompute_, backward_;
};

std::vector<PartOrder> part_orders(const Layout& layout);  // by block

}  // namespace zrt::runtime::verification
