// Random models and layouts are compiled: the verifier accepts every program, the memory plan agrees with itself, and
// programs with a fault at a random place are rejected.
// ZRT_RANDOM_SEED=N repeats one; with ZRT_FULL_TESTS there are 10,000 instead of 1,000.
#include <chrono>
#include <set>
#include <sstream>

#include "catch.h"
#include "core/error.h"
#include "optimizer/groups.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/fault_kinds.h"

namespace zrt::random_programs_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  // One of 0 … count - 1.
  uint64_t below(uint64_t count) { return core::random_word({seed_, 17, 3}, next_++) % count; }
  bool one_in(uint64_t count) { return below(count) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  // A divisor of n.
  int64_t divisor(int64_t n) {
    std::vector<int64_t> all;
    for (int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) all.push_back(d);
    }
    return all[below(all.size())];
  }

 private:
  uint64_t seed_, next_ = 0;
};

models::Model draw_model(Draw& draw) {
  const auto layers = static_cast<int64_t>(1 + draw.below(6));
  const bool tied = draw.one_in(2);
  if (draw.one_in(12)) return models::make_gpt2({layers, 16 * draw.of<int64_t>({1, 2, 3}), 2, 8, 61, 0.1f, tied});
  const auto sequence = static_cast<int64_t>(1 + draw.below(24));
  return make_toy(layers, draw.of<int64_t>({1, 7, 12, 16, 40, 64}), draw.of<int64_t>({3, 17, 64, 257}), sequence, tied,
                  !tied && layers > 2 && draw.one_in(4));
}

// True where middle blocks share a weight: such windows cannot be microbatch-major.
bool shares_inside(const models::Model& model) {
  return model.layers > 2 && model.blocks[1]->params()[0].name == model.blocks[3]->params()[0].name;
}

optimizer::OptimizerPtr draw_optimizer(Draw& draw) {
  switch (draw.below(6)) {
    case 0:
      return make_optimizer(optimizer::SgdParams{});
    case 1:
      return make_optimizer(optimizer::SgdParams{0.9f, 0, 0.01f, true});
    case 2:
      return make_optimizer(optimizer::LionParams{0.9f, 0.99f, 0.1f});
    case 3:
      return make_optimizer(optimizer::AdafactorParams{});
    default:
      return make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true});
  }
}

Islands draw_groups(Draw& draw, int ranks) {
  Islands groups;
  if (draw.one_in(2)) return groups;
  groups.inner = static_cast<int>(draw.divisor(ranks));
  if (groups.inner == 1) return groups;
  if (groups.inner < ranks && draw.one_in(3)) {
    groups.replicated = true;
    return groups;
  }
  groups.hierarchical = draw.one_in(2);
  groups.secondary = !groups.hierarchical || draw.one_in(2);
  return groups;
}

Setting draw_setting(Draw& draw) {
  Setting s;
  s.ranks = draw.of({1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64});
  s.stage = static_cast<int>(draw.below(4));
  s.compute = draw.of({core::DType::f32, core::DType::bf16, core::DType::f16});
  s.accumulation = draw.of<uint32_t>({1, 1, 2, 3, 4, 6, 8, 12, 40});
  s.reduce_every = static_cast<uint32_t>(draw.divisor(s.accumulation));
  s.micro_batch = static_cast<int64_t>(1 + draw.below(4));
  s.unit_elements = draw.of<int64_t>({1, 64, 100, 700, 3000, 1 << 20});
  s.bucket = draw.of<int64_t>({1, 100, 1000, 10000, 1 << 20});
  s.overlap = draw.one_in(2);
  s.reuse_at_turn = draw.one_in(2);
  if (draw.one_in(2)) s.prefetch = draw.of<int64_t>({0, 64, 500, 3000, 1 << 20});
  if (draw.one_in(3)) s.max_live = draw.of<int64_t>({0, 200, 2000, 20000});
  if (s.stage == 3) s.persistence = draw.of<int64_t>({0, 20, 200, 1 << 20});
  s.groups = draw_groups(draw, s.ranks);
  s.optimizer = draw_optimizer(draw);
  if (draw.one_in(3)) {
    s.optimizer = optimizer::make_grouped(s.optimizer, {{{"*.bias", "linear.1.*"}, 0.0, 1}, {{"embed*"}, {}, 0.5}});
  }
  s.eval = draw.one_in(2);
  using runtime::MicrobatchOrder, runtime::Recompute;
  s.order = draw.of({MicrobatchOrder::automatic, MicrobatchOrder::microbatch_major, MicrobatchOrder::layer_major});
  for (uint64_t i = draw.below(4); i > 0; --i) {
    s.recompute.push_back(draw.of({Recompute::none, Recompute::selective, Recompute::full}));
  }
  s.late_updates = draw.one_in(3);
  return s;
}

std::string text(const models::Model& model, const Setting& s) {
  std::ostringstream out;
  out << model.type << " of " << model.layers << " layers of " << model.hidden << (model.tied ? ", tied" : "")
      << "; stage " << s.stage << ", " << s.ranks << " ranks in groups of " << s.groups.inner << " ("
      << s.groups.hierarchical << s.groups.secondary << s.groups.replicated << "), " << core::dtype_name(s.compute)
      << ", " << s.accumulation << "/" << s.reduce_every << " microbatches, unit " << s.unit_elements << ", bucket "
      << s.bucket << ", overlap " << s.overlap << ", reuse " << s.reuse_at_turn << ", prefetch "
      << s.prefetch.value_or(-1) << ", live " << s.max_live << ", persistence " << s.persistence << ", order "
      << s.order->name() << (s.late_updates ? ", updated late" : "") << ", recompute";
  for (runtime::Recompute how : s.recompute) out << " " << static_cast<int>(how);
  return out.str();
}

std::string verdict(const runtime::ProgramSet& set, const runtime::Layout& layout, const runtime::TierBytes& budgets) {
  try {
    runtime::verify(set, layout, budgets);
  } catch (const core::ProgramError& error) {
    return error.what();
  }
  return "";
}

void check_plan(const runtime::ProgramSet& set, const runtime::MemoryPlan& plan) {
  runtime::TierBytes end{}, kept{};
  REQUIRE(plan.ledger.size() == set.buffers.size());
  for (size_t b = 0; b < set.buffers.size(); ++b) {
    const runtime::Buffer& buffer = set.buffers[b];
    const auto tier = static_cast<size_t>(buffer.tier);
    end[tier] = std::max(end[tier], buffer.offset + buffer.extent());
    if (buffer.life != runtime::Life::transient) kept[tier] += buffer.bytes * buffer.slots;
    if (plan.ledger[b].name != buffer.name || plan.ledger[b].offset != buffer.offset) FAIL(buffer.name);
  }
  for (size_t t = 0; t < core::tier_count; ++t) {
    const runtime::TierPlan& tier = plan.tiers[t];
    CHECK(set.arena_bytes[t] == end[t]);
    CHECK(tier.peak_bytes == end[t]);
    CHECK(tier.live_peak_bytes <= tier.peak_bytes);
    CHECK(runtime::total(tier.categories) == tier.live_peak_bytes);
    CHECK(runtime::total(tier.model_states) == kept[t]);
    uint64_t most = 0;
    for (const runtime::Program& program : set.programs) {
      for (const runtime::LivePoint& point : runtime::live_bytes(set, program)) {
        most = std::max(most, runtime::total(point.tiers[t]));
      }
    }
    CHECK(most == tier.live_peak_bytes);
  }
}

// One fault of each of a few kinds, at a place that is drawn.
void check_faults(Draw& draw, const runtime::ProgramSet& set, const runtime::Layout& layout) {
  static const auto kinds = [] {
    std::vector<FaultKind> all = memory_faults();
    for (FaultKind& kind : meaning_faults()) all.push_back(std::move(kind));
    return all;
  }();
  for (int i = 0; i < 10; ++i) {
    const FaultKind& kind = kinds[draw.below(kinds.size())];
    size_t site = draw.below(60);
    Broken broken{set, &layout, runtime::no_budgets};
    while (!kind.apply(broken, site)) {
      if (site == 0) break;
      site /= 2;
      broken.set = set;
    }
    if (site == 0 && !kind.apply(broken = {set, &layout, runtime::no_budgets}, 0)) continue;
    const std::string message = verdict(broken.set, layout, broken.budgets);
    INFO(kind.name << ", site " << site << ": " << message);
    CHECK_FALSE(message.empty());
    CHECK(ops_named(broken.set, message) >= 2);
  }
}

void check_one(uint64_t seed) {
  Draw draw(seed);
  const models::Model model = draw_model(draw);
  Setting s = draw_setting(draw);
  if (shares_inside(model)) s.order = runtime::MicrobatchOrder::layer_major;
  INFO("ZRT_RANDOM_SEED=" << seed << ": " << text(model, s));
  const runtime::Layout layout = make_layout(model, s);
  std::vector<std::string> phases = phases_of(s);
  if (draw.one_in(2)) phases.push_back("save");
  std::optional<runtime::Compiled> compiled;
  try {
    compiled = runtime::compile(layout, phases);
  } catch (const std::exception& error) {
    FAIL(error.what());
  }
  check_plan(compiled->set, compiled->plan);
  CHECK(verdict(compiled->set, layout, compiled->set.arena_bytes) == "");
  runtime::TierBytes less = compiled->set.arena_bytes;
  --less[0];
  CHECK(verdict(compiled->set, layout, less).find("above the budget of") != std::string::npos);
  check_faults(draw, compiled->set, layout);
  if (seed % 16 != 0) return;
  // Compiled again it is the same, so that ranks need not tell each other.
  const runtime::Compiled again = runtime::compile(layout, phases);
  for (size_t b = 0; b < again.set.buffers.size(); ++b) {
    if (again.set.buffers[b].offset != compiled->set.buffers[b].offset) FAIL(again.set.buffers[b].name);
  }
  std::vector<const runtime::ProgramSet*> ranks(static_cast<size_t>(s.ranks), &compiled->set);
  ranks.back() = &again.set;
  CHECK_NOTHROW(runtime::verify_collectives(ranks));
}

}  // namespace

TEST_CASE("random models and layouts compile to programs that are verified and plans that add up") {
  if (const char* seed = std::getenv("ZRT_RANDOM_SEED")) return check_one(std::stoull(seed));
  const uint64_t count = full_tests() ? 10000 : 1000;
  for (uint64_t seed = 1; seed <= count; ++seed) check_one(seed);
}

}  // namespace zrt::random_programs_test
