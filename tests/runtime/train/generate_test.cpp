// Text of tiny models of transformers: what they continue greedily, what temperature, top-k and top-p leave, and
// samples with random numbers of their own.
#include "runtime/train/generate.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/train/checkpoint/exchange.h"
#include "runtime/train/checkpoint/hugging_face.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_manifest.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"

namespace zrt::runtime::generate_test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const json& goldens() {
  static const json all = json::parse(std::ifstream(test::data_folder() + "/generation_goldens.json"));
  return all;
}

std::unique_ptr<Generator> generator_of(const std::string& model) {
  const testing::TemporaryFolder folder;
  const checkpoint::Reader from = checkpoint::open_hugging_face(fs::path(test::data_folder()) / "hugging_face" / model);
  const Config config = hugging_face_config(from, {});
  const fs::path imported = checkpoint::import_hugging_face(from, model_json(config), folder.path / "checkpoints");
  return std::make_unique<Generator>(config, imported);
}

}  // namespace

TEST_CASE("a greedy continuation is transformers', up to the first of several stop ids") {
  std::map<std::string, std::unique_ptr<Generator>> generators;
  int stopped = 0;
  for (const json& golden : goldens()["greedy"]) {
    INFO(golden["model"] << " behind " << golden["prompt"] << ", stops " << golden["stops"]);
    auto& generator = generators[golden["model"]];
    if (!generator) generator = generator_of(golden["model"]);
    GenerateOptions options{.prompt = golden["prompt"], .sampling = {.temperature = 0}};
    options.tokens = 16 - static_cast<int64_t>(options.prompt.size());
    options.stop_tokens = golden["stops"].get<std::vector<int32_t>>();
    const GeneratedTokens made = generator->generate(options);
    CHECK(json(made.tokens) == golden["tokens"]);
    const bool stops = !golden["stops"].empty();
    CHECK(made.end == (stops ? TextEnd::stop_token : TextEnd::tokens));
    stopped += stops;
  }
  CHECK(generators.size() == 6);
  CHECK(stopped == 18);
}

TEST_CASE("temperature, top-k and top-p leave the tokens and probabilities that transformers' do") {
  for (const json& golden : goldens()["sampling"]) {
    INFO(golden["temperature"] << ", top-k " << golden["top_k"] << ", top-p " << golden["top_p"]);
    const auto logits = golden["logits"].get<std::vector<float>>();
    const std::vector<Candidate> left =
        candidates(logits, {.temperature = golden["temperature"], .top_k = golden["top_k"], .top_p = golden["top_p"]});
    double total = 0;
    for (const Candidate& candidate : left) total += candidate.weight;
    std::vector<double> found(logits.size(), 0);
    for (const Candidate& candidate : left) found[static_cast<size_t>(candidate.token)] = candidate.weight / total;
    size_t kept = 0;
    for (size_t token = 0; token < logits.size(); ++token) {
      const double wanted = golden["probabilities"][token];
      CHECK(found[token] == Approx(wanted).margin(1e-7));
      kept += wanted > 0;
    }
    CHECK(left.size() == kept);
  }
}

TEST_CASE("a token is drawn as often as its probability says, and never one that top-p drops") {
  const std::vector<float> logits{0.0f, 1.0f, 2.0f, 3.0f};
  const Sampling sampling{.temperature = 1, .top_k = 0, .top_p = 0.9, .seed = 5};
  const std::vector<Candidate> left = candidates(logits, sampling);
  REQUIRE(left.size() == 3);  // 0.644, 0.237, 0.087, 0.032
  std::vector<int> counts(4);
  constexpr int draws = 20000;
  for (uint32_t i = 0; i < draws; ++i) ++counts[static_cast<size_t>(choose_token(logits, sampling, i % 100, i / 100))];
  CHECK(counts[0] == 0);
  double total = 0;
  for (const Candidate& candidate : left) total += candidate.weight;
  for (const Candidate& candidate : left) {
    CHECK(counts[static_cast<size_t>(candidate.token)] / double(draws) ==
          Approx(candidate.weight / total).margin(0.01));
  }
}

TEST_CASE("a sample is the same whichever others are made, and differs from them") {
  const auto generator = generator_of("llama"), other = generator_of("llama");
  const auto sample = [](Generator& from, uint32_t number, uint64_t seed, const std::vector<int32_t>& prompt) {
    GenerateOptions options{.prompt = prompt, .tokens = 12, .sampling = {.temperature = 1.5, .top_k = 0, .seed = seed}};
    options.sample = number;
    return from.generate(options).tokens;
  };
  const std::vector<int32_t> prompt{7, 20, 3};
  std::set<std::vector<int32_t>> seen;
  std::vector<std::vector<int32_t>> in_order;
  for (uint32_t s = 0; s < 5; ++s) in_order.push_back(sample(*generator, s, 1, prompt));
  seen.insert(in_order.begin(), in_order.end());
  CHECK(seen.size() == 5);
  // Alone, behind another prompt, and in another order: a prompt's keys and values are used again, and must be its own.
  CHECK(sample(*other, 3, 1, prompt) == in_order[3]);
  CHECK(sample(*other, 0, 1, {9, 9, 9}) != in_order[0]);
  CHECK(sample(*other, 1, 1, prompt) == in_order[1]);
  CHECK(sample(*other, 1, 2, prompt) != in_order[1]);
}

}  // namespace zrt::runtime::generate_test
