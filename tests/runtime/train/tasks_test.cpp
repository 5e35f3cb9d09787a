// Multiple-choice tasks: log-likelihoods and accuracies of a plain scorer in Python, on several meshes, and what is
// read from files.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/checkpoint/hugging_face.h"
#include "runtime/train/resume.h"
#include "runtime/train/tasks/few_shot.h"
#include "runtime/train/tasks/score.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"

namespace zrt::runtime::tasks_test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path folder = fs::path(test::data_folder()) / "few_shot";

const json& goldens() {
  static const json all = json::parse(std::ifstream(folder / "scores.json"));
  return all;
}

std::vector<double> scored(const json& parallel, int ranks, int micro, const std::vector<ChoiceTokens>& choices) {
  const checkpoint::Reader weights = checkpoint::open_hugging_face(folder / "model");
  json model = json::parse(weights.manifest().model.dump());
  const json text{{"train_micro_batch_size_per_gpu", micro},
                  {"gradient_accumulation_steps", 2},
                  {"model", model},
                  {"parallel", parallel},
                  {"zero_optimization", {{"stage", 3}}}};
  const Config config = one_text_per_rank(parse_config(text.dump(), "test", {}, ranks));
  CHECK(config.batch.micro == 1);
  const models::Model built = config.model.make();
  BatchFiller filler;
  Session session(
      compile_within_budget(config, built, {"load", "eval"}), session_options(config),
      {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) { filler(rank, microbatch, to); },
       [&](const std::string& tensor, int64_t begin, std::span<float> out) { weights.read(tensor, begin, out); }});
  session.run("load", {});
  return log_likelihoods(session, filler, choices);
}

std::vector<TaskItem> items_of(const json& golden) {
  FewShot options{.number = golden["number"], .separator = golden["separator"]};
  return with_shots(read_tasks(folder / "tasks.jsonl"), read_tasks(folder / "shots.jsonl"), options);
}

void compare(const json& golden, const std::vector<TaskItem>& items, const std::vector<ChoiceTokens>& choices,
             const std::vector<double>& found) {
  const std::vector<ItemScore> scores = score_items(items, choices, found);
  REQUIRE(scores.size() == golden["items"].size());
  for (size_t i = 0; i < scores.size(); ++i) {
    INFO(items[i].place);
    const json& item = golden["items"][i];
    CHECK(json(scores[i].tokens) == item["tokens"]);
    CHECK(json(scores[i].bytes) == item["bytes"]);
    for (size_t c = 0; c < items[i].choices.size(); ++c) {
      const double off = scores[i].log_likelihoods[c] - item["log_likelihoods"][c].get<double>();
      CHECK(std::abs(off) / static_cast<double>(scores[i].tokens[c]) < 1e-5);
    }
  }
  const std::vector<TaskResult> results = task_results(items, choices, scores, "tasks");
  REQUIRE(results.size() == 3);
  for (const TaskResult& result : results) {
    INFO(result.task);
    const json& task = golden["accuracies"][result.task];
    CHECK(result.items == task["items"]);
    CHECK(result.right == task["right"]);
    CHECK(result.right_by_bytes == task["by_bytes"]);
    CHECK(result.right_by_tokens == task["by_tokens"]);
    CHECK(result.cut == task["cut"]);
  }
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

TaskItem item(const std::string& context, const std::vector<std::string>& choices, size_t gold,
              const std::string& task = "") {
  return {.task = task, .context = context, .choices = choices, .gold = gold, .place = "here:1"};
}

}  // namespace

TEST_CASE("scores are those of a plain scorer to 1e-5 a token, and accuracies equal, on every mesh") {
  const data::TextCoder coder(data::make_tokenizer((folder / "tokenizer.model").string()));
  struct Mesh {
    json parallel;
    int ranks, micro;
  };
  const std::vector<Mesh> meshes{{json::object(), 1, 1},
                                 {{{"tensor", 2}}, 2, 3},
                                 {{{"pipeline", 2}}, 2, 2},
                                 {json::object(), 3, 2},
                                 {{{"tensor", 2}, {"pipeline", 2}}, 8, 1}};
  const json& settings = goldens()["settings"];
  REQUIRE(settings.size() == 3);
  for (size_t s = 0; s < settings.size(); ++s) {
    const std::vector<TaskItem> items = items_of(settings[s]);
    const std::vector<ChoiceTokens> choices = task_tokens(coder, items, goldens()["sequence"]);
    for (size_t m = 0; m < meshes.size(); ++m) {
      if (s > 0 && m > 0 && m % 2 == s % 2) continue;  // each setting on one rank and on some other meshes
      INFO(settings[s]["number"] << " shots, " << meshes[m].ranks << " ranks, " << meshes[m].parallel);
      const std::vector<double> found = scored(meshes[m].parallel, meshes[m].ranks, meshes[m].micro, choices);
      compare(settings[s], items, choices, found);
    }
  }
}

TEST_CASE("data-parallel ranks and stages of a pipeline give a choice's log-likelihood the bits of one rank") {
  const data::TextCoder coder(data::make_tokenizer((folder / "tokenizer.model").string()));
  std::vector<TaskItem> items = items_of(goldens()["settings"][0]);
  items.resize(5);
  const std::vector<ChoiceTokens> choices = task_tokens(coder, items, goldens()["sequence"]);
  const std::vector<double> one = scored(json::object(), 1, 1, choices);
  CHECK(scored(json::object(), 4, 1, choices) == one);
  CHECK(scored({{"pipeline", 2}}, 4, 1, choices) == one);
}

TEST_CASE("blanks at a context's end are the choice's, and of a long context the beginning is cut") {
  const data::TextCoder bytes(std::make_shared<data::ByteTokenizer>());
  const auto ids = [](const std::string& text) { return std::vector<int32_t>(text.begin(), text.end()); };
  ChoiceTokens found = choice_tokens(bytes, item("ab \n", {"c", " d"}, 0), 1, 16);
  CHECK(found.ids == ids("ab \n d"));
  CHECK((found.counted == 4 && found.bytes == 2 && !found.cut));
  found = choice_tokens(bytes, item("abcdef", {"xyz"}, 0), 0, 4);
  CHECK(found.ids == ids("efxyz"));
  CHECK((found.counted == 3 && found.cut));
  found = choice_tokens(bytes, item("abcdef", {"wxyz"}, 0), 0, 4);  // the last of five ids is only named
  CHECK(found.ids == ids("fwxyz"));
  found = choice_tokens(bytes, item("", {"x"}, 0), 0, 4);
  CHECK(found.ids == std::vector<int32_t>{256, 'x'});
  CHECK(found.counted == 1);
  CHECK(message([&] { choice_tokens(bytes, item("a", {"vwxyz"}, 0), 0, 4); }) ==
        "here:1: choice 0 has 5 tokens; the model sees 4 at once (model.sequence)");
}

TEST_CASE("shots are the pool's first of the same task without the item itself, or drawn by a seed") {
  std::vector<TaskItem> pool;
  for (int i = 0; i < 9; ++i) pool.push_back(item("q" + std::to_string(i), {" n", " y"}, i % 2, i < 7 ? "a" : "b"));
  const auto context = [&](const TaskItem& of, const FewShot& options) {
    return with_shots({of}, pool, options)[0].context;
  };
  CHECK(context(pool[1], {.number = 2, .separator = "|"}) == "q0 n|q2 n|q1");
  CHECK(context(pool[8], {.number = 1, .separator = "|"}) == "q7 y|q8");
  CHECK(context(pool[8], {.number = 0}) == "q8");
  CHECK(message([&] { context(pool[8], {.number = 2}); }).find("has 1 other lines of task \"b\"") != std::string::npos);
  CHECK(context(item("z", {"x"}, 0, "a"), {.number = 1}) == "q0 n\n\nz");
  // Each item draws for itself, by its number: the same in whatever company, and all of the pool in the end.
  const std::vector<TaskItem> many(40, item("z", {"x"}, 0, "a"));
  const FewShot drawn{.number = 1, .seed = 7, .separator = "|"};
  const std::vector<TaskItem> all = with_shots(many, pool, drawn);
  std::set<std::string> seen;
  for (const TaskItem& one : all) seen.insert(one.context);
  CHECK(seen.size() == 7);
  const std::vector<TaskItem> fewer = with_shots({many.begin(), many.begin() + 3}, pool, drawn);
  for (size_t i = 0; i < fewer.size(); ++i) CHECK(fewer[i].context == all[i].context);
  const FewShot other{.number = 1, .seed = 8, .separator = "|"};
  const std::vector<TaskItem> others = with_shots(many, pool, other);
  CHECK(!std::equal(all.begin(), all.end(), others.begin(),
                    [](const TaskItem& a, const TaskItem& b) { return a.context == b.context; }));
}

TEST_CASE("of equal scores the first counts, and lengths are divided by") {
  const std::vector<TaskItem> items{item("c", {"aa", "b"}, 0), item("c", {"aa", "b"}, 1), item("c", {"a"}, 0, "other")};
  const std::vector<ChoiceTokens> choices{{.counted = 4, .bytes = 2},
                                          {.counted = 1, .bytes = 1},
                                          {.counted = 4, .bytes = 2},
                                          {.counted = 1, .bytes = 1},
                                          {.counted = 1, .bytes = 1}};
  const std::vector<ItemScore> scores = score_items(items, choices, {-2, -2, -3, -1, -5});
  CHECK((scores[0].right && scores[0].right_by_bytes && scores[0].right_by_tokens));
  CHECK((scores[1].right && scores[1].right_by_bytes && !scores[1].right_by_tokens));
  const std::vector<TaskResult> results = task_results(items, choices, scores, "plain");
  REQUIRE(results.size() == 3);
  CHECK((results[0].task == "plain" && results[0].items == 2 && results[0].right == 2 &&
         results[0].right_by_tokens == 1));
  CHECK((results[1].task == "other" && results[2].task == "all" && results[2].items == 3));
  CHECK(results[0].standard_error(1) == Approx(0.5));
  CHECK(results[1].standard_error(1) == 0);
}

TEST_CASE("a bad line of a task file is refused with its number") {
  const testing::TemporaryFolder place;
  const auto refusal = [&](const std::string& line) {
    std::ofstream(place.path / "t.jsonl") << "{\"context\": \"a\", \"choices\": [\"b\"], \"gold\": 0}\r\n\n"
                                          << line << "\n";
    return message([&] { read_tasks(place.path / "t.jsonl"); });
  };
  CHECK(refusal("  ") == "");
  CHECK(refusal(R"({"context": "a", "choices": ["b"], "gold": 0, "extra": [1], "id": 7, "task": "t"})") == "");
  const std::vector<std::pair<std::string, std::string>> bad{
      {R"({"choices": ["b"], "gold": 0})", "\"context\" is missing"},
      {R"({"context": 1, "choices": ["b"], "gold": 0})", "must be a text"},
      {R"({"context": "a", "choices": [], "gold": 0})", "one text or more"},
      {R"({"context": "a", "choices": ["b", ""], "gold": 0})", "choice 1 is \"\""},
      {R"({"context": "a", "choices": ["b"], "gold": 1})", "\"gold\" is 1; it must be the number of a choice, 0 to 0"},
      {R"({"context": "a", "choices": ["b"], "gold": -1})", "\"gold\" is -1"},
      {R"({"context": "a", "choices": ["b"], "gold": "0"})", "\"gold\" is \"0\""},
      {R"({"context": "a", "choices": ["b"], "gold": 0, "task": 3})", "\"task\" is 3"},
      {R"({"context": "a", "choices": ["b"], "gold": 0, "id": [1]})", "\"id\" is [1]"},
      {R"([1])", "must be a JSON object"},
      {R"({"context": "a)", "t.jsonl:3"},
  };
  for (const auto& [line, words] : bad) {
    const std::string found = refusal(line);
    INFO(found);
    CHECK(found.find(words) != std::string::npos);
    CHECK(found.find("t.jsonl:3") != std::string::npos);
  }
  std::ofstream(place.path / "empty.jsonl") << "\n";
  CHECK(message([&] { read_tasks(place.path / "empty.jsonl"); }).find("has no line") != std::string::npos);
}

}  // namespace zrt::runtime::tasks_test
