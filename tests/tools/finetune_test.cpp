// The program alone goes from a folder to a folder: tests/data/finetuning has what transformers wrote, a text as JSON
// lines, and what PyTorch made of both (make_finetuning_goldens.py).
#include <cmath>
#include <cstdint>

#include "program.h"
#include "tests/data_folder.h"

namespace zrt::finetune_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

const fs::path goldens = fs::path(zrt::test::data_folder()) / "finetuning";

// PyTorch computed in fp64, zrt computes in fp32; the losses are between 4 and 6.
constexpr double of_loss = 1e-5;

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

// The ids of a dataset, of two bytes each.
std::vector<int> ids_of(const std::string& prefix) {
  const std::string bytes = contents(prefix + ".bin");
  std::vector<int> ids;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    ids.push_back(static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1]) << 8);
  }
  return ids;
}

class Story {
 public:
  Story(const std::string& family, json golden)
      : folder_("finetune_" + family), from_((goldens / family).string()), golden_(std::move(golden)) {}

  void run() const {
    build("train"), build("validation");
    CHECK(ids_of(folder_ / "validation") == golden_["held_out"].get<std::vector<int>>());
    size_t tokens = 0;
    for (const json& document : golden_["tokens"]) tokens += document.get<size_t>();
    CHECK(ids_of(folder_ / "train").size() == tokens);

    folder_.write("run.json", config().dump());
    must("train " + (folder_ / "run.json") + " --ranks 2 --resume " + from_);
    check_steps();
    check_loss("run", golden_["after"]);
    must("checkpoint export " + (folder_ / "run") + " --out " + (folder_ / "result"));
    check_files();

    // The result is a folder as the one before: its loss is that of the run, and of the folder that it began with
    // before.
    for (const auto& [start, loss] : {std::pair{folder_ / "result", "after"}, {from_, "before"}}) {
      const std::string again = std::string("again_") + loss;
      must("checkpoint import " + start + " --out " + (folder_ / again));
      check_loss(again, golden_[loss]);
    }
  }

 private:
  std::string must(const std::string& arguments) const {
    const Result result = run_zrt(arguments);
    INFO(arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
    return result.text;
  }

  void build(const std::string& part) const {
    must("data build --tokenizer " + from_ + "/tokenizer.json --out " + (folder_ / part) + " " +
         (goldens / (part + ".jsonl")).string());
  }

  // The settings are those of make_finetuning_goldens.py. States live on the host, and the model is the folder's.
  json config() const {
    return {{"train_batch_size", 4},
            {"train_micro_batch_size_per_gpu", 1},
            {"gradient_clipping", 1.0},
            {"zero_optimization", {{"stage", 3}, {"offload_optimizer", {{"device", "cpu"}}}}},
            {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 2e-3}, {"weight_decay", 0.1}}}}},
            {"model", {{"sequence", 32}}},
            {"data", {{"train", folder_ / "train"}, {"validation", folder_ / "validation"}}},
            {"run", {{"steps", 20}, {"seed", 7}, {"out", folder_ / "run"}}}};
  }

  void check_steps() const {
    std::ifstream lines(folder_ / "run/metrics.jsonl");
    size_t step = 0;
    for (std::string line; std::getline(lines, line); ++step) {
      INFO(line);
      CHECK(std::abs(json::parse(line)["loss"].get<double>() - golden_["losses"].at(step).get<double>()) < of_loss);
    }
    CHECK(step == golden_["losses"].size());
    const json host = read_json(folder_ / "run/memory.json")["ranks"][0]["tiers"]["host"]["categories"];
    CHECK(host["moment1"].get<int64_t>() > 0);
  }

  void check_loss(const std::string& run, double loss) const {
    const Result result =
        run_command("(" ZRT_BINARY_DIR "/zrt eval " + (folder_ / run) + " --set model.sequence=32 --data " +
                    (folder_ / "validation") + " --json 2>/dev/null)");
    INFO(run << "\n" << result.text);
    REQUIRE(result.code == 0);
    CHECK(std::abs(json::parse(result.text)["loss"].get<double>() - loss) < of_loss);
  }

  // All files of the folder are there as they were, but for the weights and for config.json, which means the same.
  void check_files() const {
    for (const auto& entry : fs::directory_iterator(from_)) {
      const std::string name = entry.path().filename().string();
      CAPTURE(name);
      REQUIRE(fs::exists(folder_ / ("result/" + name)));
      if (name == "model.safetensors" || name == "config.json") continue;
      CHECK(contents(entry.path()) == contents(folder_ / ("result/" + name)));
    }
    const json before = read_json(from_ + "/config.json"), after = read_json(folder_ / "result/config.json");
    for (const char* key : {"model_type", "architectures", "vocab_size", "bos_token_id", "eos_token_id", "pad_token_id",
                            "tie_word_embeddings", "max_position_embeddings", "n_positions"}) {
      CAPTURE(key);
      CHECK(after.value(key, json()) == before.value(key, json()));
      CHECK(after.contains(key) == before.contains(key));
    }
  }

  Folder folder_;
  std::string from_;
  json golden_;
};

}  // namespace

TEST_CASE("A folder of any family and JSON lines become a folder with the losses that PyTorch reaches") {
  const json all = read_json(goldens / "goldens.json");
  for (const auto& [family, golden] : all.items()) {
    CAPTURE(family);
    Story(family, golden).run();
  }
}

}  // namespace zrt::finetune_test
