// zrt eval RUN --tasks FILE.jsonl, as a user meets it.
#include <cmath>
#include <vector>

#include "tests/data_folder.h"
#include "tests/program.h"

namespace zrt::eval_tasks_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

const std::string goldens = zrt::test::data_folder() + "/few_shot/";

// A run with the weights of the tiny model.
struct Imported {
  const Folder folder{"eval_tasks"};
  const std::string run = folder / "imported";
  const std::string tasks = " --tasks " + goldens + "tasks.jsonl --tokenizer " + goldens + "tokenizer.model ";
  Imported() {
    const Result made = run_zrt("checkpoint import " + goldens + "model --out " + run);
    INFO(made.text);
    REQUIRE(made.code == 0);
  }
  json eval(const std::string& more) const {
    const Result result = run_zrt("eval " + run + tasks + "--json " + more);
    INFO(more << "\n" << result.text);
    REQUIRE(result.code == 0);
    return json::parse(result.text.substr(result.text.find("{\n")));  // behind warnings
  }
  std::vector<json> scores(const std::string& name) const {
    std::vector<json> lines;
    std::ifstream in(folder / name);
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

}  // namespace

TEST_CASE("Accuracies and each item's scores are those of the reference, on any mesh") {
  const Imported imported;
  const json all = json::parse(std::ifstream(goldens + "scores.json"));
  const json& golden = all["settings"][2];
  const std::string shots = "--shots " + goldens + "shots.jsonl --number 2 ";
  for (const std::string mesh : {"", "--ranks 3 ", "--set parallel.tensor=2 --set train_batch_size=1 "}) {
    const json found = imported.eval(shots + mesh + "--force --scores " + (imported.folder / "scores.jsonl"));
    INFO(mesh << found);
    REQUIRE(found["tasks"].size() == 3);
    for (const json& task : found["tasks"]) {
      const json& wanted = golden["accuracies"][task["task"].get<std::string>()];
      const double items = wanted["items"];
      CHECK(task["items"] == wanted["items"]);
      CHECK(task["accuracy"].get<double>() == wanted["right"].get<double>() / items);
      CHECK(task["accuracy_by_bytes"].get<double>() == wanted["by_bytes"].get<double>() / items);
      CHECK(task["accuracy_by_tokens"].get<double>() == wanted["by_tokens"].get<double>() / items);
      CHECK(task["cut_contexts"] == wanted["cut"]);
    }
    const std::vector<json> lines = imported.scores("scores.jsonl");
    REQUIRE(lines.size() == golden["items"].size());
    CHECK((lines[0]["id"] == "0" && lines[0]["task"] == "colours" && lines[14]["id"] == "p14"));
    for (size_t i = 0; i < lines.size(); ++i) {
      for (size_t c = 0; c < lines[i]["log_likelihoods"].size(); ++c) {
        const double off =
            lines[i]["log_likelihoods"][c].get<double>() - golden["items"][i]["log_likelihoods"][c].get<double>();
        CHECK(std::abs(off) / lines[i]["tokens"][c].get<double>() < 1e-5);
      }
    }
  }
  const Result both = run_zrt("eval " + imported.run + imported.tasks + "--ranks 2 --set parallel.tensor=2");
  CHECK(both.code != 0);
  CHECK(both.text.find("--ranks 2 asks for data-parallel ranks alone") != std::string::npos);
  const json drawn = imported.eval(shots + "--shot-seed 3"), again = imported.eval(shots + "--shot-seed 3 --ranks 2");
  CHECK(drawn == again);
}

TEST_CASE("What does not go together is refused before the weights are read") {
  const Imported imported;
  const auto refusal = [&](const std::string& arguments) {
    const Result result = run_zrt("eval " + imported.run + " " + arguments);
    CHECK(result.code != 0);
    return result.text;
  };
  const auto has = [](const std::string& text, const std::string& words) {
    INFO(text);
    CHECK(text.find(words) != std::string::npos);
  };
  has(refusal("--number 2"), "--number goes with --tasks");
  has(refusal(imported.tasks + "--number 2"), "--shots FILE and --number K go together");
  has(refusal(imported.tasks + "--data x"), "give one of them");
  has(refusal(imported.tasks + "--shots " + goldens + "shots.jsonl --number 4"), "Give fewer");
  has(refusal("--tasks " + goldens + "tasks.jsonl"), "Name it yourself");
  has(refusal(imported.tasks + "--scores " + (imported.folder / "text.txt")), "text.txt");
  CHECK(fs::file_size(imported.folder / "text.txt") > 1000);
  has(refusal("--tasks " + (imported.folder / "nothing.jsonl")), "nothing.jsonl");
}

}  // namespace zrt::eval_tasks_test
