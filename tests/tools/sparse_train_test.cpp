// `zrt train` with sparse_attention: a run goes on with its own pattern alone, and an export brings it along.
#include "program.h"

namespace zrt::sparse_train_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

void require(const Result& result) {
  INFO(result.text);
  REQUIRE(result.code == 0);
}

}  // namespace

TEST_CASE("A sparse model goes on from checkpoints and Hugging Face folders with its pattern, and with no other") {
  const Folder folder("sparse_train");
  build_data(folder);
  folder.write("c.json", R"({"train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
  "model": {"preset": "gpt2-tiny"}, "sparse_attention": {"block": 4, "num_local_blocks": 2, "layers": "even"},
  "data": {"train": ")" + (folder / "corpus/train") +
                             R"("}, "run": {"steps": 4}})");
  const auto train = [&](const std::string& out, const std::string& more) {
    return run_zrt("train " + (folder / "c.json") + " --out " + (folder / out) + " " + more);
  };
  const auto bits = [&](const std::string& out) { return read_json(folder / (out + "/summary.json"))["state_xxh3"]; };
  require(train("run", "--set run.checkpoint_interval=2"));
  const std::string half = "--resume " + (folder / "run/checkpoints/step_2");
  require(train("resumed", half + " --set sparse_attention.mode=fixed"));
  CHECK(bits("resumed") == bits("run"));
  const Result other = train("other", half + " --set sparse_attention.block=8");
  CHECK(other.code == 2);
  CHECK(other.text.find("sparse_attention is") != std::string::npos);
  require(train("weights", half + " --set run.load_module_only=true --set sparse_attention.block=8"));

  const Result exported = run_zrt("checkpoint export " + (folder / "run") + " --out " + (folder / "plain"));
  require(exported);
  CHECK(exported.text.find("sparse attention") != std::string::npos);
  require(run_zrt("checkpoint import " + (folder / "plain") + " --out " + (folder / "imported")));
  const json section = read_json(folder / "imported/config.resolved.json")["sparse_attention"];
  CHECK(section["num_local_blocks"]["value"] == 2);
  CHECK(section["layers"]["value"] == "even");
  require(train("again", "--resume " + (folder / "plain")));
  CHECK(train("changed", "--set sparse_attention.layers=odd --resume " + (folder / "plain")).code == 2);
  require(run_zrt("generate " + (folder / "run") + " --prompt ab --tokens 4"));
}

}  // namespace zrt::sparse_train_test
