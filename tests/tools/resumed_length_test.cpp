// A run whose length is said in samples goes on with another batch: it reads as many as it was to, in the same order.
#include <map>

#include "program.h"

namespace zrt::resumed_length_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

constexpr int epoch = 28;  // samples of 32 tokens

// Three steps of four samples of an epoch are taken.
struct Half {
  Folder folder;
  std::map<int64_t, json> order;  // dataset, document and offset of each sample of the epoch
  explicit Half(const std::string& name) : folder(name) {
    std::ofstream text(folder / "long.txt");
    for (int i = 0; i < 8; ++i) text << std::string(112, static_cast<char>('a' + i)) << "\n\n";
    text.close();
    must("data build --out " + (folder / "corpus") + " " + (folder / "long.txt"));
    folder.write("run.json", json{{"train_batch_size", 4},
                                  {"train_micro_batch_size_per_gpu", 2},
                                  {"optimizer", {{"type", "AdamW"}}},
                                  {"scheduler", {{"type", "linear"}}},
                                  {"model", {{"preset", "gpt2-tiny"}, {"sequence", 32}}},
                                  {"data", {{"train", folder / "corpus"}}},
                                  {"run",
                                   {{"epochs", 1},
                                    {"out", folder / "run"},
                                    {"log_samples", true},
                                    {"checkpoint_interval", 3},
                                    {"keep_every", 3}}}}
                                 .dump());
    const std::string said = train("");
    REQUIRE(said.find("of 28 samples: 7 steps of 4 samples") != std::string::npos);
    order = samples();
    REQUIRE(order.size() == epoch);
    for (const char* newer : {"step_6", "step_7"}) fs::remove_all(folder.path / "run/checkpoints" / newer);
  }
  static std::string must(const std::string& arguments) {
    const Result result = run_zrt(arguments);
    INFO(arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
    return result.text;
  }
  std::string train(const std::string& more) const { return must("train " + (folder / "run.json") + " " + more); }
  // Returns the samples by their numbers, each of which comes once.
  std::map<int64_t, json> samples() const {
    std::ifstream in(folder / "run/samples.jsonl");
    std::map<int64_t, json> found;
    for (std::string line; std::getline(in, line);) {
      const json step = json::parse(line);
      for (const json& rank : step["ranks"]) {
        for (const json& sample : rank) {
          INFO(sample);
          CHECK(found.emplace(sample[0], json{sample[1], sample[2], sample[3]}).second);
        }
      }
    }
    return found;
  }
  json resolved(const char* section) const { return read_json(folder / "run/config.resolved.json")[section]; }
};

void has(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("an epoch that goes on with twice the batch reads each sample once, in its order, and so does its schedule") {
  const Half half("resumed_twice");
  const std::string said = half.train("--resume auto --set train_batch_size=8");
  has(said,
      "the run has 5 steps, not 4: the checkpoint of step 3 has read 12 of its 28 samples, and the rest are 16 in "
      "steps of 8; scheduler.params.num_training_steps = 5 follows");
  has(said, "step 5/5");
  has(said, "train_batch_size is 8 and was 4: no sample repeats or is lost\n");
  CHECK(half.samples() == half.order);
  CHECK(half.resolved("run")["steps"] == json{{"value", 5}, {"from", "inferred"}});
  CHECK(half.resolved("scheduler")["params"]["num_training_steps"]["value"] == 5);
  has(half.train("--resume auto --set train_batch_size=2"),
      "nothing to train: the checkpoint is of step 5 and run.steps is 5");
}

TEST_CASE("a last batch that reaches beyond the samples begins them anew, and their order stays") {
  const Half half("resumed_rounded");
  const std::string said = half.train("--resume auto --set train_batch_size=12");
  has(said, "the run has 5 steps, not 3");
  CHECK(said.find("laid out for") == std::string::npos);
  std::map<int64_t, json> wanted = half.order;
  for (int64_t i = 0; i < 8; ++i) wanted[epoch + i] = half.order.at(i);
  CHECK(half.samples() == wanted);
}

TEST_CASE("a length that is given in steps counts them whatever the batch, and a new start counts its own") {
  const Half half("resumed_steps");
  const std::string said = half.train("--resume auto --set train_batch_size=8 --steps 4");
  CHECK(said.find("the run has") == std::string::npos);
  has(said, "so that run.steps and the scheduler end after other data");
  CHECK(half.samples().size() == 20);
  const std::string fresh = half.train("--set train_batch_size=8 --set run.load_module_only=true --out " +
                                       (half.folder / "new") + " --resume " + (half.folder / "run"));
  CHECK(fresh.find("the run has") == std::string::npos);
  has(fresh, "step 4/4");
}

}  // namespace zrt::resumed_length_test
