// A run on conversations, from a file of them to its held-out loss.
#include <set>
#include <utility>

#include "catch.h"
#include "program.h"

namespace zrt::chat_run_test {
namespace {

using namespace zrt::testing;

const std::string model = std::string(ZRT_TEST_DATA) + "/finetuning/qwen3";

std::string chats(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string answer = i == 3 ? std::string(200, 'n') : std::to_string(2 * i);
    lines += "{\"prompt\": \"" + std::to_string(i) + " + " + std::to_string(i) + "?\", \"completion\": \"" + answer +
             "\"}\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("a run learns from conversations one by one, and shows no bits per byte of tokens that do not count") {
  const Folder folder("chat_run");
  folder.write("chats.jsonl", chats(12));
  folder.write("run.json", R"({"train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    "run": {"steps": 30, "seed": 1}})");
  const Result built =
      run_zrt("data build --json --chat " + model + " --out " + (folder / "x") + " " + (folder / "chats.jsonl"));
  REQUIRE(built.code == 0);
  const auto part = nlohmann::json::parse(built.text)["train"];
  CHECK(part["documents"] == 12);
  CHECK((part["counted_tokens"] > 24 && part["counted_tokens"] < part["tokens"]));
  const Result run =
      run_zrt("train " + (folder / "run.json") + " --ranks 2 --resume " + model + " --out " + (folder / "run") +
              " --set model.sequence=48 --set data.documents=alone --set data.train=" + (folder / "x") +
              " --set data.validation=" + (folder / "x"));
  INFO(run.text);
  REQUIRE(run.code == 0);
  CHECK_THAT(run.text, Catch::Contains("1 of 12 documents are longer than a sample (model.sequence 48) and are cut"));
  CHECK_THAT(run.text, Catch::Contains("held-out loss") && !Catch::Contains("bits per byte"));
  // The tokens of the held-out loss are those that count in samples.
  const Result eval = run_zrt("eval " + (folder / "run"));
  CHECK_THAT(eval.text, Catch::Contains("held-out loss") && !Catch::Contains("bits per byte"));
  const Result other = run_zrt("eval --data " + (folder / "x") + " " + (folder / "run"));
  CHECK_THAT(other.text, Catch::Contains(eval.text.substr(eval.text.find("held-out loss"))));
}

TEST_CASE("a model that came from a folder reads held-out conversations as data.documents says") {
  const Folder folder("chat_eval");
  folder.write("chats.jsonl", chats(12));
  REQUIRE(run_zrt("data build --chat " + model + " --out " + (folder / "x") + " " + (folder / "chats.jsonl")).code ==
          0);
  REQUIRE(run_zrt("checkpoint import " + model + " --out " + (folder / "imported")).code == 0);
  std::set<int64_t> tokens;
  for (const char* use : {"joined", "alone", "separate"}) {
    const Result eval = run_zrt("eval " + (folder / "imported") + " --json --data " + (folder / "x") +
                                " --set model.sequence=48 --set data.documents=" + use);
    INFO(use << ": " << eval.text);
    REQUIRE(eval.code == 0);
    tokens.insert(nlohmann::json::parse(eval.text.substr(eval.text.find('{')))["tokens"].get<int64_t>());
  }
  // Alone, a conversation's end behind a sample is lost; joined, what does not fill the last sample; packed, nothing.
  CHECK(tokens.size() == 3);
}

TEST_CASE("packed conversations have the held-out loss that they have one by one, on a pipeline's stages, too") {
  const Folder folder("chat_packed");
  std::string lines = chats(3);
  for (int i = 4; i < 40; ++i)
    lines += R"({"prompt": "say )" + std::to_string(i * i) +
             R"(", "completion": "no"})"
             "\n";
  folder.write("chats.jsonl", lines);
  REQUIRE(run_zrt("data build --chat " + model + " --out " + (folder / "x") + " " + (folder / "chats.jsonl")).code ==
          0);
  REQUIRE(run_zrt("checkpoint import " + model + " --out " + (folder / "imported")).code == 0);
  const auto loss = [&](const std::string& how) {
    const Result eval = run_zrt("eval " + (folder / "imported") + " --json --data " + (folder / "x") +
                                " --set model.sequence=64 --set data.documents=" + how);
    INFO(how << ": " << eval.text);
    REQUIRE(eval.code == 0);
    const auto json = nlohmann::json::parse(eval.text.substr(eval.text.find('{')));
    return std::pair(json["tokens"].get<int64_t>(), json["loss"].get<double>());
  };
  const auto alone = loss("alone"), packed = loss("separate"), joined = loss("joined");
  CHECK(packed.first == alone.first);
  CHECK(packed.second == Approx(alone.second).epsilon(1e-6));
  CHECK(joined.second != Approx(alone.second).epsilon(1e-4));
  folder.write("run.json", R"({"train_batch_size": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0}},
    "run": {"steps": 1, "seed": 1}})");
  for (const char* mesh : {"1", "2 --set parallel.pipeline=2"}) {
    const Result run =
        run_zrt("train " + (folder / "run.json") + " --ranks " + mesh + " --resume " + model + " --out " +
                (folder / ("run" + std::string(1, mesh[0]))) +
                " --set model.sequence=64 --set data.documents=separate --set data.train=" + (folder / "x") +
                " --set data.validation=" + (folder / "x"));
    INFO(run.text);
    REQUIRE(run.code == 0);
    CHECK_THAT(run.text, Catch::Contains("of their places are padding"));
    const auto held_out = run.text.find("held-out loss ");
    REQUIRE(held_out != std::string::npos);
    CHECK(std::stod(run.text.substr(held_out + 14)) == Approx(alone.second).epsilon(1e-4));
  }
}

}  // namespace zrt::chat_run_test
