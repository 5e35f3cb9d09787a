// One execution of one op on a rank: what it works on.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/arena.h"
#include "runtime/ops/rank.h"
#include "runtime/program/control.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

// Resolves buffers to addresses.
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
  comm::Communicator& comm() const { return *rank.groups[op.group]; }
  Axes group() const { return set_.group(op).axes; }
  const optimizer::Unit& unit(size_t i) const { return rank.layout->units.units[op.units[i]]; }

  const Rank& rank;
  const Op& op;
  const uint32_t iteration;

 private:
  const ProgramSet& set_;
  const core::Arenas& arenas_;
};

}  // namespace zrt::runtime
