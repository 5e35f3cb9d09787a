// Trains a model with blocks of one's own between zrt's embedding and head, at ZeRO stage 3 on two thread ranks.
#include <cstdio>
#include <filesystem>
#include <string>

#include "comm/transport.h"
#include "core/error.h"
#include "mean_block.h"
#include "models/common/embedding.h"
#include "models/common/head.h"
#include "runtime/data/build.h"
#include "runtime/train/trainer.h"

namespace {

constexpr int64_t sequence = 64, hidden = 128, vocab = 257, layers = 2;

zrt::models::Model make_model() {
  using namespace zrt::models;
  const BlockSizes sizes{.hidden = hidden, .sequence = sequence, .vocab = vocab};
  Model model;
  model.type = "means";
  model.hidden = hidden, model.sequence = sequence, model.vocab = vocab, model.layers = layers;
  model.tied = true;
  model.blocks.push_back(make_embedding(sizes, {.block = "wte", .tokens = "wte.weight", .positions = "wpe.weight"}));
  for (int64_t i = 0; i < layers; ++i) model.blocks.push_back(std::make_unique<MeanBlock>(i, hidden));
  const Norm norm{.kind = NormKind::layer, .width = hidden};
  model.blocks.push_back(make_head(sizes, {.norm_name = "ln_f", .norm = norm, .output_weight = "wte.weight"}));
  return model;
}

// A configuration as of a file; `model` says what the data needs to know.
const char* const configuration = R"({
  "train_batch_size": 16, "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": {"stage": 3},
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
  "model": {"layers": 2, "hidden": 128, "heads": 1, "sequence": 64, "vocab": 257},
  "run": {"steps": 100, "seed": 1}
})";

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: custom_block TEXT FOLDER\n");
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[2];
    std::filesystem::create_directories(folder);
    const std::string corpus = (folder / "corpus").string();
    zrt::runtime::data::BuildOptions build;
    build.inputs = {argv[1]};
    build.out = corpus;
    zrt::runtime::data::build_dataset(build);

    const std::vector<std::string> sets{"data.train=\"" + corpus + "\"", "run.out=\"" + folder.string() + "\""};
    const auto config = zrt::runtime::parse_config(configuration, "custom_block", sets, 2);
    const zrt::models::Model model = make_model();
    zrt::runtime::TrainHooks hooks;
    hooks.step = [](const zrt::runtime::StepMetrics& m) {
      if (m.step == 1 || m.step % 20 == 0) std::printf("step %d loss %.4f\n", static_cast<int>(m.step), m.loss);
    };
    const auto ranks = zrt::comm::make_thread_transport(2);
    const auto result = zrt::runtime::train(config, model, hooks, *ranks);
    std::printf("state_xxh3 %s\n", result.summary.state_xxh3.c_str());
  } catch (const zrt::core::Error& error) {
    std::fprintf(stderr, "custom_block: %s\n", error.what());
    return error.exit_code();
  }
}
