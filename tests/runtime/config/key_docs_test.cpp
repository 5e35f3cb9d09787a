// The key table says something of each key, and what it calls legal is what is accepted.
#include "runtime/config/key_docs.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/spec.h"
#include "runtime/config/key_table.h"
#include "runtime/config/tree.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::key_docs_test {

using namespace zrt::runtime;
using namespace zrt::runtime::configuration;
using nlohmann::json;

namespace {

// The first type of model that a key is of alone; null: every type has it, or it is no model's.
const models::ModelSpec* owner_of(const std::string& path, const std::string& name) {
  for (const models::ModelSpec* spec : models::model_specs()) {
    for (const Section& own : spec->sections) {
      if (own.path == path && find_key(own, name) != nullptr) return spec;
    }
  }
  return nullptr;
}

// A configuration in which the keys of `section` are read.
json base(const Section& section, const Key& key) {
  json text = {{"train_micro_batch_size_per_gpu", 2}, {"model", {{"preset", "gpt2-tiny"}}}};
  const std::string path = section.path, variant = section.variant, name = key.name;
  if (name == "train_micro_batch_size_per_gpu") text = {{"model", text["model"]}, {"train_batch_size", 4}};
  if (path == "fp16") text["fp16"]["enabled"] = true;
  if (path == "optimizer.params") text["optimizer"]["type"] = type_of_variant(variant);
  if (variant == "adafactor" && name == "lr") text["optimizer"]["params"]["relative_step"] = false;
  if (path == "scheduler.params") text["scheduler"] = {{"type", variant}, {"params", json::object()}};
  if (variant == "WarmupDecayLR" || variant == "WarmupCosineLR") text["scheduler"]["params"]["total_num_steps"] = 2000;
  if (variant == "warmup_stable_decay") text["scheduler"]["params"] = {{"num_decay_steps", 20}};
  if (variant == "cosine_with_min_lr" && name != "min_lr_rate") text["scheduler"]["params"] = {{"min_lr_rate", 0.1}};
  if (variant == "cosine_with_min_lr" && name == "min_lr") text["scheduler"]["params"] = json::object();
  if (variant == "OneCycle") text["scheduler"]["params"] = {{"cycle_min_lr", 1e-4}, {"cycle_max_lr", 1e-3}};
  if (const models::ModelSpec* owner = owner_of(path, name)) text["model"]["preset"] = owner->presets.at(0).name;
  if (path == "sparse_attention" && name != "mode") {
    const bool leading = name.rfind("global_block", 0) == 0, sliding = name == "num_sliding_window_blocks";
    text["sparse_attention"] = {{"mode", leading ? "bslongformer" : sliding ? "local_sliding_window" : "fixed"}};
  }
  if (path.starts_with("pseudo_to_real") && name != "groups") text["pseudo_to_real"]["groups"] = 1;
  if (name == "plateau_gain") text["pseudo_to_real"]["delink"]["plateau_steps"] = 10;
  if (path == "model.rope_scaling") {
    json& scaling = text["model"]["rope_scaling"];
    const bool llama3 = name == "low_freq_factor" || name == "high_freq_factor";
    scaling["rope_type"] = llama3 ? "llama3" : "yarn";
    if (name == "mscale") scaling["mscale_all_dim"] = 1.0;
    if (name == "mscale_all_dim") scaling["mscale"] = 1.0;
    if (name == "beta_fast") scaling["beta_slow"] = 1e-6;
    if (name == "beta_slow") scaling["beta_fast"] = 1e6;
  }
  return text;
}

// Returns what is said about a value; "" means nothing.
std::string said(const Section& section, const Key& key, const json& value) {
  json text = base(section, key);
  json* node = &text;
  if (*section.path != '\0') {
    for (const std::string& part : split_path(section.path)) node = &(*node)[part];
  }
  (*node)[key.name] = value;
  std::string error;
  try {
    parse_config(text.dump(), "ds.json", {}, 1);
  } catch (const core::ConfigError& thrown) {
    error = thrown.what();
  }
  const std::string start = key_path(section, key.name) + " = " + value.dump() + " (ds.json:1) ";
  const size_t at = error.find(start);
  return at == std::string::npos ? "" : error.substr(at + start.size(), error.find('\n', at) - at - start.size());
}

bool refused_as_illegal(const std::string& text) {
  for (const char* start : {"is out of range", "has the wrong type", "must be 2 numbers", "must be 3 numbers",
                            "is not legal", "is no preset", "is not supported; legal"}) {
    if (text.starts_with(start)) return true;
  }
  return false;
}

template <class Check>
void for_every_key(Check check) {
  for (const Section& section : sections()) {
    for (const Key& key : section.keys) {
      INFO(section.path << " " << section.variant << " " << key.name);
      check(section, key);
    }
  }
}

}  // namespace

TEST_CASE("every key has a sentence about it, and every implemented one says what it changes") {
  size_t implemented_keys = 0;
  for (const SectionDoc& section : key_docs()) {
    INFO(section.path << " " << section.of);
    CHECK(section.help.ends_with("."));
    for (const KeyDoc& key : section.keys) {
      INFO(key.path);
      CHECK(key.help.size() > 10);
      CHECK(key.help.ends_with("."));
      CHECK_FALSE(key.legal.empty());
      if (key.handling != "implemented" || key.section) continue;
      CHECK_FALSE(key.changes.empty());
      ++implemented_keys;
    }
  }
  CHECK(implemented_keys > 140);
  // A note alone says why, not what for.
  for_every_key(
      [](const Section&, const Key& key) { CHECK((key.handling != Handling::implemented || *key.help != '\0')); });
}

TEST_CASE("of numbers those are refused that the table calls illegal, and no others for their size") {
  size_t tried = 0;
  for_every_key([&](const Section& section, const Key& key) {
    const bool whole = (key.types & t_int) != 0;
    const double low = (key.types & t_natural) != 0 ? 0 : key.legal.low, high = key.legal.high;
    if (key.handling != Handling::implemented || low == -infinity) return;
    const auto value = [&](double number, int step) {
      const json one = whole ? json(static_cast<int64_t>(number) + step)
                             : json(step == 0 ? number : std::nextafter(number, step * infinity));
      if ((key.types & t_list) == 0 || (key.types & t_real) != 0) return one;
      return json(json::parse(key.fallback).size(), one);
    };
    const auto refused = [&](double number, int step) {
      const std::string text = said(section, key, value(number, step));
      INFO(value(number, step).dump() << " " << text);
      return refused_as_illegal(text);
    };
    CHECK(refused(low, -1));
    CHECK_FALSE(refused(low, 0));
    ++tried;
    if (high == infinity) return;
    CHECK(refused(high, key.legal.below ? 0 : 1));
    CHECK_FALSE(refused(high, key.legal.below ? -1 : 0));
  });
  CHECK(tried > 70);
}

TEST_CASE("of texts those are refused that the table does not list, and the message lists them") {
  size_t tried = 0;
  for_every_key([&](const Section& section, const Key& key) {
    if (*key.legal.choices == '\0') return;
    const std::string text = said(section, key, "nonsense");
    INFO(text);
    CHECK(refused_as_illegal(text));
    for (const std::string& choice : choices_of(key)) {
      INFO(choice);
      CHECK(has(text, choice));
      CHECK_FALSE(refused_as_illegal(said(section, key, choice)));
    }
    ++tried;
  });
  CHECK(tried >= 20);
}

TEST_CASE("a key is found by its path and its other name, and what is misspelt by its neighbours") {
  CHECK(find_key_docs("run.steps").size() == 1);
  CHECK(find_key_docs("optimizer.params.lr").size() >= 4);
  REQUIRE(find_key_docs("zero_optimization.max_live_parameters").size() == 1);
  CHECK(find_key_docs("zero_optimization.max_live_parameters")[0].name == "stage3_max_live_parameters");
  CHECK(find_key_docs("steps").empty());
  CHECK(has(suggest_path("steps"), "run.steps"));
  CHECK(has(suggest_path("run.stesp"), "run.steps"));
  CHECK(find_key_docs("model.kv_heads").at(0).of.starts_with("model.type llama, qwen2, qwen3, phi3"));
  CHECK(find_key_docs("model.layers").at(0).of.empty());
}

}  // namespace zrt::key_docs_test
