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

// Settings, checks and structs. `ranks` 0: those of the batch triple. Everything that is wrong is told at the end.
Config finish(Tree tree, const Settings& sets, int ranks, const std::string& run_name) {
  normalise(tree);
  for (const Override& set : sets) apply_set(tree, set);
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
    for (const From from : {From::file, From::command_line, From::fallback, From::inferred}) {
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

Config reconfigured(const Config& config, const Settings& sets, int ranks) {
  Tree tree;
  tree.document.name = config.file;
  tree.document.root = json::object();
  for (const ResolvedKey& key : config.keys) {
    // Inferred values are left out again, or become "auto" again where the file said so.
    const bool given = key.from == from_name(From::file) || key.from == from_name(From::command_line);
    const bool from_auto = key.from == from_name(From::inferred) && knows_auto(key.path);
    if (!given && !from_auto) continue;
    json* node = &tree.document.root;
    for (const std::string& part : split_path(key.path)) node = &(*node)[part];
    *node = given ? json::parse(key.value) : json("auto");
    if (key.from == from_name(From::command_line)) tree.recorded[key.path] = From::command_line;
  }
  Config changed = finish(std::move(tree), sets, ranks, config.run.name);
  changed.ranks_in_reach = config.ranks_in_reach;
  return changed;
}

Config data_parallel(const Config& config, int ranks) {
  const Settings sets{"pipeline.stages=\"auto\"",
                      "pipeline.partition=best",
                      "tensor_parallel.autotp_size=0",
                      "tensor_parallel.tp.tp_size=1",
                      "parallel.tensor=1",
                      "parallel.pipeline=1",
                      "parallel.virtual_pipeline=1",
                      "parallel.schedule=1f1b",
                      "parallel.microbatch_group=null",
                      "parallel.partition=time",
                      "parallel.gathered_for=auto",
                      "parallel.reduce_every=1",
                      "parallel.hierarchical_ranks=1",
                      "zero_optimization.zero_hpz_partition_size=1",
                      "zero_optimization.mics_shard_size=-1",
                      "gradient_accumulation_steps=1",
                      "train_batch_size=" + std::to_string(config.batch.micro * ranks)};
  return reconfigured(config, sets, ranks);
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

void record_inferred(Config& config, const std::string& path, const std::string& text) {
  for (ResolvedKey& key : config.keys) {
    if (key.path != path) continue;
    key.value = json(text).dump();
    key.from = from_name(From::inferred);
    return;
  }
  throw core::ProgramError("the configuration has no key '" + path + "' to record.");
}

Config load_resolved(const std::filesystem::path& file, const Settings& sets) {
  Tree tree;
  tree.document = parse_config_text(read_config_file(file), file.string());
  tree.document.root = strip(tree.document.root, "", tree);
  return finish(std::move(tree), sets, 0, run_name(file.string()));
}

}  // namespace zrt::runtime
