#include "models/experts_keys.h"

#include "core/keys/text.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key experts_section[] = {
    key("experts", t_object, "null",
        "Experts in place of the feed-forward part of layers, of which a router picks some for each token."),
};

constexpr Key expert_keys[] = {
    key("number", t_int | t_null, "null", between(1, 1 << 20), Effect::results,
        "Experts of a layer; null: of mixtral 8, of qwen3_moe 128, of others none."),
    key("ffn", t_int | t_null, "null", between(1, 1 << 22), Effect::results,
        "Elements between the two layers of an expert; null: model.ffn, of gpt2 four times model.hidden."),
    key("top_k", t_int | t_null, "null", between(1, 1 << 20), Effect::results,
        "Experts that the router picks for a token; null: 1 where prototypes is said, else of mixtral 2, of qwen3_moe "
        "8, of others 1."),
    key("prototypes", t_int, "1", between(1, 1 << 20), Effect::results,
        "Equal groups of experts, each of which picks one for every token (M6-T's expert prototyping)."),
    key("capacity_factor", t_real | t_null, "null", between(1e-3, 1e6), Effect::results,
        "While training, an expert takes this times an even share of a microbatch's picks, rounded up; what is beyond "
        "goes on without it. null: experts take all."),
    key("norm_topk_prob", t_bool | t_null, "null", {}, Effect::results,
        "Whether a token's gates add up to 1, as if the softmax were over its experts alone. With top_k = 1 gates are "
        "then 1 and the router learns from its own losses alone. null: true where top_k is more than 1."),
    key("aux_loss", t_real, "0.0", between(0, 1e6), Effect::results,
        "Weight of the loss that evens out experts: in each layer and microbatch, the mean over prototypes of their "
        "experts / top_k times the sum over these of share of tokens times mean probability, which is 1 where all are "
        "alike."),
    key("z_loss", t_real, "0.0", between(0, 1e6), Effect::results,
        "Weight of the mean over tokens and prototypes of the square of the logarithm of the sum of exponentials of "
        "the router's logits."),
    key("shared", t_int, "0", between(0, 1 << 20), Effect::results,
        "Experts that every token is computed with beside those that the router picks, without a gate: one "
        "feed-forward "
        "part of this times ffn elements, whose output is added. mixtral and qwen3_moe have none."),
    key("every", t_int, "1", between(1, 1 << 20), Effect::results,
        "Every so many layers the last one has experts; the others have one feed-forward part."),
};

std::string experts_path(const char* key) {
  return std::string("model.experts.") + key;
}

}  // namespace

std::span<const Key> experts_section_key() {
  return experts_section;
}

std::span<const Key> experts_keys() {
  return expert_keys;
}

Experts read_experts(Values& values, const ExpertDefaults& defaults) {
  Experts experts;
  if (values.is_null(experts_path("number"))) {
    if (defaults.number == 0) {
      for (const Key& each : expert_keys) {
        if (!values.given(experts_path(each.name)) || values.is_null(experts_path(each.name))) continue;
        if ((each.types & t_int) != 0) values.integer(experts_path(each.name));  // checks the range
        if ((each.types & t_real) != 0) values.real(experts_path(each.name));
        refuse(values.at(experts_path(each.name)),
               "has no effect without " + experts_path("number") + ". Set it, or remove this.");
      }
      return experts;
    }
    values.infer(experts_path("number"), defaults.number);
  }
  const auto open = [&](const char* key, const nlohmann::json& fallback) {
    if (values.is_null(experts_path(key))) values.infer(experts_path(key), fallback);
  };
  experts.number = values.integer(experts_path("number"));
  experts.prototypes = values.integer(experts_path("prototypes"));
  open("ffn", defaults.ffn);
  open("top_k", values.given(experts_path("prototypes")) ? 1 : defaults.top_k);
  experts.ffn = values.integer(experts_path("ffn")), experts.top_k = values.integer(experts_path("top_k"));
  open("norm_topk_prob", experts.top_k > 1);
  experts.normalised = values.flag(experts_path("norm_topk_prob"));
  experts.every = values.integer(experts_path("every")), experts.shared = values.integer(experts_path("shared"));
  if (!values.is_null(experts_path("capacity_factor")))
    experts.capacity_factor = values.real(experts_path("capacity_factor"));
  experts.aux_loss = values.real(experts_path("aux_loss")), experts.z_loss = values.real(experts_path("z_loss"));
  const std::string number = std::to_string(experts.number);
  if (experts.number % experts.prototypes != 0) {
    refuse(values.at(experts_path("prototypes")), "does not divide " + experts_path("number") + " = " + number +
                                                      ", so groups would differ in size. Try a divisor of it.");
  }
  if (experts.shared > 0 && !defaults.shared) {
    refuse(values.at(experts_path("shared")),
           "is more than 0, but files of models of this type have no place for experts of all tokens. Set it to 0, or "
           "take model.type gpt2.");
  }
  if (experts.every > defaults.layers) {
    refuse(values.at(experts_path("every")), "is more than model.layers = " + std::to_string(defaults.layers) +
                                                 ", so no layer would have experts. Try a smaller number.");
  }
  if (const Value* fp8 = values.find("fp8.enabled"); fp8 != nullptr && fp8->value == true) {
    refuse(*fp8, "does not go with experts yet: their products round no operands. Set it to false.");
  }
  if (experts.prototypes > 1 && experts.top_k > 1) {
    refuse(values.at(experts_path("top_k")), "does not go with " + experts_path("prototypes") + " = " +
                                                 std::to_string(experts.prototypes) +
                                                 ": each prototype picks one expert. Remove one of them.");
  }
  if (experts.prototypes > 1 && experts.normalised) {
    refuse(values.at(experts_path("norm_topk_prob")),
           "makes every gate 1, as each prototype picks one expert. Set it to false, or remove it.");
  }
  if (experts.choices() > experts.number) {
    refuse(values.at(experts_path("top_k")), "is more than " + experts_path("number") + " = " + number + ".");
  }
  return experts;
}

}  // namespace zrt::models
