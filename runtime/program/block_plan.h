// A plan of one block's ops: it lists the runs of parts that its passes come in, the exchanges between these, and the
// parts that are computed again. The layout decides all of it; every microbatch has the same.
#pragma once
#include <cstdint>
#include <vector>

#include "models/block.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

// A run of parts of a block's backward.
struct BackwardRun {
  models::Parts parts;
  models::Half half = models::Half::both;
  bool operator==(const BackwardRun&) const = default;
};

class BlockPlan {
 public:
  BlockPlan(const Layout& layout, size_t block);  // reads the layout's model as long as it lives

  // The collective that completes a port on this mesh, or with `gradient` its gradient; none: ranks exchange nothing.
  models::Collective collective(const models::Port& port, bool gradient) const;
  uint64_t port_bytes(const models::Port& port, const models::Shape& shape) const;
  // Runs of these parts, cut where ranks exchange a port; in forward order.
  std::vector<models::Parts> runs(models::Parts parts, bool backward) const;

  // The runs of a backward, in the order in which they come. Where what one makes is exchanged, the gradients of
  // weights wait until the exchange is on its way: a half of their own.
  const std::vector<BackwardRun>& backward() const { return backward_; }
  // Gradients of the block's weights come behind other microbatches (ZB-H1): the last run then makes all of them.
  bool weights_apart() const { return weights_apart_; }
  // The parts whose halves share a buffer with those of a run.
  models::Parts held_parts(models::Parts run) const { return weights_apart_ ? anatomy_->all() : run; }

  // The forward may leave out what the backward reads. Embedding and head leave nothing out, nor does a block that has
  // nothing to.
  Recompute recompute() const { return recompute_; }
  models::Parts left_out() const { return left_out_; }  // the parts that this is of
  models::Parts rerun() const {
    return rerun_;
  }  // what runs again for it; of a selection the first finds what it keeps
  // Says whether the backward of a run reads a port as forward made it, which nobody has kept. Such ports are made
  // again, and brought together, in front of the first run that reads them.
  bool reads_back(const models::Port& port, models::Parts run) const {
    return shares_rows_ && anatomy_->reads_back(port, run);
  }
  std::vector<size_t> made_again(models::Parts run) const;
  // All runs of parts that are computed again, in order.
  const std::vector<models::Parts>& recomputes() const { return recomputes_; }

  // The block's input waits for its backward on this tier, with the block's other activations. Inputs that come early
  // to the first stage stay on the device, since the two copies of what leaves it are too few for them.
  core::Tier input_tier() const { return input_tier_; }

 private:
  std::vector<BackwardRun> backward_runs(bool overlap) const;

  const models::Block* block_;
  const models::Anatomy* anatomy_;
  core::Mesh mesh_;
  bool shares_rows_;
  bool weights_apart_;
  core::Tier input_tier_;
  Recompute recompute_ = Recompute::none;
  models::Parts left_out_{}, rerun_{};
  std::vector<BackwardRun> backward_;
  std::vector<models::Parts> recomputes_;
};

std::vector<BlockPlan> plan_blocks(const Layout& layout);  // by block

}  // namespace zrt::runtime
