// What each kind of op does on a rank.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/arena.h"
#include "runtime/engine/rank.h"
#include "runtime/program/control.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

// One execution of one op: resolves buffers to addresses.
class OpCall {
 public:
  OpCall(const Rank& on, const ProgramSet& set, const core::Arenas& arenas, const Op& what, uint32_t turn)
      : rank(on), op(what), iteration(turn), set_(set), arenas_(arenas) {}

  // The nth access with this role; nullptr when there is none.
  const Access* find(Role role, size_t nth = 0) const;
  std::byte* address(const Access& access) const;
  const ProgramSet& set() const { return set_; }
  const Buffer& buffer(const Access& access) const { return set_.buffers[access.buffer]; }
  uint64_t bytes(const Access& access) const { return buffer(access).bytes; }
  std::byte* at(Role role, size_t nth = 0) const;
  template <class T>
  T* as(Role role, size_t nth = 0) const {
    return reinterpret_cast<T*>(at(role, nth));
  }
  comm::Communicator& comm() const { return *rank.groups[static_cast<size_t>(op.span)]; }
  const optimizer::Unit& unit(size_t i) const { return rank.layout->units.units[op.units[i]]; }

  const Rank& rank;
  const Op& op;
  const uint32_t iteration;

 private:
  const ProgramSet& set_;
  const core::Arenas& arenas_;
};

void run_op(const OpCall& call);

// Throws core::DataError for tokens or targets (may be null) outside the vocabulary: a GPU's blocks do not look.
void check_batch(const models::Model& model, const int32_t* tokens, const int32_t* targets, int64_t rows);

// ops_state.cpp
void run_init(const OpCall& call);
void run_export(const OpCall& call);
void run_snapshot(const OpCall& call);
// ops_transfer.cpp
void run_transfer(const OpCall& call);
// ops_block.cpp
void run_block(const OpCall& call);
// ops_step.cpp
void run_gather(const OpCall& call);
void run_reduce_grad(const OpCall& call);
void run_norm(const OpCall& call);
void run_share_control(const OpCall& call);
void run_average(const OpCall& call);
void run_decide(const OpCall& call);
void run_decide_ahead(const OpCall& call);
// ops_update.cpp
void run_sum(const OpCall& call);
void run_share_sums(const OpCall& call);
void run_fold(const OpCall& call);
void run_update(const OpCall& call);

}  // namespace zrt::runtime
