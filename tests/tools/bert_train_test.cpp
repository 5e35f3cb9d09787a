// `zrt train` of BERT on a text: the same masks and bits on every mesh and behind a resume, a loss below that of byte
// frequencies, an export that goes on, and no text token by token.
#include <cmath>

#include "other_sums.h"
#include "program.h"

namespace zrt::bert_train_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

struct Run : Folder {
  explicit Run(const std::string& name) : Folder(name) {
    build_data(*this);
    write("c.json", R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "parallel": {"reduce_every": 2},
  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
  "model": {"preset": "bert-tiny", "tied": false, "whole_words": true, "sentence_order": true, "dropout": 0.1},
  "data": {"train": ")" +
                        (*this / "corpus/train") + R"(", "validation": ")" + (*this / "corpus/validation") +
                        R"("}, "run": {"steps": 4, "eval_batches": 2}})");
  }
  // Two data-parallel ranks, whatever else.
  Result train(const std::string& out, const std::string& more, int times = 1) const {
    return run_zrt("train " + (*this / "c.json") + " --ranks " + std::to_string(2 * times) + " --out " + (*this / out) +
                   " " + more);
  }
  json summary(const std::string& out) const { return read_json(*this / (out + "/summary.json")); }
};

void require(const Result& result) {
  INFO(result.text);
  REQUIRE(result.code == 0);
}

}  // namespace

TEST_CASE("BERT has the same bits whatever the stage and the number of stages, and behind a resume") {
  const Run run("bert_bits");
  require(run.train("plain", "--set run.checkpoint_interval=2"));
  const json plain = run.summary("plain");
  require(run.train("stage3", "--set zero_optimization.stage=3 --set memory.recompute=full"));
  require(run.train("staged", "--set parallel.pipeline=2 --set zero_optimization.stage=1", 2));
  require(run.train("resumed", "--resume " + (run / "plain/checkpoints/step_2")));
  for (const char* other : {"stage3", "staged", "resumed"}) {
    INFO(other);
    CHECK(run.summary(other)["state_xxh3"] == plain["state_xxh3"]);
    CHECK(run.summary(other)["validation"] == plain["validation"]);
  }
  // Ranks that share blocks see the same samples, and lose what one does, to rounding.
  const Result shared = run.train("shared", "--set parallel.tensor=2 --set parallel.sequence=true", 2);
  require(shared);
  const double bound = other_sums_bound(run / "shared", shared.text, 0.003);
  CHECK(bound < 1e-3);
  CHECK(std::abs(run.summary("shared")["final_loss"].get<double>() - plain["final_loss"].get<double>()) < bound);
}

TEST_CASE("BERT's loss falls, its evaluation repeats, its export goes on, and it makes no text") {
  const Run run("bert_loss");
  require(
      run.train("long", "--set model.tied=true --set run.steps=60 --set model.sentence_order=false --set run.seed=2"));
  const json end = run.summary("long")["validation"];
  CHECK(end["loss"].get<double>() < std::log(260.0) - 1);
  CHECK(!end.contains("bits_per_byte"));
  const Result evaluated = run_zrt("eval " + (run / "long") + " --json");
  require(evaluated);
  CHECK(json::parse(evaluated.text)["loss"] == end["loss"]);
  require(run_zrt("checkpoint export " + (run / "long") + " --out " + (run / "plain_folder")));
  require(
      run.train("again", "--set model.tied=true --set model.sentence_order=false --resume " + (run / "plain_folder")));
  const Result text = run_zrt("generate " + (run / "long") + " --prompt x --tokens 2");
  CHECK(text.code == 2);
  CHECK(text.text.find("names hidden tokens") != std::string::npos);
}

}  // namespace zrt::bert_train_test
