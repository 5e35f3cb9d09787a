// A pass from outside zrt. It moves each gather of weights down to the first op that needs what it brings: whole
// weights are there for a shorter time, so a step takes less memory, and waits for every gather.
#include "late_gathers.h"

#include <algorithm>

#include "runtime/passes/pass.h"

namespace {

using namespace zrt::runtime;

class LateGathers : public Pass {
 public:
  void rewrite(Draft& draft) override {
    for (DraftSegment& segment : draft.segments) {
      std::vector<Op>& ops = segment.ops;
      for (size_t i = ops.size(); i-- > 0;) {
        if (ops[i].kind != OpKind::gather) continue;
        size_t last = i;  // that it moves behind
        while (last + 1 < ops.size() && !conflict(ops[i], ops[last + 1])) ++last;
        if (last + 1 == ops.size()) continue;  // it is for a later segment, or the next turn of this one
        const auto at = [&](size_t n) { return ops.begin() + static_cast<std::ptrdiff_t>(n); };
        std::rotate(at(i), at(i + 1), at(last + 1));
      }
    }
  }
};

}  // namespace

void add_late_gathers() {
  const auto shards = [](const Layout& layout) { return layout.zero.weights == zrt::optimizer::Extent::shard; };
  const auto make = [](Compilation&) -> std::unique_ptr<Pass> { return std::make_unique<LateGathers>(); };
  register_pass({"late gathers", shards, make}, "prefetch");
}
