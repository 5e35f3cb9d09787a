#include "models/llama/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

// Older files have "rope_theta" and "rope_scaling", newer ones "rope_parameters", some both.
constexpr const char* rope_blocks[] = {"rope_scaling", "rope_parameters"};
constexpr std::string_view rope_stretch[] = {"factor", "low_freq_factor", "high_freq_factor",
                                             "original_max_position_embeddings"};

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

void refuse_odd_keys(const OrderedJson& block, const Rope& rope, const std::string& name) {
  for (const auto& [word, value] : block.items()) {
    if (value.is_object()) {
      refuse_config(name,
                    fmt::format("'{}' is {}, a description for each type of layer; zrt's layers all have the same "
                                "rotary positions",
                                rope.key, block.dump()));
    }
    const bool stretches = std::find(std::begin(rope_stretch), std::end(rope_stretch), word) != std::end(rope_stretch);
    if (word == "rope_type" || word == "type" || word == "rope_theta" || (stretches && rope.type != "default"))
      continue;
    if (word == "partial_rotary_factor" && value == 1) continue;
    refuse_config(name, fmt::format("'{}.{}' is {}, with which zrt does not compute positions of type '{}'", rope.key,
                                    word, value.dump(), rope.type));
  }
}

// `sequence`: where the block does not say which sequences the network was first trained on, all of them.
Rope read_block(const OrderedJson& config, const char* key, int64_t sequence, const std::string& name) {
  const OrderedJson& block = config.at(key);
  if (!block.is_object()) refuse_config(name, fmt::format("'{}' is {}; legal is an object", key, block.dump()));
  Rope rope{.type = type_of_block(block, key, name), .key = key};
  const double beside = number(config, "rope_theta", rope.theta, name);
  rope.theta = number(block, "rope_theta", beside, name);
  if (config.contains("rope_theta") && rope.theta != beside) {
    refuse_config(name, fmt::format("'rope_theta' is {} and '{}.rope_theta' is {}; keep the right one",
                                    config.at("rope_theta").dump(), key, block.at("rope_theta").dump()));
  }
  if (rope.type != "default" && rope.type != "llama3") return rope;
  refuse_odd_keys(block, rope, name);
  if (rope.type == "default") return rope;
  for (const std::string_view word : rope_stretch) {
    const std::string each(word);
    if (block.contains(each)) {
      number(block, each.c_str(), 0, name);
      rope.stretch[each] = block.at(each);
    } else if (word == "original_max_position_embeddings") {
      rope.stretch[each] = sequence;
    } else {
      refuse_config(name, fmt::format("'{}' is of type 'llama3' and has no '{}'", key, word));
    }
  }
  return rope;
}

Rope read_rope(const OrderedJson& config, int64_t sequence, const std::string& name) {
  std::vector<Rope> said;
  for (const char* key : rope_blocks) {
    if (is_stated(config, key)) said.push_back(read_block(config, key, sequence, name));
  }
  if (said.empty()) return {.type = "default", .theta = number(config, "rope_theta", 10000, name), .key = "rope_theta"};
  const Rope &one = said.front(), &other = said.back();
  if (one.type != other.type || one.theta != other.theta || one.stretch != other.stretch) {
    refuse_config(name, fmt::format("'{}' is {} and '{}' is {}, which are different positions; keep the right one. "
                                    "Without a 'rope_theta' of its own each has {}",
                                    one.key, config.at(one.key).dump(), other.key, config.at(other.key).dump(),
                                    number(config, "rope_theta", 10000, name)));
  }
  return one;
}

std::optional<std::string> llama_parameter_name(const OrderedJson&, const std::string& tensor) {
  return tensor.ends_with("rotary_emb.inv_freq") ? std::nullopt : std::optional(tensor);
}

constexpr SecondName llama_second_names[] = {{"lm_head.weight", "model.embed_tokens.weight", true}};

}  // namespace

void write_llama_keys(const OrderedJson& model, OrderedJson& config) {
  config["rms_norm_eps"] = model.at("rms_norm_eps");
  config["hidden_act"] = "silu";
  config["rope_theta"] = model.at("rope_theta");
}

namespace {

// The list is harmless if every layer has full attention.
void check_layer_types(const OrderedJson& config, const std::string& name, const OrderedJson& model) {
  const auto types = config.find("layer_types");
  if (types == config.end() || types->is_null()) return;
  if (!types->is_array()) refuse_config(name, fmt::format("'layer_types' is {}; legal is a list", types->dump()));
  for (const OrderedJson& type : *types) {
    if (type.is_string() && type.get_ref<const std::string&>() == "full_attention") continue;
    refuse_config(name, fmt::format("'layer_types' has {}; zrt has layers of \"full_attention\" only", type.dump()));
  }
  const auto layers = model.at("layers").get<int64_t>();
  if (static_cast<int64_t>(types->size()) == layers) return;
  refuse_config(name, fmt::format("'layer_types' has {} entries, but 'num_hidden_layers' is {}; correct the wrong one",
                                  types->size(), layers));
}

}  // namespace

Rope read_llama_keys(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  check_layer_types(config, name, model);
  model["rms_norm_eps"] = number(config, "rms_norm_eps", 1e-6, name);  // transformers' default, not zrt's
  const Rope rope = read_rope(config, model.at("sequence"), name);
  model["rope_theta"] = rope.theta;
  return rope;
}

void refuse_rope_type(const Rope& rope, const char* legal, const std::string& name) {
  refuse_config(name, fmt::format("'{}' is of type '{}'; legal is {}", rope.key, rope.type, legal));
}

HuggingFaceForm llama_form(std::vector<const char*> architectures, std::span<const SizeKey> sizes,
                           std::span<const ConfigKey> keys, decltype(HuggingFaceForm::write) write,
                           decltype(HuggingFaceForm::read) read) {
  return {.architectures = std::move(architectures),
          .sizes = sizes,
          .keys = keys,
          .second_names = llama_second_names,
          .write = write,
          .read = read,
          .tensor_name = [](const std::string& parameter) { return parameter; },
          .parameter_name = llama_parameter_name};
}

}  // namespace zrt::models
