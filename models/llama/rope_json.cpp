#include "models/llama/rope_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/hugging_face.h"
#include "models/llama/rope_scaling.h"

namespace zrt::models {
namespace {

// Older files have "rope_theta" and "rope_scaling", newer ones "rope_parameters", some both.
constexpr const char* rope_blocks[] = {"rope_scaling", "rope_parameters"};
constexpr const char* positions = "original_max_position_embeddings";

struct Rope {
  std::string type;  // "default": not stretched
  double theta = 10000;
  OrderedJson stretch = OrderedJson::object();  // its numbers, by the names of zrt's keys
  std::string key;                              // that describes it
};

struct File {
  const OrderedJson& config;
  const std::string& name;
  int64_t sequence;
};

bool is_stated(const OrderedJson& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null() && !(found->is_object() && found->empty());
}

std::string type_of_block(const OrderedJson& block, const std::string& key, const std::string& name) {
  const std::string type = text(block, "rope_type", text(block, "type", "default", name), name);
  if (block.contains("type") && block.at("type") != type) {
    refuse_config(name, fmt::format("'{}' has the rope_type '{}' and the type {}; keep the right one", key, type,
                                    block.at("type").dump()));
  }
  return type;
}

// The positions of "dynamic" are the file's max_position_embeddings alone.
bool block_has(const std::string& type, std::string_view word) {
  return rope_rule_reads(type, word) && !(type == "dynamic" && word == positions);
}

void refuse_odd_keys(const OrderedJson& block, const Rope& rope, const std::string& name) {
  for (const auto& [word, value] : block.items()) {
    if (value.is_object()) {
      refuse_config(name,
                    fmt::format("'{}' is {}, a description for each type of layer; zrt's layers all have the same "
                                "rotary positions",
                                rope.key, block.dump()));
    }
    if (word == "rope_type" || word == "type" || word == "rope_theta" || block_has(rope.type, word)) continue;
    if (word == "partial_rotary_factor" && value == 1) continue;
    refuse_config(name, fmt::format("'{}.{}' is {}, with which zrt does not compute positions of type '{}'", rope.key,
                                    word, value.dump(), rope.type));
  }
}

// A number that may be left out; where transformers takes zero for that, too, it is nothing.
void read_open(const OrderedJson& block, const char* word, bool zero_is_none, Rope& rope, const std::string& name) {
  const auto found = block.find(word);
  if (found == block.end() || found->is_null()) return;
  if (number(block, word, 0, name) == 0 && zero_is_none) return;
  rope.stretch[word] = *found;
}

void read_yarn(const OrderedJson& block, Rope& rope, const std::string& name) {
  rope.stretch["beta_fast"] = 32.0, rope.stretch["beta_slow"] = 1.0;
  read_open(block, "beta_fast", true, rope, name);
  read_open(block, "beta_slow", true, rope, name);
  rope.stretch["truncate"] = flag(block, "truncate", true, name);
  read_open(block, "attention_factor", false, rope, name);
  read_open(block, "mscale", true, rope, name);
  read_open(block, "mscale_all_dim", true, rope, name);
  // Both count or neither, and neither beside a factor that is said.
  const bool counts = rope.stretch.contains("mscale") && rope.stretch.contains("mscale_all_dim");
  if (counts && !rope.stretch.contains("attention_factor")) return;
  rope.stretch.erase("mscale"), rope.stretch.erase("mscale_all_dim");
}

Rope read_block(const File& file, const char* key) {
  const OrderedJson &config = file.config, &block = config.at(key);
  const std::string& name = file.name;
  if (!block.is_object()) refuse_config(name, fmt::format("'{}' is {}; legal is an object", key, block.dump()));
  Rope rope{.type = type_of_block(block, key, name), .key = key};
  const double beside = number(config, "rope_theta", rope.theta, name);
  rope.theta = number(block, "rope_theta", beside, name);
  if (config.contains("rope_theta") && rope.theta != beside) {
    refuse_config(name, fmt::format("'rope_theta' is {} and '{}.rope_theta' is {}; keep the right one",
                                    config.at("rope_theta").dump(), key, block.at("rope_theta").dump()));
  }
  if (rope.type != "default" && !rope_rule_reads(rope.type, "factor")) return rope;
  refuse_odd_keys(block, rope, name);
  for (const char* word : {"factor", "low_freq_factor", "high_freq_factor"}) {
    if (!rope_rule_reads(rope.type, word)) continue;
    if (!block.contains(word)) {
      refuse_config(name, fmt::format("'{}' is of type '{}' and has no '{}'", key, rope.type, word));
    }
    number(block, word, 0, name);
    rope.stretch[word] = block.at(word);
  }
  // A block that does not say which sequences the network was first trained on means all of them.
  if (rope_rule_reads(rope.type, positions)) {
    number(block, positions, 0, name);
    rope.stretch[positions] = block.contains(positions) ? block.at(positions) : OrderedJson(file.sequence);
  }
  if (rope.type == "yarn") read_yarn(block, rope, name);
  return rope;
}

Rope read_places(const File& file) {
  const double theta = number(file.config, "rope_theta", 10000, file.name);
  std::vector<Rope> said;
  for (const char* key : rope_blocks) {
    if (is_stated(file.config, key)) said.push_back(read_block(file, key));
  }
  if (said.empty()) return {.type = "default", .theta = theta, .key = "rope_theta"};
  const Rope &one = said.front(), &other = said.back();
  if (one.type != other.type || one.theta != other.theta || one.stretch != other.stretch) {
    refuse_config(
        file.name,
        fmt::format("'{}' is {} and '{}' is {}, which are different positions; keep the right one. "
                    "Without a 'rope_theta' of its own each has {}",
                    one.key, file.config.at(one.key).dump(), other.key, file.config.at(other.key).dump(), theta));
  }
  return one;
}

}  // namespace

void read_rope(const OrderedJson& config, const std::string& name, OrderedJson& model,
               const std::vector<std::string_view>& legal) {
  const Rope rope = read_places({config, name, model.at("sequence")});
  if (std::find(legal.begin(), legal.end(), rope.type) == legal.end()) {
    refuse_config(name, fmt::format("'{}' is of type '{}', which zrt does not compute; legal is {}", rope.key,
                                    rope.type, fmt::join(legal, " or ")));
  }
  model["rope_theta"] = rope.theta;
  if (rope.type == "default") return;
  model["rope_scaling"] = {{"rope_type", rope.type}};
  model["rope_scaling"].update(rope.stretch);
}

void write_rope(const OrderedJson& model, OrderedJson& config) {
  config["rope_theta"] = model.at("rope_theta");
  const auto value = [&](const char* word) { return model.value(std::string("rope_scaling.") + word, OrderedJson()); };
  const std::string type = value("rope_type").is_null() ? "default" : value("rope_type").get<std::string>();
  if (type == "default") return;
  config["rope_scaling"]["rope_type"] = type;
  for (const core::keys::Key& key : rope_scaling_keys()) {
    if (block_has(type, key.name) && !value(key.name).is_null()) config["rope_scaling"][key.name] = value(key.name);
  }
  if (type == "dynamic") config["max_position_embeddings"] = value(positions);
}

}  // namespace zrt::models
