// `zrt train` with ranks that share blocks, and all that reads what it leaves.
#include <cmath>
#include <fstream>

#include "other_sums.h"
#include "program.h"

namespace zrt::tensor_train_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

constexpr double rate = 0.001;  // of the configuration below

// Two data-parallel ranks, whatever the number of ranks that share blocks and of stages.
struct Run : Folder {
  explicit Run(const std::string& name) : Folder(name) {
    build_data(*this);
    write("c.json",
          R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "parallel": {"reduce_every": 2},
  "model": {"preset": "gpt2-tiny", "heads": 4, "layers": 4, "dropout": 0.1, "tied": false},
  "data": {"train": ")" +
              (*this / "corpus/train") + R"(", "validation": ")" + (*this / "corpus/validation") +
              R"("}, "run": {"steps": 4, "log_samples": true, "eval_batches": 2, "checkpoint_interval": 2}})");
  }
  std::string train(const std::string& out, int tensor, int stages, const std::string& more = "") const {
    return "train " + (*this / "c.json") + " --ranks " + std::to_string(2 * tensor * stages) + " --out " +
           (*this / out) + " --set parallel.tensor=" + std::to_string(tensor) +
           " --set parallel.pipeline=" + std::to_string(stages) + " " + more;
  }
  json summary(const std::string& out) const { return read_json(*this / (out + "/summary.json")); }
};

Result require_run(const std::string& arguments) {
  const Result result = run_zrt(arguments);
  INFO(arguments << "\n" << result.text);
  REQUIRE(result.code == 0);
  return result;
}

double loss_of(const json& summary) {
  return summary["final_loss"].get<double>();
}

// Returns what a command prints to standard output of a run.
std::string text_of(const Run& run, const std::string& command, const std::string& out, const std::string& more) {
  const Result result =
      run_command(std::string(ZRT_BINARY_DIR) + "/zrt " + command + " " + (run / out) + " " + more + " 2>/dev/null");
  INFO(command << "\n" << result.text);
  REQUIRE(result.code == 0);
  return result.text;
}

// Returns the samples by data-parallel rank, step by step. The first of `tensor` ranks that read the same lists them.
std::vector<json> samples(const Run& run, const std::string& out, size_t tensor) {
  std::ifstream file(run.path / out / "samples.jsonl");
  std::vector<json> steps;
  for (std::string line; std::getline(file, line);) {
    const json ranks = json::parse(line)["ranks"];
    steps.push_back({ranks[0], ranks[tensor]});
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (r != 0 && r != tensor) CHECK(ranks[r] == json::array());
    }
  }
  return steps;
}

}  // namespace

TEST_CASE("ranks that share blocks read the samples of one data-parallel rank, and train and evaluate as it does") {
  const Run run("tensor_bits");
  require_run(run.train("plain", 1, 1));
  const json plain = run.summary("plain"), expected = json::parse(text_of(run, "eval", "plain", "--json"));
  REQUIRE(samples(run, "plain", 1).size() == 4);
  std::string state;
  struct Case {
    int stages;
    const char* more;
  };
  for (const Case& c : {Case{1, ""},
                        {1, "--set zero_optimization.stage=3 --set memory.recompute=full"},
                        {2, "--set zero_optimization.stage=1"},
                        {1, "--set zero_optimization.stage=2 --set zero_optimization.offload_optimizer.device=cpu"}}) {
    INFO(c.stages << " stages " << c.more);
    fs::remove_all(run.path / "run");
    const Result result = require_run(run.train("run", 2, c.stages, c.more));
    const json summary = run.summary("run");
    const double bound = other_sums_bound(run / "run", result.text, rate);
    CHECK(bound < 1e-3);
    CHECK(std::abs(loss_of(summary) - loss_of(plain)) < bound);
    const json evaluated = json::parse(text_of(run, "eval", "run", "--json"));
    CHECK(evaluated["tokens"] == expected["tokens"]);
    CHECK(std::abs(evaluated["loss"].get<double>() - expected["loss"].get<double>()) < bound);
    if (state.empty()) state = summary["state_xxh3"];
    CHECK(summary["state_xxh3"] == state);
    CHECK(samples(run, "run", 2) == samples(run, "plain", 1));
    const json memory = read_json(run / "run/memory.json");
    CHECK(memory["ranks"].size() == static_cast<size_t>(4 * c.stages));
    for (const json& rank : memory["ranks"]) {
      for (const auto& [tier, own] : rank["tiers"].items()) {
        CHECK(own["planned_peak_bytes"] == own["measured_peak_bytes"]);
      }
    }
  }
}

TEST_CASE("what ranks that share blocks have trained is evaluated, generates text and goes on on any mesh") {
  const Run run("tensor_after");
  require_run(run.train("run", 2, 1));
  const json own = json::parse(text_of(run, "eval", "run", "--json"));
  const json one = json::parse(text_of(run, "eval", "run", "--json --ranks 1"));
  CHECK(own["tokens"] == one["tokens"]);
  CHECK(std::abs(own["loss"].get<double>() - one["loss"].get<double>()) <= sums_rounding * one["loss"].get<double>());
  CHECK_FALSE(text_of(run, "generate", "run", "--prompt line --tokens 4 --temperature 0").empty());
  // Two further steps on three meshes.
  std::vector<double> losses, bounds;
  for (const auto& [tensor, stages] : {std::pair{2, 1}, {4, 1}, {1, 2}}) {
    const std::string out = "again" + std::to_string(tensor);
    const Result result =
        require_run(run.train(out, tensor, stages, "--resume " + (run / "run") + " --set run.steps=6"));
    losses.push_back(loss_of(run.summary(out)));
    bounds.push_back(other_sums_bound(run / out, result.text, rate));
  }
  for (size_t i : {1, 2}) {
    INFO("mesh " << i);
    CHECK(std::abs(losses[i] - losses[0]) < bounds[i]);
  }
}

TEST_CASE("what tensor-parallel ranks cannot do is refused with what they can") {
  const Run run("tensor_refused");
  struct Bad {
    const char* more;
    const char* why;
  };
  for (const Bad& bad : {Bad{" --ranks 3 --set parallel.tensor=3", "Legal are 1, 2, 4"},
                         Bad{" --ranks 3 --set parallel.tensor=2", "do not fit parallel.tensor = 2"}}) {
    const Result result = run_zrt("plan " + (run / "c.json") + bad.more + " --set train_batch_size=null");
    INFO(bad.more << "\n" << result.text);
    CHECK(result.code != 0);
    CHECK(result.text.find(bad.why) != std::string::npos);
  }
  // A group that spans hosts is planned, with a warning; one that does not, without.
  for (const int tensor : {8, 16}) {
    const Result planned = run_zrt("plan " + (run / "c.json") +
                                   " --ranks 64 --set model.heads=16 --set train_batch_size=null --cluster dgx-a100 "
                                   "--set parallel.tensor=" +
                                   std::to_string(tensor));
    INFO(planned.text);
    CHECK(planned.code == 0);
    CHECK((planned.text.find("spans hosts") != std::string::npos) == (tensor == 16));
  }
}

}  // namespace zrt::tensor_train_test
