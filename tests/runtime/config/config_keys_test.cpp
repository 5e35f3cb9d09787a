#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/keys/values.h"
#include "optimizer/spec.h"
#include "runtime/config/key_table.h"
#include "runtime/config/resolve.h"
#include "runtime/config/tree.h"
#include "tests/data_folder.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_keys_test {

using namespace zrt::runtime;
using namespace zrt::runtime::configuration;
using nlohmann::json;

namespace {

const json& golden() {
  static const json data = [] {
    std::ifstream file(zrt::test::data_folder() + "/deepspeed_keys.json");
    return json::parse(file);
  }();
  return data;
}

// "optimizer.params (lamb)" is the variant lamb of optimizer.params.
const Section* section_of(const std::string& name) {
  const size_t open = name.find(" (");
  if (open == std::string::npos) return find_section(name == "<root>" ? "" : name);
  return find_section(name.substr(0, open), name.substr(open + 2, name.size() - open - 3));
}

Types types_of(const std::string& text) {
  static const std::map<std::string, Types> names{
      {"bool", t_bool},           {"int", t_int},          {"int enum", t_int},
      {"float", t_real},          {"string", t_text},      {"enum", t_text},
      {"path", t_text},           {"dtype", t_text},       {"list", t_list},
      {"list of string", t_list}, {"list of int", t_list}, {"[float,float]", t_list},
      {"tuple", t_list},          {"object", t_object},    {"null", t_null},
      {"\"auto\"", t_auto},       {"any", t_any},          {"-", t_never}};
  Types types = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('|', begin), text.size());
    types = static_cast<Types>(types | names.at(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return types;
}

// The object at a section's path, made where it is missing.
json& node_at(json& root, const std::string& path) {
  json* node = &root;
  if (path.empty()) return *node;
  for (const std::string& part : split_path(path)) node = &(*node)[part];
  return *node;
}

// Placeholders of the golden file for keys without a default.
bool no_default(const json& value) {
  return value.is_string() && (value.get<std::string>().starts_with("(") || value == "three HF MoE block classes");
}

}  // namespace

TEST_CASE("every key of DeepSpeed is known with its types, default and aliases") {
  REQUIRE(golden()["keys"].size() == 459);
  REQUIRE(golden()["sections"].size() == 58);
  for (const json& row : golden()["sections"]) {
    INFO(row.dump());
    const Section* section = section_of(row["section"]);
    REQUIRE(section != nullptr);
    CHECK((section->parser == Parser::strict) == (row["parser"] == "strict"));
    CHECK(section->parser != Parser::own);
  }
  for (const json& row : golden()["keys"]) {
    INFO(row.dump());
    const Section* section = section_of(row["section"]);
    REQUIRE(section != nullptr);
    const Key* key = find_key(*section, row["key"].get<std::string>());
    REQUIRE(key != nullptr);
    CHECK(key->name == row["key"]);
    const Types wanted = types_of(row["type"]), extra = t_natural | t_auto | t_old | t_any_case;
    CHECK((key->types & wanted) == wanted);
    CHECK((key->types & ~wanted & ~extra) == 0);
    if (row.contains("aliases")) {
      CHECK(row["aliases"] == json::array({key->alias}));
    } else {
      CHECK(key->alias == nullptr);
    }
    if (row["type"] == "-" || no_default(row["default"])) {
      // The length of the run, which DeepSpeed does not know.
      const bool length = row["key"] == "total_num_steps";
      CHECK((length ? key->fallback == std::string(R"("auto")") : key->fallback == nullptr));
      continue;
    }
    REQUIRE(key->fallback != nullptr);
    CHECK(json::parse(key->fallback) == row["default"]);
    // The class decides nothing about a default.
    CHECK((key->handling == Handling::implemented || harmless(*key, row["default"])));
  }
}

TEST_CASE("the table holds no key twice, and its JSON parses") {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Section& section : sections()) {
    for (const Key& key : section.keys) {
      const std::string path = key_path(section, key.name);
      INFO(path);
      // Only the variants of one section may repeat a name.
      CHECK(seen.emplace(path, path.find('.') == std::string::npos ? "" : section.variant).second);
      if (key.fallback != nullptr) CHECK(json::accept(key.fallback));
      if (key.harmless != nullptr) CHECK(json::parse(key.harmless).is_array());
      if (section.gate != nullptr) CHECK(find_key(section, section.gate) != nullptr);
      if (key.handling == Handling::refused && key.fallback == nullptr)
        CHECK((*key.note != '\0' || (key.types & t_object) != 0));
    }
  }
}

TEST_CASE("a file that gives every key its default loads, and asks for nothing") {
  // Sections whose presence is itself a request are refused by name instead, as are the parameters of optimizers and
  // schedulers that are not supported.
  const std::set<std::string> requests{"zero_optimization.zenflow", "zero_optimization.zeropp_loco_param",
                                       "checkpoint.writer"};
  int loaded = 0, requested = 0, other_types = 0;
  for (const json& row : golden()["keys"]) {
    INFO(row.dump());
    const Section* found = section_of(row["section"]);
    REQUIRE(found != nullptr);
    const Section& section = *found;
    if (row["type"] == "-" || no_default(row["default"])) continue;
    json text = {{"train_batch_size", 4}, {"model", {{"preset", "gpt2-tiny"}}}, {"optimizer", {{"type", "AdamW"}}}};
    const std::string path = section.path, variant = section.variant;
    if (path == "optimizer" || row["key"] == "optimizer") continue;  // without a type there is a word to say
    if (path == "optimizer.params") text["optimizer"]["type"] = type_of_variant(variant);
    if (variant == "muon") text["optimizer"]["params"] = {{"lr", 0.02}, {"muon_lr", 0.02}};  // it needs one of them
    if (path == "scheduler.params") text["scheduler"]["type"] = variant;
    if (variant == "WarmupDecayLR" || variant == "WarmupCosineLR") {
      text["scheduler"]["params"]["total_num_steps"] = 2000;
    }
    if (variant == "OneCycle") text["scheduler"]["params"] = {{"cycle_min_lr", 1e-4}, {"cycle_max_lr", 1e-3}};
    if (row["key"] != "train_batch_size") node_at(text, path)[row["key"].get<std::string>()] = row["default"];
    const auto load = [&] { return parse_config(text.dump(), "ds.json", {}, 1); };
    const bool other_type =
        path == "optimizer.params" && optimizer::find_optimizer_spec(type_of_variant(variant)) == nullptr;
    if (other_type || requests.count(path) != 0) {
      const std::string error = error_of(load);
      CHECK(error.find(other_type ? "optimizer.type" : path) != std::string::npos);
      ++(other_type ? other_types : requested);
      continue;
    }
    if (path == "sparse_attention" && row["key"] == "attention") {  // of another type of model than this one
      CHECK(has(error_of(load), "sparse_attention.attention = \"bidirectional\""));
      ++requested;
      continue;
    }
    const Config config = load();
    // An old name is named even so.
    const bool old = (find_key(section, row["key"].get<std::string>())->types & t_old) != 0;
    CHECK(config.warnings.empty() != old);
    ++loaded;
  }
  CHECK(loaded + requested + other_types > 440);
  CHECK(requested == 20);
}

TEST_CASE("every refused key refuses another value, and every inert key warns of it") {
  int behind_gates = 0;
  for (const Section& section : sections()) {
    const std::string path = section.path, variant = section.variant;
    if (path == "optimizer.params" && variant != "adam, adamw") continue;
    if (path == "scheduler.params") continue;
    for (const Key& key : section.keys) {
      if (key.handling == Handling::implemented || (key.types & t_object) != 0) continue;
      json other;
      for (const json& candidate : {json(true), json(false), json(7), json(0.25), json("other"), json::array({1, 2})}) {
        if (coerce(key.types & static_cast<Types>(~t_any), false, candidate) && !harmless(key, candidate)) {
          other = candidate;
        }
      }
      if ((key.types & (t_any | t_never)) != 0) other = true;
      if (other.is_null()) continue;
      INFO(key_path(section, key.name) << " = " << other.dump());
      json text = {{"train_batch_size", 4}, {"model", {{"preset", "gpt2-tiny"}}}, {"optimizer", {{"type", "AdamW"}}}};
      node_at(text, path)[key.name] = other;
      const auto load = [&] { return parse_config(text.dump(), "ds.json", {}, 1); };
      if (key.handling == Handling::refused) {
        const bool gated = section.gate != nullptr && std::string(section.gate) != key.name;
        if (gated) {
          // It asks for nothing behind a closed gate.
          CHECK(load().warnings.empty());
          node_at(text, path)[section.gate] = true;
          ++behind_gates;
        }
        const std::string error = error_of(load);
        CHECK(has(error, gated ? key_path(section, key.name) + " = " : path));
        CHECK(has(error, "ds.json"));
        if (error.find(std::string(key.name) + " = ") != std::string::npos) CHECK(has(error, other.dump()));
        continue;
      }
      if (path == "checkpoint.writer") continue;
      // A closed gate keeps quiet: the key does nothing in DeepSpeed either.
      const bool quiet = section.gate != nullptr && std::string(section.gate) != key.name;
      const Config config = load();
      CHECK(config.warnings.size() == (quiet ? 0u : (key.types & t_old) != 0 ? 2u : 1u));
      if (!quiet && !config.warnings.empty()) CHECK(has(config.warnings[0], key.name));
    }
  }
  CHECK(behind_gates == 11);
}

TEST_CASE("a file that divides experts as DeepSpeed does is told zrt's keys, and what zrt does not compute") {
  const auto load = [](const json& section) {
    const json text = {{"train_batch_size", 4},
                       {"model", {{"preset", "mixtral-tiny"}}},
                       {"optimizer", {{"type", "AdamW"}}},
                       {"expert_parallel", section}};
    return parse_config(text.dump(), "ds.json", {}, 1);
  };
  const auto error = [&](const json& section) { return error_of([&] { load(section); }); };
  const std::string two = error({{"enabled", true}, {"autoep_size", 4}, {"preset_model", "mixtral"}});
  CHECK(has(two, "expert_parallel.enabled = true (ds.json:1) is refused: parallel.expert"));
  CHECK(has(two, "expert_parallel.autoep_size = 4 (ds.json:1) is refused: parallel.expert"));
  CHECK(two.find("preset_model") == std::string::npos);
  CHECK(has(error({{"enabled", true}, {"top_k", 1}}),
            "expert_parallel.top_k = 1 (ds.json:1) is refused: model.experts.top_k"));
  // Values that zrt computes with are no cause to refuse, nor is anything behind a closed gate.
  const std::string plain = error({{"enabled", true},
                                   {"score_func", "softmax"},
                                   {"score_apply", "post"},
                                   {"has_shared_experts", false},
                                   {"top_k", "auto"}});
  CHECK(std::count(plain.begin(), plain.end(), '\n') <= 1);
  for (const json& closed :
       {json{{"autoep_size", 4}, {"score_func", "sigmoid"}}, json{{"enabled", false}, {"autoep_size", 4}}}) {
    CHECK(load(closed).warnings.empty());
  }
  CHECK(has(error({{"autoep_sise", 4}}), "unknown key 'expert_parallel.autoep_sise'"));
}

TEST_CASE("a number is an integer only when it is whole and fits 64 bits") {
  CHECK(coerce(t_int, false, 5e8) == json(500000000));
  CHECK(coerce(t_int, false, -0x1p63) == json(INT64_MIN));
  CHECK(!coerce(t_int, false, 0x1p63));
  CHECK(!coerce(t_int, false, static_cast<uint64_t>(INT64_MAX) + 1));
  CHECK(!coerce(t_int, false, 0.5));
  CHECK(!coerce(t_int, false, true));
  CHECK(coerce(t_int, true, true) == json(1));
  CHECK(!coerce(t_int, true, "99999999999999999999"));
}

}  // namespace zrt::config_keys_test
