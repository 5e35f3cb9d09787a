#include "runtime/config/config.h"

#include <algorithm>

#include "core/error.h"
#include "runtime/config/build.h"
#include "runtime/config/resolve.h"
#include "runtime/config/tree.h"

namespace zrt::runtime {

using namespace configuration;

namespace {

using nlohmann::json;

// Leaves out what was taken from a folder before, where the command line names another one.
void forget_folder(Tree& tree) {
  const auto named = [](const Applied& set) { return set.path == "model.from"; };
  if (std::none_of(tree.applied.begin(), tree.applied.end(), named)) return;
  for (auto at = tree.recorded.begin(); at != tree.recorded.end();) {
    const size_t dot = at->first.rfind('.');
    if (at->second != From::folder || tree.origin(at->first) != From::folder) {
      ++at;
      continue;
    }
    json* node = &tree.document.root;
    for (const std::string& part : split_path(at->first.substr(0, dot))) node = &(*node)[part];
    node->erase(at->first.substr(dot + 1));
    at = tree.recorded.erase(at);
  }
}

// Settings, checks and structs. `ranks` 0: those of the batch triple. Everything that is wrong is told at the end.
Config finish(Tree tree, const Settings& sets, int ranks, const std::string& run_name) {
  normalise(tree);
  for (const Override& set : sets) apply_set(tree, set);
  forget_folder(tree);
  normalise(tree);
  find_contradictions(tree);
  Values values = resolve_keys(tree);
  Config config = build_config(values, ranks, run_name);
  values.problems.raise(tree.document.name);
  config.file = tree.document.name;
  return config;
}

// Tells whether a key accepts "auto". A value of such a key that was inferred was given as "auto", because nothing else
// is inferred for it.
bool knows_auto(const std::string& path) {
  return std::any_of(sections().begin(), sections().end(), [&](const Section& section) {
    return std::any_of(section.keys.begin(), section.keys.end(), [&](const Key& key) {
      return (key.types & t_auto) != 0 && key_path(section, key.name) == path;
    });
  });
}

std::string run_name(const std::string& file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  return stem.empty() ? "run" : stem;
}

bool is_entry(const json& node) {
  return node.is_object() && node.size() == 2 && node.contains("value") && node.contains("from");
}

// Replaces every {"value", "from"} by its value and keeps the origins.
json strip(const json& node, const std::string& path, Tree& tree) {
  if (is_entry(node)) {
    for (const From from : {From::file, From::command_line, From::fallback, From::inferred, From::folder}) {
      if (node["from"] != from_name(from)) continue;
      tree.recorded[path] = from;
      return node["value"];
    }
  }
  if (!node.is_object() || is_entry(node)) {
    throw core::ConfigError(tree.document.name + ": '" + path + "' holds " + printed(node) +
                            ", but a resolved configuration holds {\"value\": …, \"from\": …} for every key. Give the "
                            "config.resolved.json of a run.");
  }
  json result = json::object();
  for (const auto& [name, member] : node.items()) {
    result[name] = strip(member, path.empty() ? name : path + "." + name, tree);
  }
  return result;
}

void write_nested(std::string& text, const nlohmann::ordered_json& node, int depth) {
  const std::string indent(static_cast<size_t>(depth) * 2, ' ');
  bool first = true;
  text += "{\n";
  for (const auto& [name, member] : node.items()) {
    text += (first ? "" : ",\n") + indent + "  " + json(name).dump() + ": ";
    first = false;
    if (member.is_object()) {
      write_nested(text, member, depth + 1);
    } else {
      text += member.get<std::string>();
    }
  }
  text += (first ? "" : "\n") + indent + "}";
}

}  // namespace

Config parse_config(const std::string& text, const std::string& name, const Settings& sets, int ranks) {
  if (ranks < 1) throw core::ConfigError("ranks = " + std::to_string(ranks) + " is too few; legal: at least 1.");
  Tree tree;
  tree.document = parse_config_text(text, name, &tree.problems);
  const json run = tree.document.root.is_object() ? tree.document.root.value("run", json()) : json();
  const json out = run.is_object() ? run.value("out", json()) : json();
  if (out.is_object() && out.contains("value") && out.contains("from")) {
    throw core::ConfigError(name +
                            ": is what a run has written of its keys (config.resolved.json), not a configuration. Take "
                            "the file that the run was started with; --resume auto goes on with the run.");
  }
  return finish(std::move(tree), sets, ranks, run_name(name));
}

Config load_config(const std::filesystem::path& file, const Settings& sets, int ranks) {
  return parse_config(read_config_file(file), file.string(), sets, ranks);
}

bool configuration::settled(std::string_view path) {
  return path == "run.steps" || path == "model.rope_scaling.original_max_position_embeddings";
}

Config reconfigured(const Config& config, const Settings& sets, int ranks, const std::vector<std::string>& without) {
  Tree tree;
  tree.document.name = config.file;
  tree.document.root = json::object();
  for (const ResolvedKey& key : config.keys) {
    // Inferred values are left out again, or become "auto" again where the file said so.
    const bool taken = key.from == from_name(From::folder);  // which may be gone by now
    const bool given = taken || key.from == from_name(From::file) || key.from == from_name(From::command_line);
    const bool from_auto = key.from == from_name(From::inferred) && knows_auto(key.path);
    const bool left_out = std::any_of(without.begin(), without.end(),
                                      [&](const std::string& section) { return covers(section, key.path); });
    const bool stays = key.from == from_name(From::inferred) && key.value != "null" && settled(key.path);
    if ((!given && !from_auto && !stays) || left_out) continue;
    json* node = &tree.document.root;
    for (const std::string& part : split_path(key.path)) node = &(*node)[part];
    *node = given || stays ? json::parse(key.value) : json("auto");
    if (stays) tree.recorded[key.path] = From::inferred;
    if (key.from == from_name(From::command_line)) tree.recorded[key.path] = From::command_line;
    if (taken) tree.recorded[key.path] = From::folder;
  }
  Config made = in_reach(finish(std::move(tree), sets, ranks, config.run.name), config.ranks_in_reach);
  if (made.run.steps == config.run.steps) made.run.samples = config.run.samples;
  return made;
}

Config data_parallel(const Config& config, int ranks) {
  // Bits of sums and the cluster that times are taken from have nothing to do with the mesh.
  std::vector<std::string> sets{"train_batch_size=" + std::to_string(config.batch.micro * ranks),
                                std::string("parallel.sums=") + (config.parallel.fast_sums ? "fast" : "ordered")};
  if (!config.parallel.cluster.empty()) sets.push_back("parallel.cluster=" + config.parallel.cluster);
  return reconfigured(config, sets, ranks,
                      {"parallel", "pipeline", "tensor_parallel", "gradient_accumulation_steps",
                       "zero_optimization.zero_hpz_partition_size", "zero_optimization.mics_shard_size"});
}

Config weights_alone(const Config& config) {
  std::vector<std::string> sets{"train_batch_size=1", "train_micro_batch_size_per_gpu=1"};
  if (!config.memory.nvme_path.empty()) sets.push_back("memory.nvme_path=" + config.memory.nvme_path);
  return reconfigured(
      data_parallel(config, 1), sets, 1,
      {"zero_optimization.stage", "zero_optimization.offload_param", "zero_optimization.offload_optimizer",
       "zero_optimization.cpu_offload", "zero_optimization.cpu_offload_param", "activation_checkpointing",
       "memory.placement", "memory.update", "memory.recompute"});
}

Config with_steps(const Config& config, int64_t steps) {
  Config longer = config;
  for (ResolvedKey& key : longer.keys) {
    if (key.path != "run.steps") continue;
    key.value = std::to_string(steps);
    key.from = from_name(From::inferred);
  }
  Config made = reconfigured(longer, {}, config.ranks);
  made.run.samples = config.run.samples;
  return made.run.out == config.run.out ? made : into_folder(std::move(made), config.run.out);
}

Config in_reach(Config config, int ranks) {
  config.ranks_in_reach = ranks;
  return config;
}

Config into_folder(Config config, const std::string& folder) {
  const auto key = std::find_if(config.keys.begin(), config.keys.end(),
                                [](const ResolvedKey& other) { return other.path == "run.out"; });
  if (key == config.keys.end())
    throw core::ConfigError("a configuration without the key run.out cannot be put elsewhere");
  key->value = json(folder).dump();
  key->from = from_name(From::inferred);
  config.run.out = folder;
  return config;
}

std::string resolved_json(const Config& config) {
  // One key per line: the leaves are text already.
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  for (const ResolvedKey& key : config.keys) {
    nlohmann::ordered_json* node = &root;
    for (const std::string& part : split_path(key.path)) node = &(*node)[part];
    *node = "{\"value\": " + key.value + ", \"from\": \"" + key.from + "\"}";
  }
  std::string text;
  write_nested(text, root, 0);
  return text + "\n";
}

Config load_resolved(const std::filesystem::path& file, const Settings& sets) {
  Tree tree;
  tree.document = parse_config_text(read_config_file(file), file.string());
  tree.document.root = strip(tree.document.root, "", tree);
  return finish(std::move(tree), sets, 0, run_name(file.string()));
}

}  // namespace zrt::runtime
