// An optimizer keeps states for a unit: its state kinds, each a run of values with the tensors that lie in it.
#pragma once
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/form.h"
#include "core/ledger.h"
#include "optimizer/unit.h"

namespace zrt::optimizer {

// One parameter's part of a state kind: from `offset` elements into the unit's state, values of `shape`, or where
// tensor-parallel ranks have parts of an element-wise one, a part of them.
struct StateTensor {
  const UnitParam* param = nullptr;
  std::vector<int64_t> shape;  // of the whole
  int64_t offset = 0;
  int64_t elements() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
};

struct UnitState {
  std::string kind;  // as PyTorch names it: "exp_avg", "exp_avg_sq", "momentum_buffer", "exp_avg_sq_row" …
  core::Category category = core::Category::moment1;
  // Element-wise: laid out like the unit, padding included, and cut as Unit::held says. Otherwise every rank
  // holds all of it, whatever part of the tensors it has.
  bool sharded = true;
  int64_t elements = 0;  // of the whole unit
  std::vector<StateTensor> tensors;
  core::Form form = core::Form::f32;  // of its values; another one only where it is sharded
  // Elements of it that a rank holds, and their bytes.
  int64_t held_of(const Unit& unit) const { return sharded ? unit.extent(unit.held.states) : elements; }
  uint64_t bytes_of(const Unit& unit) const { return core::form_bytes(form, held_of(unit)); }
};

// A state kind with one value per element of the unit.
UnitState element_wise(const Unit& unit, std::string kind, core::Category category, core::Form form = core::Form::f32);

}  // namespace zrt::optimizer
