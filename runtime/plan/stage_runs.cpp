#include "runtime/plan/stage_runs.h"

#include <algorithm>

namespace zrt::runtime {
namespace {

// Says whether two stages have the same blocks and units and leave the same open, so that decisions for one mean the
// same for the other. A user may have settled what some layers of a stage do.
bool alike(const Layout& a, const Layout& b) {
  if (!(static_cast<const Decisions&>(a) == b)) return false;
  const auto same_unit = [](const optimizer::Unit& x, const optimizer::Unit& y) {
    return x.elements == y.elements && x.shard == y.shard && x.trained == y.trained && x.group == y.group &&
           x.blocks == y.blocks && x.copied == y.copied;
  };
  const auto same_block = [&](const auto& x, const auto& y) {
    return x->params().size() == y->params().size() && x->output_width() == y->output_width() &&
           x->experts() == y->experts();
  };
  const auto &u = a.units.units, &v = b.units.units;
  const auto &p = a.model->blocks, &q = b.model->blocks;
  return std::equal(u.begin(), u.end(), v.begin(), v.end(), same_unit) &&
         std::equal(p.begin(), p.end(), q.begin(), q.end(), same_block) &&
         a.model->has_embedding() == b.model->has_embedding() && a.model->has_head() == b.model->has_head();
}

class Runs {
 public:
  Runs(std::vector<Layout>& stages, const StageSearch& search) : stages_(stages), search_(search) {}

  void settle() {
    for (size_t first = 0, last; first < stages_.size(); first = last + 1) {
      last = first;
      while (last + 1 < stages_.size() && alike(stages_[first], stages_[last + 1])) ++last;
      search_.settle(stages_[first]);
      if (last > first) search_.settle(stages_[last]);
      between(first, last);
    }
  }

 private:
  void between(size_t first, size_t last) {
    if (last - first < 2) return;
    const Decisions& found = stages_[first];
    if (!(found == static_cast<const Decisions&>(stages_[last]))) {
      const size_t middle = first + (last - first) / 2;
      search_.settle(stages_[middle]);
      between(first, middle), between(middle, last);
      return;
    }
    // A run in which nothing fits has the least memory everywhere.
    const bool fits = search_.holds(stages_[first]) && search_.holds(stages_[last]);
    for (size_t s = first + 1; s < last; ++s) {
      Layout layout = stages_[s];
      static_cast<Decisions&>(layout) = found;
      if (!fits || search_.holds(layout)) {
        stages_[s] = std::move(layout);
      } else {
        search_.settle(stages_[s]);
      }
    }
  }

  std::vector<Layout>& stages_;
  const StageSearch& search_;
};

}  // namespace

void settle_stages(std::vector<Layout>& stages, const StageSearch& search) {
  Runs(stages, search).settle();
}

}  // namespace zrt::runtime
