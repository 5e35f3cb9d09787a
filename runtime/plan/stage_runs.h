// The search for placements over the stages of a pipeline. Stages with the same blocks, of which a configuration leaves
// the same open, differ in how many microbatches they hold at a time, and need the less the later they come: of a run
// of them the ends are searched, and stages between two with the same outcome have it, too.
#pragma once
#include <functional>
#include <vector>

#include "runtime/program/layout.h"

namespace zrt::runtime {

struct StageSearch {
  std::function<void(Layout&)> settle;       // fills what a layout leaves open
  std::function<bool(const Layout&)> holds;  // says whether memory holds a settled one
};
// Stages in order. A stage that an outcome taken over does not fit is searched by itself.
void settle_stages(std::vector<Layout>& stages, const StageSearch& search);

}  // namespace zrt::runtime
