// The section "pseudo_to_real": its keys, and what reads them.
#include <map>

#include "core/keys/text.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key pseudo_keys[] = {
    key("groups", t_int | t_list | t_null, "null", Effect::results,
        "Groups of consecutive layers that share their parameters: so many equal ones, or a list of their sizes; null: "
        "no layers share any."),
    key("private", t_text | t_list, R"(["norm"])", Effect::results,
        "Parameters that each layer keeps to itself: norm, bias, or patterns of names such as *.bias."),
    key("delink", t_object, "null", "When layers get parameters of their own."),
    key("optimizer", t_text, R"("copy")", one_of("copy reset rescale"), Effect::results,
        "What delinked layers get of the optimizer's states: those of the group, zeros, or those of the group divided "
        "by "
        "its layers (second moments by their square)."),
    key("lr_scale", t_real, "1.0", between(0, 1000), Effect::results,
        "What the learning rate is multiplied by after layers are delinked."),
    key("rewarm_steps", t_int, "0", between(0, most), Effect::results,
        "Steps after that in which the learning rate rises from 0 again."),
    key("batch_after", t_int | t_null, "null", between(1, most), Effect::results,
        "Samples of a step after layers are delinked, in place of train_batch_size; null: as many as before."),
};

constexpr Key delink_keys[] = {
    key("at_step", t_int | t_null, "null", between(1, most), Effect::results,
        "The last step with shared layers; null: layers share to the end, or until the plateau."),
    key("plateau_steps", t_int | t_null, "null", between(1, most), Effect::results,
        "Delink when the mean loss of so many steps is not below that of as many before by plateau_gain; null: do not "
        "look."),
    key("plateau_gain", t_real, "0.01", half_open(0, 1), Effect::results,
        "The share by which the mean loss must fall from one window of plateau_steps to the next."),
};

constexpr Section pseudo_table[] = {
    {"pseudo_to_real", "", Parser::own, "groups", pseudo_keys},
    {"pseudo_to_real.delink", "", Parser::own, nullptr, delink_keys},
};

std::vector<int64_t> read_groups(const Values& values, int64_t layers) {
  constexpr const char* path = "pseudo_to_real.groups";
  const Value& groups = values.at(path);
  std::vector<int64_t> sizes;
  if (groups.value.is_array()) {
    int64_t sum = 0;
    for (const nlohmann::json& size : groups.value) {
      const bool legal = size.is_number_integer() && size >= 1 && size <= layers;
      if (!legal) refuse(groups, "has the entry " + printed(size) + "; legal are sizes of groups, 1 and more.");
      sizes.push_back(size.get<int64_t>());
      sum += sizes.back();
    }
    if (sum != layers) {
      refuse(groups, "has " + std::to_string(sum) + " layers in all, but model.layers is " + std::to_string(layers) +
                         ". Give sizes whose sum is that.");
    }
    return sizes;
  }
  const int64_t count = values.integer(path);
  if (count < 1 || layers % count != 0) {
    std::vector<std::string> legal;
    for (int64_t divisor = 1; divisor <= layers && legal.size() < 16; ++divisor) {
      if (layers % divisor == 0) legal.push_back(std::to_string(divisor));
    }
    refuse(groups, "does not divide model.layers = " + std::to_string(layers) + ". Legal are " + join(legal) +
                       ", and lists of the sizes of groups.");
  }
  return std::vector<int64_t>(static_cast<size_t>(count), layers / count);
}

void read_private(const Values& values, PseudoToReal& rules) {
  const Value& value = values.at("pseudo_to_real.private");
  static const std::map<std::string, std::vector<std::string>> words{{"norm", {"*ln_*", "*norm*", "*LayerNorm*"}},
                                                                     {"bias", {"*.bias"}}};
  std::vector<std::string>& own = rules.sharing.own;
  const nlohmann::json list = value.value.is_array() ? value.value : nlohmann::json::array({value.value});
  for (const nlohmann::json& entry : list) {
    if (!entry.is_string() || entry.get<std::string>().empty()) {
      refuse(value, "has the entry " + printed(entry) + "; legal are norm, bias and patterns of names such as *.bias.");
    }
    const auto word = words.find(entry.get<std::string>());
    if (word != words.end()) {
      own.insert(own.end(), word->second.begin(), word->second.end());
    } else {
      own.push_back(entry.get<std::string>());
      rules.patterns.push_back(own.back());
    }
  }
}

}  // namespace

std::span<const Section> pseudo_to_real_sections() {
  return pseudo_table;
}

std::optional<PseudoToReal> build_pseudo_to_real(Values& values, int64_t layers) {
  if (values.is_null("pseudo_to_real.groups")) {
    for (const Section& section : pseudo_table) {
      for (const Key& key : section.keys) {
        const std::string path = key_path(section, key.name);
        if ((key.types & t_object) != 0 || !values.given(path) || values.is_null(path)) continue;
        values.warnings.push_back(
            without_effect(values.at(path), "without pseudo_to_real.groups no layers share parameters"));
      }
    }
    return std::nullopt;
  }
  PseudoToReal rules;
  values.check([&] { rules.sharing.groups = read_groups(values, layers); });
  values.check([&] { read_private(values, rules); });
  rules.at_step = values.optional_integer("pseudo_to_real.delink.at_step");
  if (const auto steps = values.optional_integer("pseudo_to_real.delink.plateau_steps")) {
    rules.plateau = PlateauRule{*steps, values.real("pseudo_to_real.delink.plateau_gain")};
  } else if (values.given("pseudo_to_real.delink.plateau_gain")) {
    values.warnings.push_back(
        without_effect(values.at("pseudo_to_real.delink.plateau_gain"),
                       "without pseudo_to_real.delink.plateau_steps nothing looks for a plateau"));
  }
  values.check([&] { rules.states = states_at_delink(values.choice("pseudo_to_real.optimizer")).value(); });
  rules.lr_scale = values.real("pseudo_to_real.lr_scale");
  rules.rewarm_steps = values.integer("pseudo_to_real.rewarm_steps");
  rules.batch_after = values.optional_integer("pseudo_to_real.batch_after");
  return rules;
}

}  // namespace zrt::runtime::configuration

namespace zrt::runtime {

std::optional<StatesAtDelink> states_at_delink(std::string_view name) {
  if (name == "copy") return StatesAtDelink::copy;
  if (name == "reset") return StatesAtDelink::reset;
  if (name == "rescale") return StatesAtDelink::rescale;
  return std::nullopt;
}

}  // namespace zrt::runtime
