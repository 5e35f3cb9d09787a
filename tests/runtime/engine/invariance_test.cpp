#include <set>
#include <tuple>

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::invariance_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

// Settings that the contract lets change bits: one group has one result.
struct Group {
  bool tied, shared;  // shared: two middle blocks use one weight
  core::DType type;
  uint32_t accumulation, reduce_every;
  int ranks;
};

std::vector<Group> groups() {
  std::vector<Group> all;
  for (int ranks : {1, 2, 3, 4}) {
    for (auto [accumulation, every] : {std::pair{1u, 1u}, {4u, 1u}, {4u, 2u}, {4u, 4u}}) {
      for (core::DType type : {core::DType::f32, core::DType::bf16}) {
        for (bool shared : {false, true}) {
          for (bool tied : {false, true}) all.push_back({tied, shared, type, accumulation, every, ranks});
        }
      }
    }
  }
  return all;
}

models::Model model_of(const Group& g) {
  return make_toy(4, 12, 17, 5, g.tied, g.shared);
}

// Settings that must not change a bit: the stage, and one bit of `choice` for each of the others.
Setting variant(const Group& g, int stage, unsigned choice) {
  Setting s;
  s.ranks = g.ranks, s.compute = g.type, s.accumulation = g.accumulation, s.reduce_every = g.reduce_every;
  s.stage = stage;
  s.unit_elements = choice & 1 ? 100 : 100000;
  s.bucket = 2 * s.unit_elements;
  s.overlap = choice & 2;
  s.reuse_at_turn = !(choice & 4);
  s.serialize = choice & 8;
  s.eval = true;
  s.steps = full_tests() ? 5 : 3;
  return s;
}

void check_equal(const Group& g, const Outcome& reference, int stage, unsigned choice) {
  INFO("tied " << g.tied << ", shared " << g.shared << ", type " << core::dtype_name(g.type) << ", accumulation "
               << g.accumulation << ", reduce_every " << g.reduce_every << ", ranks " << g.ranks << "; stage " << stage
               << ", choice " << choice);
  const Outcome outcome = run(model_of(g), variant(g, stage, choice));
  CHECK(outcome.state == reference.state);
  CHECK(outcome.losses == reference.losses);
  CHECK(outcome.norms == reference.norms);
  CHECK(outcome.eval_loss == reference.eval_loss);
}

}  // namespace

TEST_CASE("stage, unit size, overlap, reuse, lanes and repetition do not change a bit of weights, losses and norms") {
  const std::vector<Group> all = groups();
  for (unsigned g = 0; g < all.size(); ++g) {
    if (left_to_processor(g)) continue;
    const Outcome reference = run(model_of(all[g]), variant(all[g], 0, 0));
    REQUIRE(reference.losses.back() < reference.losses.front() + 1);
    check_equal(all[g], reference, 0, 0);
    for (int stage = 0; stage < 4; ++stage) {
      if (full_tests()) {
        for (unsigned choice = 0; choice < 16; ++choice) check_equal(all[g], reference, stage, choice);
      } else {
        // 7 and 3 are prime to 16: over the groups every stage meets every choice.
        check_equal(all[g], reference, stage, (g * 7 + static_cast<unsigned>(stage) * 5) % 16);
      }
    }
  }
}

TEST_CASE("the state hash tells seeds, step counts, ranks and reduce_every apart") {
  const Group g{false, false, core::DType::f32, 4, 1, 2};
  std::set<std::string> hashes;
  auto add = [&](const Setting& s) { hashes.insert(run(model_of(g), s).state); };
  Setting s = variant(g, 2, 0);
  add(s);
  s.seed = 8;
  add(s);
  s = variant(g, 2, 0), s.steps = 4;
  add(s);
  s = variant(g, 2, 0), s.reduce_every = 4;
  add(s);
  s = variant(g, 2, 0), s.ranks = 1;
  add(s);
  CHECK(hashes.size() == 5);
}

TEST_CASE("different reduce_every agree in fp32") {
  for (bool tied : {false, true}) {
    for (int stage : {0, 2, 3}) {
      const Group g{tied, false, core::DType::f32, 4, 4, 2};
      Setting s = variant(g, stage, 0);
      s.steps = 20;
      const Outcome reference = run(model_of(g), s);
      for (uint32_t every : {1u, 2u}) {
        s.reduce_every = every;
        const double distance = relative_l2(run(model_of(g), s).weights, reference.weights);
        CAPTURE(tied, stage, every);
        CHECK(distance < 1e-5);
        CHECK(distance > 0);
      }
    }
  }
}

}  // namespace zrt::invariance_test
