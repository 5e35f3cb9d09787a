#include "runtime/search/choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "optimizer/zero.h"

namespace zrt::runtime::search {
namespace {

constexpr int64_t largest_micro = 64;
constexpr int most_chunks = 6;

std::vector<int> divisors(int number, int most) {
  std::vector<int> found;
  for (int d = 1; d <= std::min(number, most); ++d) {
    if (number % d == 0) found.push_back(d);
  }
  return found;
}

const std::vector<std::string> mesh_keys{"parallel.expert",
                                         "parallel.tensor",
                                         "parallel.sequence",
                                         "parallel.pipeline",
                                         "parallel.virtual_pipeline",
                                         "parallel.schedule",
                                         "parallel.microbatch_group",
                                         "parallel.partition",
                                         "parallel.reduce_every",
                                         "pipeline",
                                         "tensor_parallel",
                                         "zero_optimization.stage",
                                         "train_micro_batch_size_per_gpu",
                                         "memory.recompute",
                                         "activation_checkpointing",
                                         "gradient_accumulation_steps"};

}  // namespace

std::vector<std::pair<std::string, std::string>> keys_of(const Choice& choice, const Task& task) {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  return {{"parallel.tensor", text(choice.tensor)},
          {"parallel.sequence", choice.tensor > 1 ? "true" : "false"},
          {"parallel.pipeline", text(choice.pipeline)},
          {"parallel.expert", text(choice.expert)},
          {"parallel.virtual_pipeline", text(choice.chunks)},
          {"parallel.schedule", choice.schedule},
          {"zero_optimization.stage", text(choice.stage)},
          {"train_micro_batch_size_per_gpu", text(choice.micro)},
          {"gradient_accumulation_steps", text(choice.microbatches(task))},
          {"memory.recompute", choice.recompute}};
}

Task load_task(const std::filesystem::path& file, const Settings& sets, int ranks) {
  Task task;
  task.ranks = ranks;
  const auto keys = keys_of({}, task);
  Settings others;
  for (const Override& given : sets) {
    const std::string& set = given.text;
    const std::string key = set.substr(0, set.find('='));
    const bool chosen = std::any_of(keys.begin(), keys.end(), [&](const auto& each) { return each.first == key; });
    if (chosen && set.size() > key.size()) {
      task.fixed[key] = set.substr(key.size() + 1);
    } else {
      others.push_back(given);
    }
  }
  // The mesh of the file need not suit one rank.
  for (const char* neutral : {"parallel.expert=1", "parallel.tensor=1", "parallel.sequence=false",
                              "parallel.pipeline=1", "parallel.virtual_pipeline=1", "parallel.schedule=1f1b",
                              "parallel.microbatch_group=null", "parallel.partition=time", "parallel.reduce_every=null",
                              "train_micro_batch_size_per_gpu=null", "gradient_accumulation_steps=null"}) {
    others.emplace_back(neutral);
  }
  const Config config = load_config(file, others, 1);
  const bool says_batch = std::any_of(config.keys.begin(), config.keys.end(), [](const ResolvedKey& key) {
    return key.path == "train_batch_size" && (key.from == "file" || key.from == "command line");
  });
  if (!says_batch) {
    throw core::ConfigError(
        "--search needs train_batch_size: it changes microbatches and the number of data-parallel ranks, and the "
        "batch is to stay. Give it in the file or by --set train_batch_size=N.");
  }
  task.config = reconfigured(config, {}, 1, mesh_keys);
  for (const auto& block : task.config.model.make().blocks) {
    task.experts = std::max(task.experts, block->experts());
  }
  return task;
}

Config with_choice(const Task& task, const Choice& choice, int64_t batch) {
  const int64_t each = choice.micro * choice.data(task);
  Settings sets{fmt::format("train_batch_size={}", batch)};
  for (const auto& [key, value] : keys_of(choice, task)) {
    if (key != "gradient_accumulation_steps") sets.push_back(key + "=" + value);
  }
  sets.push_back(fmt::format("gradient_accumulation_steps={}", batch / each));
  return reconfigured(task.config, sets, task.ranks);
}

std::vector<Choice> choices(const Task& task, int ranks_per_host) {
  const int64_t layers = task.config.model.layers, heads = task.config.model.heads, batch = task.config.batch.train;
  const auto allowed = [&](const Choice& choice) {
    const auto keys = keys_of(choice, task);
    return std::all_of(keys.begin(), keys.end(), [&](const auto& key) {
      const auto wanted = task.fixed.find(key.first);
      return wanted == task.fixed.end() || wanted->second == key.second;
    });
  };
  // Stages are all alike for a rank alone.
  const auto stages_for = [open = !task.fixed.contains("zero_optimization.stage")](int data) {
    return open && data == 1 ? std::vector<int>{0} : std::vector<int>{0, 1, 2, 3};
  };
  std::vector<std::string> recomputed{"none", "selective", "full"};
  if (const auto wanted = task.fixed.find("memory.recompute"); wanted != task.fixed.end()) {
    recomputed = {wanted->second};
  }
  std::vector<Choice> found;
  const auto add = [&](const Choice& choice) {
    if (allowed(choice)) found.push_back(choice);
  };
  // A pipeline's chunks and schedules, for a number of stages and microbatches.
  const auto schedules = [&](Choice choice, int64_t microbatches) {
    add(choice);
    if (choice.pipeline == 1) return;
    for (int chunks = 2; chunks <= most_chunks && choice.pipeline * int64_t{chunks} <= layers; ++chunks) {
      if (microbatches < choice.pipeline) break;
      Choice interleaved = choice;
      interleaved.chunks = chunks, interleaved.schedule = "interleaved";
      add(interleaved);
    }
    choice.schedule = "zb-h1";
    add(choice);
  };
  for (const int tensor : divisors(task.ranks, ranks_per_host)) {
    if (heads % tensor != 0) continue;
    for (const int pipeline : divisors(task.ranks / tensor, static_cast<int>(layers))) {
      const int data = task.ranks / tensor / pipeline;
      if (batch % data != 0) continue;
      for (int64_t micro = 1; micro <= largest_micro; micro *= 2) {
        if (batch / data % micro != 0) break;
        for (const int stage : stages_for(data)) {
          const optimizer::ZeroStrategy zero = optimizer::zero_strategy(stage);
          // Sums of each microbatch beside whole weights cost a pipeline more traffic than sharded states alone.
          const bool sums_alone = zero.grads != zero.weights;
          if (sums_alone && pipeline > 1) continue;
          for (const std::string& recompute : recomputed) {
            for (const int expert : divisors(task.experts > 0 ? data : 1, data)) {
              if (task.experts > 0 && task.experts % expert != 0) continue;
              schedules({tensor, pipeline, expert, 1, stage, "1f1b", recompute, micro}, batch / data / micro);
            }
          }
        }
      }
    }
  }
  return found;
}

}  // namespace zrt::runtime::search
