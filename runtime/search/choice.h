// The ways to spread a run over its ranks that a search chooses among, and the keys that say each.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace zrt::runtime::search {

// A run whose mesh is sought. The configuration is that of one rank, without a mesh; the global batch is its own.
struct Task {
  Config config;
  int ranks = 1;
  int64_t experts = 0;  // of the layer that has most; 0: the model has none
  // Keys of choices, and others about the mesh, that the command line gives a value, to which the search keeps.
  std::map<std::string, std::string> fixed;
  std::vector<std::string> others;  // what else it sets, "key=value"
  std::string cluster;              // file or name by which runs know the cluster; "": they do not
};

// One way. Data-parallel ranks are those that tensor and pipeline leave; accumulation keeps the global batch.
struct Choice {
  int tensor = 1, pipeline = 1, expert = 1, chunks = 1, stage = 0;
  bool sequence = true;  // tensor-parallel ranks share rows
  std::string schedule = "1f1b", recompute = "none";
  int64_t micro = 1;

  int data(const Task& task) const { return task.ranks / (tensor * pipeline); }
  int64_t microbatches(const Task& task) const { return task.config.batch.train / (micro * data(task)); }
};

// Keys of a choice and their values, as --set takes them, in a fixed order; and those of task.fixed that no choice has.
std::vector<std::pair<std::string, std::string>> keys_of(const Choice& choice, const Task& task);

// Reads a configuration, with settings, for a search: the mesh of the file counts for nothing, that of the settings is
// kept. Throws like load_config, and ConfigError where train_batch_size is not given: without a mesh nothing else says
// the batch.
Task load_task(const std::filesystem::path& file, const Settings& sets, int ranks);

// The configuration with a choice and a global batch. Throws ConfigError where the choice is not legal.
Config with_choice(const Task& task, const Choice& choice, int64_t batch);

// All choices whose numbers divide what they have to. Tensor-parallel ranks stay inside a host. Throws ConfigError
// where a key of task.fixed leaves none, with its values that would.
std::vector<Choice> choices(const Task& task, int ranks_per_host);

}  // namespace zrt::runtime::search
