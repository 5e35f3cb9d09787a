#include "models/llama/rope_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/keys/text.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key section_key[] = {
    key("rope_scaling", t_object, "null",
        "How rotary positions are stretched beyond the sequences that the network was first trained on; named as "
        "in Hugging Face's config.json."),
};

// Named and meant as in Hugging Face's config.json.
constexpr Key scaling_keys[] = {
    key("rope_type", t_text | t_null, "null", one_of("default llama3 linear dynamic yarn"), Effect::results,
        "How positions are stretched; null or default: not at all."),
    key("factor", t_real | t_null, "null", between(1, 1e6), Effect::results,
        "How often the longest waves are stretched; null: 8."),
    key("low_freq_factor", t_real | t_null, "null", between(1e-6, 1e6), Effect::results,
        "For llama3: waves longer than the original positions divided by this are stretched in full; null: 1."),
    key("high_freq_factor", t_real | t_null, "null", between(1e-6, 1e6), Effect::results,
        "For llama3: waves shorter than the original positions divided by this are not stretched; null: 4."),
    key("original_max_position_embeddings", t_int | t_null, "null", between(1, 1 << 24), Effect::results,
        "Tokens of the sequences that the network was first trained on, of all but linear; null: of llama3 8192, else "
        "model.sequence."),
    key("beta_fast", t_real | t_null, "null", between(1e-6, 1e6), Effect::results,
        "For yarn: waves that turn more often within the original positions are not stretched; null: 32."),
    key("beta_slow", t_real | t_null, "null", between(1e-6, 1e6), Effect::results,
        "For yarn: waves that turn less often within the original positions are stretched in full; null: 1."),
    key("truncate", t_bool | t_null, "null", {}, Effect::results,
        "For yarn: whether the bounds between which waves are stretched in part are whole numbers of pairs; null: "
        "true."),
    key("attention_factor", t_real | t_null, "null", between(1e-3, 1e3), Effect::results,
        "For yarn: what cosines and sines are multiplied by; null: 0.1 ln(factor) + 1, or what mscale says."),
    key("mscale", t_real | t_null, "null", between(1e-6, 1e3), Effect::results,
        "For yarn, with mscale_all_dim: the attention factor is 0.1 mscale ln(factor) + 1, divided by the same with "
        "mscale_all_dim; null: neither."),
    key("mscale_all_dim", t_real | t_null, "null", between(1e-6, 1e3), Effect::results,
        "For yarn: see mscale; null: neither."),
};

struct NamedRule {
  std::string_view name;
  RopeScaling::Rule rule;
};
constexpr NamedRule rules[] = {{"default", RopeScaling::Rule::none},
                               {"llama3", RopeScaling::Rule::llama3},
                               {"linear", RopeScaling::Rule::linear},
                               {"dynamic", RopeScaling::Rule::dynamic},
                               {"yarn", RopeScaling::Rule::yarn}};

struct Reads {
  std::string_view key;
  std::array<std::string_view, 4> rules;
};
constexpr Reads reads[] = {
    {"factor", {"llama3", "linear", "dynamic", "yarn"}},
    {"low_freq_factor", {"llama3"}},
    {"high_freq_factor", {"llama3"}},
    {"original_max_position_embeddings", {"llama3", "dynamic", "yarn"}},
    {"beta_fast", {"yarn"}},
    {"beta_slow", {"yarn"}},
    {"truncate", {"yarn"}},
    {"attention_factor", {"yarn"}},
    {"mscale", {"yarn"}},
    {"mscale_all_dim", {"yarn"}},
};

std::string path_of(std::string_view key) {
  return fmt::format("model.rope_scaling.{}", key);
}

void refuse_keys_of_other_rules(const Values& values, const std::string& type) {
  for (const Reads& each : reads) {
    if (values.is_null(path_of(each.key)) || rope_rule_reads(type, each.key)) continue;
    std::vector<std::string> names;
    for (const std::string_view rule : each.rules) {
      if (!rule.empty()) names.push_back(fmt::format("\"{}\"", rule));
    }
    values.check([&] {
      refuse(values.at(path_of(each.key)), "has no effect without " + path_of("rope_type") + " = " +
                                               join(names, " or ") + ". Set it, or remove this.");
    });
  }
}

// Refuses a factor of yarn's attention that is said by halves or twice.
void refuse_half_a_scale(const Values& values) {
  const auto given = [&](const char* key) { return !values.is_null(path_of(key)); };
  for (const auto& [one, other] : {std::pair{"mscale", "mscale_all_dim"}, {"mscale_all_dim", "mscale"}}) {
    if (!given(one)) continue;
    if (!given(other)) {
      refuse(values.at(path_of(one)), "has no effect without " + path_of(other) + ". Give both, or neither.");
    }
    if (given("attention_factor")) {
      refuse(values.at(path_of(one)),
             "has no effect beside " + path_of("attention_factor") + ", which says the same. Remove one of them.");
    }
  }
}

}  // namespace

std::span<const Key> rope_section_key() {
  return section_key;
}

std::span<const Key> rope_scaling_keys() {
  return scaling_keys;
}

bool rope_rule_reads(std::string_view rope_type, std::string_view key) {
  return std::any_of(std::begin(reads), std::end(reads), [&](const Reads& each) {
    return each.key == key && std::find(each.rules.begin(), each.rules.end(), rope_type) != each.rules.end();
  });
}

RopeScaling read_rope_scaling(Values& values, int64_t sequence) {
  if (values.is_null(path_of("rope_type"))) values.infer(path_of("rope_type"), "default");
  const std::string type = values.choice(path_of("rope_type"));
  refuse_keys_of_other_rules(values, type);
  RopeScaling scaling;
  scaling.rule =
      std::find_if(std::begin(rules), std::end(rules), [&](const NamedRule& each) { return each.name == type; })->rule;
  const auto read = [&](const char* key, double& number, double fallback) {
    if (!rope_rule_reads(type, key)) return;
    if (values.is_null(path_of(key))) values.infer(path_of(key), fallback);
    number = values.real(path_of(key));
  };
  read("factor", scaling.factor, 8);
  read("low_freq_factor", scaling.low_freq_factor, scaling.low_freq_factor);
  read("high_freq_factor", scaling.high_freq_factor, scaling.high_freq_factor);
  read("beta_fast", scaling.beta_fast, scaling.beta_fast);
  read("beta_slow", scaling.beta_slow, scaling.beta_slow);
  if (const char* positions = "original_max_position_embeddings"; rope_rule_reads(type, positions)) {
    const bool llama3 = scaling.rule == RopeScaling::Rule::llama3;
    if (values.is_null(path_of(positions))) {
      values.infer(path_of(positions), llama3 ? scaling.original_positions : sequence);
    }
    scaling.original_positions = values.integer(path_of(positions));
  }
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    refuse(values.at(path_of("high_freq_factor")),
           "must be larger than low_freq_factor = " + printed(scaling.low_freq_factor) + ".");
  }
  if (scaling.rule != RopeScaling::Rule::yarn) return scaling;
  if (scaling.beta_fast < scaling.beta_slow) {
    refuse(values.at(path_of("beta_fast")),
           "must not be below beta_slow = " + printed(scaling.beta_slow) + ", as waves that turn more often stay.");
  }
  if (values.is_null(path_of("truncate"))) values.infer(path_of("truncate"), true);
  scaling.truncate = values.flag(path_of("truncate"));
  refuse_half_a_scale(values);
  if (!values.is_null(path_of("attention_factor"))) scaling.attention_factor = values.real(path_of("attention_factor"));
  if (values.is_null(path_of("mscale"))) return scaling;
  scaling.mscale = values.real(path_of("mscale"));
  scaling.mscale_all_dim = values.real(path_of("mscale_all_dim"));
  return scaling;
}

}  // namespace zrt::models
