#include "runtime/config/resolve.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/keys/text.h"
#include "optimizer/spec.h"
#include "runtime/config/other_names.h"

namespace zrt::runtime::configuration {
namespace {

using nlohmann::json;

json fallback(const Key& key) {
  return json::parse(key.fallback);
}

enum class Switch : uint8_t { none, off, on };

// Reads members named "enabled": false or "auto" switches off all beside and below it; without one the members decide.
Switch switch_of(const json& value) {
  if (!value.is_object()) return Switch::none;
  if (const auto enabled = value.find("enabled"); enabled != value.end()) {
    return *enabled == false || *enabled == "auto" ? Switch::off : Switch::on;
  }
  Switch result = Switch::none;
  for (const json& member : value) {
    const Switch one = switch_of(member);
    if (one != Switch::none && result != Switch::on) result = one;
  }
  return result;
}

// Says how a section's keys are told of. `quiet`: they need no warning. `off`: they are part of what is switched off.
// `unread`: DeepSpeed does not read them either, since the section's gate is closed and nothing in it is switched on.
struct Told {
  bool quiet, off, unread;
};

class Resolver {
 public:
  explicit Resolver(const Tree& tree) : tree_(tree) {}

  Values run() {
    result_.warnings = tree_.warnings;
    result_.problems = tree_.problems;
    variants_ = {{"optimizer.params", default_variant()}, {"scheduler.params", "none"}};
    result_.check([&] { variants_["optimizer.params"] = optimizer_variant(); });
    result_.check([&] { variants_["scheduler.params"] = scheduler_variant(); });
    walk(*find_section(""), tree_.document.root);
    fill();
    return std::move(result_);
  }

 private:
  Value value_at(const std::string& path, const json& value) const {
    return {path, value, tree_.origin(path), tree_.place(path), tree_.line(path)};
  }

  const Section* section_at(const std::string& path) const {
    const auto variant = variants_.find(path);
    return find_section(path, variant == variants_.end() ? "" : variant->second);
  }

  static std::string default_variant() { return optimizer::find_optimizer_spec(optimizer::default_type)->variant; }

  std::string optimizer_variant() const {
    const json* type = tree_.find("optimizer.type");
    if (type == nullptr || !type->is_string() || *type == "auto") return default_variant();
    const optimizer::OptimizerSpec* spec = optimizer::find_optimizer_spec(type->get<std::string>());
    if (spec != nullptr) return spec->variant;
    const std::string meant = optimizer_named_elsewhere(type->get<std::string>());
    refuse(value_at("optimizer.type", *type), "is not supported; legal: " + optimizer::optimizer_types() +
                                                  ", in any case." + (meant.empty() ? "" : " " + meant));
  }

  std::string scheduler_variant() const {
    const json* type = tree_.find("scheduler.type");
    if (type == nullptr || !type->is_string() || *type == "auto") {
      const json* params = tree_.find("scheduler.params");
      const bool open = type == nullptr || type->is_null() || *type == "auto";
      const bool given = params != nullptr && params->is_object() &&
                         std::any_of(params->begin(), params->end(), [](const json& value) { return value != "auto"; });
      if (open && given) {
        refuse(value_at("scheduler.params", *params), "is given without scheduler.type; add the type.");
      }
      return "none";
    }
    const std::vector<std::string> supported = choices_of(*find_key(*find_section("scheduler"), "type"));
    const std::string name = type->get<std::string>();
    if (std::find(supported.begin(), supported.end(), name) == supported.end()) {
      const std::string near = nearest(name, supported);
      refuse(value_at("scheduler.type", *type),
             "is not supported; legal: " + join(supported) + "." + (near.empty() ? "" : " Did you mean " + near + "?"));
    }
    return name;
  }

  void walk(const Section& section, const json& node) {
    given_sections_.insert(section.path);
    const bool unread = section.gate != nullptr && gate_closed(section, node) && switch_of(node) != Switch::on;
    const Told told{told_by_gate(section, node), switched_off(section, node), unread};
    for (const auto& [name, value] : node.items()) {
      // So do files carry remarks, and DeepSpeed reads past them.
      if (name.starts_with('_')) continue;
      result_.check([&, &name = name, &value = value] {
        const bool gate = section.gate != nullptr && name == section.gate;
        visit(section, name, value, {told.quiet && !gate, told.off, told.unread && !gate});
      });
    }
  }

  void visit(const Section& section, const std::string& name, const json& value, Told told) {
    const std::string path = key_path(section, name);
    const Key* key = find_key(section, name);
    // The parameters of an optimizer that is refused are not judged by those of another.
    const bool foreign = path.starts_with("optimizer.params.") && result_.wrong("optimizer.type");
    if (key == nullptr) {
      if (told.off || (foreign && known_in_a_variant(section.path, name))) return;
      throw Refusal(tree_.place(path) + ": unknown key " + in_quotes(path) + " = " + printed(value) + ". " +
                        suggest_key(section, name),
                    path, tree_.line(path));
    }
    if (foreign && (key->types & t_never) == 0) return;
    if (counts_as_left_out(section, *key, value)) {
      if (key->handling == Handling::implemented) result_.leave_out(value_at(path, value));
      return;
    }
    if ((key->types & t_object) != 0 && enter(*key, path, value)) return;
    leaf(section, *key, path, value, told);
  }

  static bool known_in_a_variant(std::string_view path, const std::string& name) {
    return std::any_of(sections().begin(), sections().end(), [&](const Section& section) {
      return section.path == path && find_key(section, name) != nullptr;
    });
  }

  // A feature that zrt does not have and that is not asked for: what else its block says is of no matter.
  static bool switched_off(const Section& section, const json& node) {
    return section.parser == Parser::legacy && !implemented(section) && switch_of(node) == Switch::off;
  }

  // True while the gate is closed, or where the warning about it says all.
  static bool told_by_gate(const Section& section, const json& node) {
    return section.gate != nullptr &&
           (find_key(section, section.gate)->handling == Handling::inert || gate_closed(section, node));
  }

  static bool gate_closed(const Section& section, const json& node) {
    const Key& gate = *find_key(section, section.gate);
    const auto found = node.find(section.gate);
    if (found == node.end() || *found == "auto") return true;
    return coerce(gate.types, section.parser == Parser::strict, *found) == fallback(gate);
  }

  // True for "auto", unless it has a meaning of its own. In our own sections a text may be called so.
  static bool counts_as_left_out(const Section& section, const Key& key, const json& value) {
    if (value != "auto" || (key.types & t_auto) != 0) return false;
    if (section.parser == Parser::own && (key.types & t_text) != 0) return false;
    return key.fallback == nullptr || fallback(key) != "auto";
  }

  // True when the key is a section: walks it.
  bool enter(const Key& key, const std::string& path, const json& value) {
    const Section* section = section_at(path);
    if (section == nullptr) {
      // scheduler.params without a type: null, or empty.
      return variants_.contains(path) && (value.is_null() || value.is_object());
    }
    const bool may_be_null = (key.types & t_null) != 0 || key.fallback == nullptr || fallback(key).is_null();
    if (value.is_null() && may_be_null) {
      // A section with implemented keys keeps its defaults instead.
      if (!implemented(*section)) given_[path] = value_at(path, value);
      return true;
    }
    if (!value.is_object()) {
      refuse(value_at(path, value), std::string("must be an object") + (may_be_null ? " or null." : "."));
    }
    if (key.handling == Handling::refused) refuse_request(key, path, value);
    walk(*section, value);
    return true;
  }

  void leaf(const Section& section, const Key& key, const std::string& path, const json& value, Told told) {
    if ((key.types & t_never) != 0) refuse(value_at(path, value), never_text(key));
    Types types = key.types;
    // A number that was inferred may be null: no limit.
    const bool inferred = tree_.origin(path) == From::inferred && (types & (t_int | t_real)) != 0;
    if (inferred || (key.fallback != nullptr && fallback(key).is_null())) types |= t_null;
    Key wanted = key;
    wanted.types = types;
    const std::optional<json> coerced = coerce(types, section.parser == Parser::strict, value);
    if (!coerced) refuse(value_at(path, value), "has the wrong type; legal: " + legal_text(wanted) + ".");
    if (key.handling != Handling::implemented && !told.off && !harmless(key, *coerced)) {
      if (key.handling == Handling::refused && !told.unread) refuse_request(key, path, value);
      if (!told.quiet) result_.warnings.push_back(without_effect(value_at(path, value), key.note));
    }
    Value entry = value_at(path, value);
    // A list of the one number that is wanted.
    const bool one = (types & t_real) != 0 && coerced->is_array() && coerced->size() == 1 && (*coerced)[0].is_number();
    entry.value = one ? (*coerced)[0] : *coerced;
    given_[path] = std::move(entry);
  }

  static std::string never_text(const Key& key) {
    return std::string("is never accepted: ") + key.note + ". Remove the key.";
  }

  [[noreturn]] void refuse_request(const Key& key, const std::string& path, const json& value) const {
    std::string legal = key.fallback == nullptr || fallback(key).is_null() ? "leaving the key out" : key.fallback;
    if (key.harmless != nullptr) {
      for (const json& other : json::parse(key.harmless)) legal += " or " + printed(other);
    }
    refuse(value_at(path, value), "is refused" + (*key.note == '\0' ? std::string() : std::string(": ") + key.note) +
                                      ". Legal: " + legal + ".");
  }

  // All keys of the sections in force, in the order of the table.
  void fill() {
    for (const Section& section : sections()) {
      const auto variant = variants_.find(section.path);
      const bool chosen = variant == variants_.end() || variant->second == section.variant;
      if (!chosen || (!implemented(section) && !given_sections_.contains(section.path))) continue;
      for (const Key& key : section.keys) {
        const std::string path = key_path(section, key.name);
        if (const auto found = given_.find(path); found != given_.end()) {
          found->second.key = &key;
          result_.add(std::move(found->second));
        } else if (key.fallback != nullptr && (key.types & t_old) == 0 && section_at(path) == nullptr &&
                   !variants_.contains(path)) {
          result_.add({path, fallback(key), From::fallback, "the default", 0, &key});
        }
      }
    }
  }

  const Tree& tree_;
  Values result_;
  std::map<std::string, std::string> variants_;
  std::map<std::string, Value> given_;
  std::set<std::string> given_sections_;
};

}  // namespace

bool harmless(const Key& key, const json& value) {
  if (key.fallback != nullptr && value == fallback(key)) return true;
  if (key.harmless != nullptr) {
    const json list = json::parse(key.harmless);
    if (std::find(list.begin(), list.end(), value) != list.end()) return true;
  }
  return (key.types & t_object) != 0 && (value.empty() || switch_of(value) == Switch::off);
}

Values resolve_keys(const Tree& tree) {
  return Resolver(tree).run();
}

}  // namespace zrt::runtime::configuration
