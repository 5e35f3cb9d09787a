// DeepSpeed files of the shapes that people have: what each is accepted with, or refused for, all at once.
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/data_folder.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_deepspeed_test {

using namespace zrt::runtime;
namespace fs = std::filesystem;

const fs::path folder = fs::path(zrt::test::data_folder()) / "deepspeed";

// Returns the settings that complete such files; `more` is what a launcher would give.
Settings completed(const std::vector<std::string>& more) {
  std::vector<std::string> sets{"model.preset=gpt2-tiny", "data.train=corpus", "run.steps=100"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

Config load(const std::string& name, const std::vector<std::string>& more) {
  return load_config(folder / (name + ".json"), completed(more), 2);
}

struct Accepted {
  std::string file;
  std::vector<std::string> launcher;  // settings
  std::vector<std::string> warnings;  // all of them, by a part of each
};

const std::vector<Accepted> accepted{
    {"hf_zero2_offload_auto",
     {},
     {"no batch size is given: train_micro_batch_size_per_gpu = 1 is used, so that a step has 2 samples. Set it or "
      "train_batch_size. Seen: train_batch_size = \"auto\" (FILE:27)",
      "bf16.enabled = \"auto\" (FILE:6) and fp16.enabled = \"auto\" (FILE:3) count as left out",
      "train_micro_batch_size_per_gpu = 1 (line 28)"}},
    {"hf_zero2_offload_auto",
     {"train_micro_batch_size_per_gpu=4", "optimizer.params.lr=2e-5"},
     {"bf16.enabled = \"auto\" (FILE:6) and fp16.enabled = \"auto\" (FILE:3) count as left out: weights and "
      "activations "
      "are fp32",
      "optimizer.params.betas = [0.9,0.999] (line 9), optimizer.params.eps"}},
    {"hf_zero3_offload_auto",
     {},
     {"stage3_gather_16bit_weights_on_model_save", "the rate is at its lowest from the end of the warm-up on",
      "stage3_param_persistence_threshold = 0 (line 22)"}},
    {"llama_factory_zero2",
     {"train_micro_batch_size_per_gpu=1", "bf16.enabled=true"},
     {"zero_allow_untested_optimizer = true (FILE:6) has no effect", "round_robin_gradients = true (FILE:20)",
      "gradient_clipping = 1.0 (line 5)", "optimizer.type is not given: AdamW"}},
    {"stage2_offload_param", {}, {"offload_param.device = \"cpu\" (FILE:9) has no effect: below"}},
    {"accelerate_zero2",
     {"optimizer.type=AdamW"},
     {"grad_accum_dtype = \"fp32\" (FILE:14) has no effect: with one microbatch", "zero_allow_untested_optimizer"}},
    {"megatron_stage0",
     {},
     {"prescale_gradients = true (FILE:7) has no effect: gradients are always scaled",
      "wall_clock_breakdown = true (FILE:13) has no effect: per-phase timers"}},
    {"megatron_stage1_profiled",
     {},
     {"elastic_checkpoint = true (FILE:5)", "flops_profiler.enabled = true (FILE:9)",
      "comms_logger.enabled = true (FILE:11)", "wandb.enabled = true (FILE:12)"}},
    {"activation_checkpoints",
     {},
     {"partition_activations = true (FILE:10) has no effect: there are no tensor-parallel ranks",
      "contiguous_memory_optimization = true (FILE:12)", "number_checkpoints = 4 (FILE:13)",
      "profile = true (FILE:15)"}},
    {"chat_actor", {}, {"memory_efficient_linear = false (FILE:12)"}},
    {"nvme_zero3", {}, {"aio.block_size = 262144", "aio.queue_depth = 32", "offload_param.max_in_cpu = 0 (line 8)"}},
    {"all_off", {}, {}},
    {"data_efficiency_empty", {}, {"data_efficiency.enabled = true (FILE:4) has no effect"}},
    {"remarks", {}, {}},
    {"llama_factory_zero3",
     {"bf16.enabled=true"},
     {"no batch size is given", "zero_allow_untested_optimizer", "optimizer.type is not given",
      "stage3_gather_16bit_weights_on_model_save", "gradient_accumulation_steps = 1 (line 4)"}},
    {"accelerate_accumulation", {}, {"so that a step has 8 samples", "optimizer.type is not given"}},
    {"zero_alone", {}, {"no batch size is given", "optimizer.type is not given"}},
    {"half_precision_edge",
     {},
     {"no batch size is given",
      "checkpoint.load_universal = true (FILE:4) has no effect: every "
      "checkpoint resumes on any number of ranks"}},
    {"minimal", {}, {"optimizer.type is not given: AdamW is used, with optimizer.params.lr = 0.001 (default)"}},
};

struct Refused {
  std::string file;
  std::vector<std::string> causes;  // all of them, by a part of each
};

const std::vector<Refused> refused{
    {"one_cycle_auto", {"cycle_min_lr is missing (\"auto\" in FILE:5 counts as left out)", "cycle_max_lr is missing"}},
    {"ignored_by_deepspeed",
     {"FILE:4: unknown key 'cuda_visible_devices'", "FILE:5: unknown key 'log'",
      "FILE:6: unknown key 'zero_optimisation' = {\"stage\":2}. The nearest known key is 'zero_optimization'"}},
    {"last_batch_iteration",
     {"last_batch_iteration = 40 (FILE:6) is refused: a run starts its schedule with its first"}},
    {"one_bit_adam",
     {"optimizer.type = \"OneBitAdam\" (FILE:4) is not supported", "max_grad_norm = 1.0 (FILE:5) is never accepted"}},
    {"lamb", {"optimizer.type = \"Lamb\" (FILE:3)", "scheduler.type = \"CosineAnnealingLR\" (FILE:4)"}},
    {"compression_on",
     {"compression_training.weight_quantization", "compression_training.row_pruning",
      "compression_training.layer_reduction"}},
    {"other_features",
     {"amp.enabled = true (FILE:4)", "progressive_layer_drop.enabled = true (FILE:5)",
      "curriculum_learning.enabled = true (FILE:6)", "data_efficiency.data_sampling = {\"enabled\":true} (FILE:7)",
      "autotuning.enabled = true (FILE:8)", "quantize_training.enabled = true (FILE:9)",
      "zero_optimization.zenflow = "}},
    {"refused_there_too",
     {"FILE:2", "fp16.enabled = true (FILE:5) contradicts bf16.enabled", "unknown key 'bf16.loss_scale'",
      "grad_hooks = true (FILE:9) is never accepted", "offload_param.device = \"nvme\" (FILE:10) needs a folder",
      "unknown key 'zero_optimization.aio'", "max_grad_norm = 1.0 (FILE:14)"}},
};

std::string with_file(std::string part, const std::string& name) {
  const std::string file = (folder / (name + ".json")).string();
  for (size_t at; (at = part.find("FILE")) != std::string::npos;) part.replace(at, 4, file);
  return part;
}

TEST_CASE("files of the usual shapes are accepted, with a warning for each thing that does nothing") {
  for (const Accepted& one : accepted) {
    INFO(one.file);
    const Config config = load(one.file, one.launcher);
    for (const std::string& part : one.warnings) {
      INFO(part);
      CHECK(warned(config, with_file(part, one.file)));
    }
    CHECK(config.warnings.size() == one.warnings.size());
    if (config.warnings.size() != one.warnings.size()) {
      for (const std::string& warning : config.warnings) WARN(warning);
    }
    // The file that a run writes of the configuration re-creates it.
    const fs::path resolved = fs::path(ZRT_BINARY_DIR) / "config_deepspeed_resolved.json";
    std::ofstream(resolved) << resolved_json(config);
    CHECK(resolved_json(load_resolved(resolved)) == resolved_json(config));
    fs::remove(resolved);
  }
}

TEST_CASE("files that are refused are told all causes at once, each with its line") {
  for (const Refused& one : refused) {
    const std::string error = error_of([&] { load(one.file, {}); });
    INFO(one.file << "\n" << error);
    for (const std::string& part : one.causes) CHECK(has(error, with_file(part, one.file)));
    const auto lines = std::count(error.begin(), error.end(), '\n');
    CHECK(static_cast<size_t>(std::max<int64_t>(lines, 1)) == one.causes.size());
  }
}

TEST_CASE("every file of the folder has its verdict") {
  std::set<std::string> listed, there;
  for (const Accepted& one : accepted) listed.insert(one.file);
  for (const Refused& one : refused) listed.insert(one.file);
  for (const auto& entry : fs::directory_iterator(folder)) there.insert(entry.path().stem().string());
  CHECK(listed == there);
}

TEST_CASE("what stopped files although it changes no result stops none any more") {
  // A cause: the public files that it was met in, and how it looks there, beside what it needs and nothing else.
  struct Cause {
    int files;
    const char* keys;
  };
  const Cause causes[] = {
      {9, R"("wall_clock_breakdown": true,)"},
      {8, R"("flops_profiler": {"enabled": true, "profile_step": 1, "detailed": true},)"},
      {8, R"("activation_checkpointing": {"partition_activations": true},)"},
      {6, R"("zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}},)"},
      {4, R"("activation_checkpointing": {"contiguous_memory_optimization": true},)"},
      {4, R"("prescale_gradients": true,)"},
      {3, R"("scheduler": {"type": "WarmupLR", "params": {"last_batch_iteration": -1}},)"},
      {2, R"("wandb": {"enabled": true, "project": "x"},)"},
      {2, R"("comms_logger": {"enabled": true, "verbose": true},)"},
      {2, R"("steps_per_print": 2e16,)"},
      {1, R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},)"},
      {1, R"("activation_checkpointing": {"profile": true},)"},
      {1, R"("zero_optimization": {"stage": 1, "elastic_checkpoint": true},)"},
      {1, R"("activation_checkpointing": {"number_checkpoints": 4},)"},
  };
  const std::string optimizer = R"("optimizer": {"type": "AdamW"},)";
  int passed = 0, met = 0;
  for (const Cause& cause : causes) {
    INFO(cause.keys);
    met += cause.files;
    // These two are honoured, the others named as what does nothing.
    const std::string keys = cause.keys;
    const bool honoured =
        keys.find("steps_per_print") != std::string::npos || keys.find("last_batch") != std::string::npos;
    try {
      CHECK(parsed(optimizer + keys).warnings.size() == (honoured ? 0 : 1));
      passed += cause.files;
    } catch (const zrt::core::ConfigError& error) {
      WARN(error.what());
    }
  }
  CHECK(met == 52);  // in 47 files
  CHECK(passed == met);
}

}  // namespace zrt::config_deepspeed_test
