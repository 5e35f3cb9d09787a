// Small models whose layers share their parameters, and a run of one.
#pragma once
#include "models/sharing.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/small_models.h"

namespace zrt::testing {

inline const models::Sharing by_two{{2, 2}, {"*ln_*", "*norm*", "*LayerNorm*"}};

inline models::Model shared(ModelType type, const Setting& s, const models::Sharing& sharing = by_two,
                            float dropout = 0.1f) {
  return models::share(make_small(type, {.layers = 4, .dropout = dropout, .degrees = {s.tensor, s.rows}}), sharing);
}

inline Setting plain() {
  Setting s;
  s.ranks = 2, s.accumulation = 2, s.steps = 3, s.unit_elements = 4000, s.bucket = 6000;
  return s;
}

}  // namespace zrt::testing
