#include "runtime/search/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "optimizer/zero.h"
#include "runtime/config/tree.h"

namespace zrt::runtime::search {
namespace {

// Microbatches are powers of two up to the one, and other numbers up to the other.
constexpr int64_t largest_micro = 64, largest_odd_micro = 16;
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

// Keys of DeepSpeed that say what a key of the mesh says.
const std::map<std::string, std::string> names_of_others{
    {"pipeline.stages", "parallel.pipeline"},
    {"tensor_parallel.autotp_size", "parallel.tensor"},
    {"tensor_parallel.tp.tp_size", "parallel.tensor"},
    {"activation_checkpointing.partition_activations", "parallel.sequence"}};

// A value as --set takes it, numbers in one spelling.
std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  const bool whole = value.is_number_float() && value.get<double>() == std::floor(value.get<double>()) &&
                     std::abs(value.get<double>()) < 1e15;
  return whole ? fmt::format("{}", static_cast<int64_t>(value.get<double>())) : value.dump();
}

// Keys and values that --set gives, by the names of the key table, sections taken apart.
std::vector<std::pair<std::string, std::string>> said(const Settings& sets) {
  configuration::Tree tree;
  tree.document.name = "command line";
  tree.document.root = nlohmann::json::object();
  for (const Override& given : sets) {
    if (given.option == "--set") configuration::apply_set(tree, given);
  }
  configuration::normalise(tree);
  tree.problems.raise(tree.document.name);
  std::vector<std::pair<std::string, std::string>> found;
  const std::function<void(const std::string&, const nlohmann::json&)> collect = [&](const std::string& path,
                                                                                     const nlohmann::json& value) {
    const auto own = names_of_others.find(path);
    if (!value.is_object())
      return found.emplace_back(own == names_of_others.end() ? path : own->second, text_of(value)), void();
    for (const auto& [key, inner] : value.items()) collect(path.empty() ? key : path + "." + key, inner);
  };
  collect("", tree.document.root);
  return found;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> keys_of(const Choice& choice, const Task& task) {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  std::vector<std::pair<std::string, std::string>> keys{
      {"parallel.tensor", text(choice.tensor)},
      {"parallel.sequence", choice.tensor > 1 && choice.sequence ? "true" : "false"},
      {"parallel.pipeline", text(choice.pipeline)},
      {"parallel.expert", text(choice.expert)},
      {"parallel.virtual_pipeline", text(choice.chunks)},
      {"parallel.schedule", choice.schedule},
      {"zero_optimization.stage", text(choice.stage)},
      {"train_micro_batch_size_per_gpu", text(choice.micro)},
      {"gradient_accumulation_steps", text(choice.microbatches(task))},
      {"memory.recompute", choice.recompute}};
  if (!task.cluster.empty()) keys.emplace_back("parallel.cluster", task.cluster);
  for (const auto& fixed : task.fixed) {  // others of the mesh
    const bool told = std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return key.first == fixed.first; });
    if (!told) keys.push_back(fixed);
  }
  return keys;
}

Task load_task(const std::filesystem::path& file, const Settings& sets, int ranks) {
  Task task;
  task.ranks = ranks;
  const auto chosen = keys_of({}, task);
  const auto of_mesh = [&](const std::string& key) {
    return std::any_of(mesh_keys.begin(), mesh_keys.end(), [&](const std::string& each) { return each == key; }) ||
           std::any_of(chosen.begin(), chosen.end(), [&](const auto& each) { return each.first == key; });
  };
  Settings others;
  for (const Override& given : sets) {
    if (given.option != "--set") others.push_back(given);
  }
  for (const auto& [key, value] : said(sets)) {
    if (of_mesh(key)) {
      if (value != "null" && value != "auto") task.fixed[key] = value;
    } else {
      others.emplace_back(key + "=" + value);
      task.others.push_back(key + "=" + value);
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

namespace {

std::vector<Choice> all_choices(const Task& task, int ranks_per_host) {
  const int64_t layers = task.config.model.layers, heads = task.config.model.heads, batch = task.config.batch.train;
  const auto wanted = [&](const char* key) -> const std::string* {
    const auto found = task.fixed.find(key);
    return found == task.fixed.end() ? nullptr : &found->second;
  };
  const auto allowed = [&](const Choice& choice) {
    const auto keys = keys_of(choice, task);
    return std::all_of(keys.begin(), keys.end(), [&](const auto& key) {
      const std::string* const value = wanted(key.first.c_str());
      const bool alone = key.first == "parallel.sequence" && choice.tensor == 1;  // with whom it would share rows
      return value == nullptr || *value == key.second || alone;
    });
  };
  // Stages are all alike for a rank alone.
  const auto stages_for = [open = !task.fixed.contains("zero_optimization.stage")](int data) {
    return open && data == 1 ? std::vector<int>{0} : std::vector<int>{0, 1, 2, 3};
  };
  std::vector<std::string> recomputed{"none", "selective", "full"};
  if (const std::string* const value = wanted("memory.recompute")) recomputed = {*value};
  const std::string* const micro_wanted = wanted("train_micro_batch_size_per_gpu");
  const std::string* const schedule_wanted = wanted("parallel.schedule");
  const int64_t only_micro = micro_wanted != nullptr ? std::strtoll(micro_wanted->c_str(), nullptr, 10) : 0;
  const bool sequence = wanted("parallel.sequence") == nullptr || *wanted("parallel.sequence") == "true";
  std::vector<Choice> found;
  const auto add = [&](const Choice& choice) {
    if (allowed(choice)) found.push_back(choice);
  };
  // A pipeline's chunks and schedules, for a number of stages and microbatches.
  const auto schedules = [&](Choice choice, int64_t microbatches) {
    add(choice);
    if (choice.pipeline == 1) return;
    if (schedule_wanted != nullptr && *schedule_wanted == "gpipe") {
      choice.schedule = "gpipe";
      add(choice);
      return;
    }
    const int64_t most = wanted("parallel.virtual_pipeline") != nullptr ? layers : most_chunks;
    for (int chunks = 2; chunks <= most && choice.pipeline * int64_t{chunks} <= layers; ++chunks) {
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
      for (int64_t micro = 1; micro <= batch / data; ++micro) {
        const bool power = (micro & (micro - 1)) == 0;
        const bool tried = only_micro > 0 ? micro == only_micro : micro <= (power ? largest_micro : largest_odd_micro);
        if (micro > std::max(only_micro, largest_micro)) break;
        if (!tried || batch / data % micro != 0) continue;
        for (const int stage : stages_for(data)) {
          const optimizer::ZeroStrategy zero = optimizer::zero_strategy(stage);
          // Sums of each microbatch beside whole weights cost a pipeline more traffic than sharded states alone.
          const bool sums_alone = zero.grads != zero.weights;
          if (sums_alone && pipeline > 1 && wanted("zero_optimization.stage") == nullptr) continue;
          for (const std::string& recompute : recomputed) {
            for (const int expert : divisors(task.experts > 0 ? data : 1, data)) {
              if (task.experts > 0 && task.experts % expert != 0) continue;
              schedules({tensor, pipeline, expert, 1, stage, sequence, "1f1b", recompute, micro}, batch / data / micro);
            }
          }
        }
      }
    }
  }
  return found;
}

// The values that a key of `task.fixed` may have beside the others; none: it is not that key alone.
std::set<std::string> legal_values(Task task, const std::string& key, int ranks_per_host) {
  task.fixed.erase(key);
  std::set<std::string> values;
  for (const Choice& choice : all_choices(task, ranks_per_host)) {
    for (const auto& [each, value] : keys_of(choice, task)) {
      if (each == key) values.insert(value);
    }
  }
  return values;
}

}  // namespace

std::vector<Choice> choices(const Task& task, int ranks_per_host) {
  std::vector<Choice> found = all_choices(task, ranks_per_host);
  if (!found.empty()) return found;
  for (const auto& [key, value] : task.fixed) {
    const std::set<std::string> values = legal_values(task, key, ranks_per_host);
    if (values.empty()) continue;
    std::vector<std::string> legal(values.begin(), values.end());
    std::sort(legal.begin(), legal.end(), [](const std::string& a, const std::string& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    throw core::ConfigError(fmt::format(
        "{} = {} (command line) leaves no way to spread {} rank{} and {} samples a step. Legal beside the "
        "other keys: {}.",
        key, value, task.ranks, task.ranks == 1 ? "" : "s", task.config.batch.train, fmt::join(legal, ", ")));
  }
  std::vector<std::string> keys;
  for (const auto& [key, value] : task.fixed) keys.push_back(key + " = " + value);
  throw core::ConfigError(fmt::format(
      "There is no way to spread {} rank{} and {} samples a step{}{}: data-parallel ranks must divide the batch.",
      task.ranks, task.ranks == 1 ? "" : "s", task.config.batch.train, keys.empty() ? "" : " with ",
      fmt::join(keys, ", ")));
}

}  // namespace zrt::runtime::search
