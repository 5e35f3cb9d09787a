// A tokenizer's template through the program: transformers' ids and greedy texts on an imported folder, and what the
// data of a run says about it.
#include <cmath>

#include "program.h"
#include "tests/data_folder.h"

namespace zrt::template_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

const std::string goldens = zrt::test::data_folder() + "/template/";
const std::string llama = zrt::test::data_folder() + "/finetuning/llama";

std::string require(const Result& result, int code = 0) {
  INFO(result.text);
  REQUIRE(result.code == code);
  return result.text;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

// The folder of finetuning/llama with a tokenizer that has a template, and a run with its weights.
struct Imported : Folder {
  std::string run = *this / "imported";
  explicit Imported(const std::string& name) : Folder(name) {
    fs::copy(llama, path / "llama");
    fs::copy(goldens + "tokenizer.json", path / "llama/tokenizer.json", fs::copy_options::overwrite_existing);
    require(run_zrt("checkpoint import " + (*this / "llama") + " --out " + run));
  }
  // A line of JSON for each prompt; what the program says beside it goes to `said`.
  std::vector<json> generate(const std::string& of, const std::string& prompts, const std::string& more = "") const {
    const std::string said = *this / "said";
    const std::string text =
        require(run_command("(" ZRT_BINARY_DIR "/zrt generate " + of + " --json --tokens 12 " +
                            "--temperature 0 --prompts " + prompts + " " + more + " 2>" + said + ")"));
    std::vector<json> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines.push_back(json::parse(text.substr(at, end - at)));
      at = end + 1;
    }
    return lines;
  }
  std::string said() const {
    std::ifstream in(path / "said");
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

}  // namespace

TEST_CASE("An imported folder goes on from prompts as transformers does, template and all") {
  const Imported imported("template_generate");
  const json all = read_json(goldens + "goldens.json");
  std::string lines;
  for (const json& golden : all["prompts"]) lines += json{{"prompt", golden["prompt"]}}.dump() + "\n";
  imported.write("prompts.jsonl", lines);
  const std::vector<json> found = imported.generate(imported.run, imported / "prompts.jsonl");
  REQUIRE(found.size() == all["prompts"].size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO(found[i]);
    CHECK(found[i]["prompt_tokens"] == all["prompts"][i]["ids"]);
    CHECK(found[i]["tokens"] == all["prompts"][i]["tokens"]);
  }
  contains(imported.said(), "texts begin with the tokenizer's template, ids [1]: the run has no data");
  const std::vector<json> without = imported.generate(imported.run, imported / "prompts.jsonl", "--no-template");
  json ids = all["prompts"][0]["ids"];
  ids.erase(0);
  CHECK(without[0]["prompt_tokens"] == ids);
  CHECK(without[0]["tokens"] != all["prompts"][0]["tokens"]);
  contains(imported.said(), "texts go without the tokenizer's template: --no-template");

  // A token named or numbered ends texts in the place of the file's own; the first one made here.
  const int end = all["prompts"][0]["tokens"][0];
  for (const std::string& eod : {std::to_string(end), std::string("<0x60>")}) {
    const json ended = imported.generate(imported.run, imported / "prompts.jsonl", "--eod '" + eod + "'")[0];
    INFO(eod << " " << ended);
    CHECK((ended["tokens"].empty() && ended["end"] == "stop id"));
  }
  contains(require(run_zrt("generate " + imported.run + " --eod '<fin>'"), 2), "is to be '<fin>' (--eod)");
  contains(require(run_zrt("generate " + imported.run + " --template --no-template"), 2), "contradict each other");
}

TEST_CASE("Tasks on an imported folder are scored behind the template, as transformers' tokenizer puts it") {
  const Imported imported("template_tasks");
  std::string lines;
  const json all = read_json(goldens + "goldens.json");
  for (const json& item : all["items"]) lines += item.dump() + "\n";
  imported.write("tasks.jsonl", lines);
  const auto scores = [&](const std::string& more) {
    const std::string file = imported / "scores.jsonl";
    require(run_zrt("eval " + imported.run + " --tasks " + (imported / "tasks.jsonl") + " --force --scores " + file +
                    " " + more));
    std::vector<double> found;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      const json item = json::parse(line);
      for (const json& score : item["log_likelihoods"]) found.push_back(score);
    }
    return found;
  };
  const std::vector<double> found = scores(""), without = scores("--no-template");
  size_t at = 0;
  for (const json& item : all["items"]) {
    for (const json& wanted : item["log_likelihoods"]) {
      REQUIRE(at < found.size());
      CHECK(std::abs(found[at] - wanted.get<double>()) < 1e-3);
      CHECK(std::abs(without[at++] - wanted.get<double>()) > 1e-2);
    }
  }
}

TEST_CASE("A run's texts have the template where its data has it, whatever has become of the data") {
  const Imported imported("template_data");
  imported.write("prompts.jsonl", "{\"prompt\": \"Ella\"}\n{\"prompt\": \"salt\"}\n");
  for (const bool with : {true, false}) {
    const std::string out = imported / (with ? "with" : "without"), run = out + "_run";
    require(run_zrt("data build --tokenizer " + (imported / "llama") + " --out " + out + (with ? " --template " : " ") +
                    zrt::test::data_folder() + "/finetuning/train.jsonl"));
    imported.write("run.json", json{{"train_batch_size", 2},
                                    {"model", {{"sequence", 32}}},
                                    {"data", {{"train", out}}},
                                    {"run", {{"steps", 1}, {"out", run}}}}
                                   .dump());
    require(run_zrt("train " + (imported / "run.json") + " --ranks 1 --resume " + (imported / "llama")));
    CHECK(imported.generate(run, imported / "prompts.jsonl")[0]["prompt_tokens"].size() == (with ? 6u : 5u));
    contains(imported.said(), with ? "the data of the run was built with --template" : "was built without --template");
    fs::remove(out + ".meta.json");
    CHECK(imported.generate(run, imported / "prompts.jsonl", "--tokenizer " + (imported / "llama"))[0]["prompt_tokens"]
              .size() == (with ? 6u : 5u));
  }
}

}  // namespace zrt::template_test
