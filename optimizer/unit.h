// Units: the granules of ZeRO. A unit is a flat run of whole parameters that the same blocks use, padded so that every
// data-parallel rank owns an equal shard whose boundaries never cut a 64-element chunk (see ExactSum).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"

namespace zrt::optimizer {

class Optimizer;

inline constexpr int64_t unit_alignment = 64;  // elements; every parameter and shard starts at a multiple at least

struct UnitParam {
  const models::Param* param = nullptr;  // owned by the model
  int64_t offset = 0;                    // elements from the unit's start
  uint32_t number = 0;                   // position in the model's canonical order: key of its random numbers
};

struct Unit {
  std::string name;  // first and last parameter
  std::vector<UnitParam> params;
  std::vector<uint32_t> blocks;  // users, ascending; several for tied and shared parameters
  int64_t elements = 0;          // with padding: a multiple of dp × the cut's alignment
  int64_t shard = 0;             // elements per rank that shares the states
  bool persistent = false;       // of small parameters that stay whole even where weights are sharded
  uint32_t group = 0;            // of its parameters: Optimizer::group_of
  // Of one parameter that another stage of a pipeline uses too: both have a copy, whose gradients are added up. The
  // stage that uses it first speaks for it, in norms and checkpoints.
  bool copied = false, spoken_for = false;
  // Of parameters that ranks have parts of, or that each has whole and a part of the gradient of; it is of one kind.
  bool sliced = false, summed = false;
  int64_t parameters() const;  // elements without padding
};

// Where a block finds its parameters: params()[i] is at `offset` of unit `unit`.
struct ParamPlace {
  uint32_t unit;
  int64_t offset;
};
struct UnitTable {
  std::vector<Unit> units;                      // in canonical parameter order
  std::vector<std::vector<ParamPlace>> params;  // [block][index into Block::params()]
  std::vector<std::vector<uint32_t>> blocks;    // [block] → its units, ascending
  int64_t padding() const;                      // elements that are no parameter
};

// Among how many ranks units are cut. `dp` data-parallel ranks; `shards` of them share a unit's states (0: all).
// Parameters and shards start at multiples of `alignment` elements, itself a multiple of unit_alignment.
struct Cut {
  int dp = 1, shards = 0;
  int64_t alignment = unit_alignment;
};
// Which parameters stay whole on every rank: those smaller than `parameter` elements, as long as all of them together
// have at most `model` elements (DeepSpeed's persistence thresholds).
struct Persistence {
  int64_t parameter = 0, model = INT64_MAX;
};

// Cuts the model into units of at most `unit_elements` elements. A parameter larger than that is a unit of its own: an
// operator needs its weight in one piece. Persistent parameters with the same users share units of their own, and so do
// parameters of a group; each that the optimizer refines is one of its own. Without an optimizer there is one group.
UnitTable make_units(const models::Model& model, Cut cut, int64_t unit_elements, Persistence persistence = {},
                     const Optimizer* optimizer = nullptr);
inline UnitTable make_units(const models::Model& model, int dp, int64_t unit_elements) {
  return make_units(model, Cut{.dp = dp}, unit_elements);
}

}  // namespace zrt::optimizer
