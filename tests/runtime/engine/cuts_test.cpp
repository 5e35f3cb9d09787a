// One set of samples of which some targets count, cut in many ways over microbatches, ranks, stages and tensor ranks.
// GPT-2's samples hold several documents.
#include <fmt/format.h>

#include <random>

#include "catch.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/small_models.h"

namespace zrt::cuts_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

constexpr int64_t samples = 12;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t cuts_tried = 25;
#else
constexpr size_t cuts_tried = 100;
#endif

// Few targets count, as in a chat; of some samples none do, and sample 7 has half of them all.
bool counts(uint32_t step, uint64_t sample, int64_t t) {
  if (sample == 7) return true;
  return core::random_word({3, step, 1}, sample * 1000 + static_cast<uint64_t>(t)) % 5 == 0 && sample % 3 != 1;
}

struct CutOfSamples {
  int tensor, stages, ranks, stage;
  uint32_t microbatches;
  bool rows;
  std::string text() const {
    return fmt::format("tensor {}{}, pipeline {}, data {} at stage {}, {} microbatches", tensor, rows ? " by rows" : "",
                       stages, ranks, stage, microbatches);
  }
};

std::vector<CutOfSamples> cuts(size_t number) {
  std::mt19937 random(20);
  const auto one_of = [&](std::initializer_list<int> list) { return list.begin()[random() % list.size()]; };
  std::vector<CutOfSamples> all;
  while (all.size() < number) {
    CutOfSamples cut{one_of({1, 1, 2}), one_of({1, 1, 2}), one_of({1, 2, 3, 4}), one_of({0, 1, 2, 3}), 1, false};
    cut.rows = cut.tensor > 1 && one_of({0, 1}) == 1;
    cut.microbatches = static_cast<uint32_t>(one_of({1, 2, 3, 4, 6, 12}));
    if (samples % (cut.ranks * static_cast<int64_t>(cut.microbatches)) == 0) all.push_back(cut);
  }
  return all;
}

Outcome run_cut(const CutOfSamples& cut, Setting s, ModelType type) {
  s.tensor = cut.tensor, s.rows = cut.rows, s.ranks = cut.ranks, s.stage = cut.stage, s.accumulation = cut.microbatches;
  s.micro_batch = samples / (cut.ranks * cut.microbatches);
  s.reduce_every = cut.stage < 2 ? cut.microbatches : 1;
  const models::Model model =
      make_small(type, {.layers = 2, .dropout = 0, .tied = false, .degrees = {cut.tensor, cut.rows}});
  return cut.stages > 1 ? run_pipeline(model, s, runtime::ScheduleKind::one_f_one_b, cut.stages) : run(model, s);
}

Setting plain() {
  Setting s;
  s.steps = 1, s.clip = 0, s.rate = 0.5, s.counts = counts;
  s.optimizer = make_optimizer(optimizer::SgdParams{});
  return s;
}

std::vector<float> gradient(const std::vector<float>& before, const std::vector<float>& after, double rate) {
  std::vector<float> all(before.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<float>((static_cast<double>(before[i]) - static_cast<double>(after.at(i))) / rate);
  }
  return all;
}

}  // namespace

TEST_CASE("any cut of the same samples gives the same loss, gradient and weights, however unevenly targets count") {
  const ModelType type = GENERATE(ModelType::gpt2, ModelType::llama);
  const CutOfSamples whole{1, 1, 1, 0, 1, false};
  Setting s = plain();
  if (type == ModelType::gpt2) {
    s.positions = [](uint64_t sample, int64_t t) {
      return static_cast<int32_t>(t % (3 + static_cast<int64_t>(sample)));
    };
  }
  const Outcome reference = run_cut(whole, s, type);
  Setting still = s;
  still.rate = 0;
  const std::vector<float> start = run_cut(whole, still, type).weights;
  const std::vector<float> expected = gradient(start, reference.weights, s.rate);
  Setting twenty = s;
  twenty.steps = 20, twenty.rate = 0.05;
  const Outcome later = run_cut(whole, twenty, type);
  size_t number = 0;
  for (const CutOfSamples& cut : cuts(cuts_tried)) {
    if (left_to_processor(static_cast<unsigned>(number++))) continue;
    CAPTURE(cut.text());
    const Outcome outcome = run_cut(cut, s, type);
    CHECK(outcome.losses[0] == Approx(reference.losses[0]).epsilon(1e-7));
    CHECK(outcome.norms[0] == Approx(reference.norms[0]).epsilon(1e-6));
    CHECK(relative_l2(gradient(start, outcome.weights, s.rate), expected) < 1e-6);
    if (number % 5 == 0) CHECK(relative_l2(run_cut(cut, twenty, type).weights, later.weights) < 1e-5);
  }
}

TEST_CASE("a step in which no target counts changes nothing, whenever updates come") {
  const ModelType type = ModelType::gpt2;
  for (const int timing : {0, 1, 2}) {
    Setting s = plain();
    s.optimizer = make_optimizer(optimizer::AdamParams{});
    s.early_updates = timing == 1, s.late_updates = timing == 2, s.rate = 1e-2;
    s.ranks = 2, s.stage = 1, s.micro_batch = 3, s.accumulation = 2;
    const models::Model model = make_small(type, {.layers = 2, .dropout = 0, .tied = false});
    s.steps = 2;
    const Outcome two = run(model, s);
    s.steps = 3;
    s.counts = [](uint32_t step, uint64_t sample, int64_t t) { return step != 2 && counts(step, sample, t); };
    const Outcome three = run(model, s);
    CAPTURE(timing);
    CHECK(three.state == two.state);
    CHECK(three.losses[2] == 0);
    CHECK(three.norms[2] == 0);
  }
}

}  // namespace zrt::cuts_test
