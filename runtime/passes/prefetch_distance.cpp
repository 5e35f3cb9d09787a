#include "runtime/passes/prefetch_distance.h"

namespace zrt::runtime {
namespace {

class NextBlock : public PrefetchDistance {
 public:
  bool reaches(const Ahead& ahead) const override { return ahead.alone && !ahead.over_a_block; }
  bool lingers(int64_t) const override { return false; }
};

class Elements : public PrefetchDistance {
 public:
  explicit Elements(int64_t most) : most_(most) {}
  // A fetch always may come while the work before its own goes on, unless nothing may.
  bool reaches(const Ahead& ahead) const override {
    return ahead.elements <= most_ || (ahead.fetch && most_ > 0 && ahead.alone);
  }
  bool lingers(int64_t elements) const override { return elements <= most_; }

 private:
  int64_t most_;
};

}  // namespace

std::unique_ptr<PrefetchDistance> make_prefetch_distance(const Layout& layout) {
  if (layout.prefetch) return std::make_unique<Elements>(*layout.prefetch);
  return std::make_unique<NextBlock>();
}

}  // namespace zrt::runtime
