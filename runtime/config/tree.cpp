#include "runtime/config/tree.h"

#include "core/error.h"
#include "core/keys/text.h"

namespace zrt::runtime::configuration {
namespace {

using nlohmann::json;

// A path of the command line may hold any byte.
std::string printable(const std::string& path) {
  const std::string quoted = in_quotes(path);
  return quoted.substr(1, quoted.size() - 2);
}

json* descend(json& node, std::string_view path) {
  json* at = &node;
  if (path.empty()) return at->is_object() ? at : nullptr;
  for (const std::string& name : split_path(path)) {
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &(*at)[name];
  }
  return at;
}

// Moves `section.from` to `section.to`, with the line numbers of all that lies in it.
void rename(Tree& tree, json& section, const std::string& from, const std::string& to) {
  const size_t dot = from.rfind('.');
  const std::string old_name = from.substr(dot + 1), new_name = to.substr(dot + 1);
  if (section.contains(new_name)) {
    tree.problems.add(Refusal(from + " (" + tree.place(from) + ") and " + to + " (" + tree.place(to) +
                                  ") are two spellings of one key; keep one of them.",
                              to, tree.line(from)));
    section.erase(old_name);
    return;
  }
  section[new_name] = std::move(section[old_name]);
  section.erase(old_name);
  std::map<std::string, int>& lines = tree.document.lines;
  std::vector<std::pair<std::string, int>> moved;
  for (auto it = lines.lower_bound(from); it != lines.end() && it->first.starts_with(from);) {
    if (!covers(from, it->first)) {
      ++it;
      continue;
    }
    moved.emplace_back(to + it->first.substr(from.size()), it->second);
    it = lines.erase(it);
  }
  lines.insert(moved.begin(), moved.end());
  tree.written[to] = from;
  for (Applied& set : tree.applied) {
    if (covers(from, set.path)) set.path = to + set.path.substr(from.size());
  }
}

void replace_aliases(Tree& tree) {
  for (const Section& section : sections()) {
    json* node = descend(tree.document.root, section.path);
    if (node == nullptr || !node->is_object()) continue;
    for (const Key& key : section.keys) {
      if (key.alias == nullptr || !node->contains(key.alias)) continue;
      rename(tree, *node, key_path(section, key.alias), key_path(section, key.name));
    }
  }
}

void replace_boolean_zero(Tree& tree) {
  json& root = tree.document.root;
  const auto found = root.find("zero_optimization");
  if (found == root.end() || !found->is_boolean()) return;
  const bool on = found->get<bool>();
  *found = {{"stage", on ? 1 : 0}};
  if (root.contains("allgather_size")) (*found)["allgather_bucket_size"] = root["allgather_size"];
  for (const char* key : {"stage", "allgather_bucket_size"}) {
    const auto line = tree.document.lines.find("zero_optimization");
    if (line == tree.document.lines.end()) break;
    tree.document.lines[std::string("zero_optimization.") + key] = line->second;
  }
  tree.warnings.push_back(std::string("zero_optimization = ") + (on ? "true" : "false") + " (" +
                          tree.place("zero_optimization") + ") is an old form of {\"stage\": " + (on ? "1" : "0") +
                          "}; write the object.");
}

// `from` = true stands for the object `to` with the device "cpu"; false and null for nothing.
void replace_old_offload(Tree& tree, json& zero, const std::string& from, const std::string& to) {
  const std::string old_path = "zero_optimization." + from, new_path = "zero_optimization." + to;
  const auto found = zero.find(from);
  if (found == zero.end()) return;
  const std::optional<json> value = coerce(t_bool | t_null, true, *found);
  if (!value) return;  // refused by its type
  const bool on = *value == true;
  const auto other = zero.find(to);
  const bool both = other != zero.end() && !other->is_null() && !found->is_null();
  if (both && !(other->is_object() && other->value("device", json("none")) == (on ? "cpu" : "none"))) {
    tree.problems.add(Refusal(old_path + " (" + tree.place(old_path) + ") and " + new_path + " (" +
                                  tree.place(new_path) + ") contradict each other; keep " + new_path + ".",
                              new_path, tree.line(old_path)));
    zero.erase(found);
    return;
  }
  if (!(found->is_null() && tree.origin(old_path) == From::fallback)) {
    tree.warnings.push_back(old_path + " (" + tree.place(old_path) + ") is an old form of " + new_path +
                            (on ? "; write {\"device\": \"cpu\"} there." : "; leave both out."));
  }
  zero.erase(found);
  if (!on || both) return;
  zero[to] = {{"device", "cpu"}};
  if (const auto line = tree.document.lines.find(old_path); line != tree.document.lines.end()) {
    tree.document.lines[new_path + ".device"] = line->second;
  }
  for (Applied& set : tree.applied) {
    if (set.path == old_path) set = {new_path + ".device", set.option, "cpu"};
  }
}

void replace_deprecated(Tree& tree) {
  json* zero = descend(tree.document.root, "zero_optimization");
  if (zero == nullptr || !zero->is_object()) return;
  replace_old_offload(tree, *zero, "cpu_offload", "offload_optimizer");
  replace_old_offload(tree, *zero, "cpu_offload_param", "offload_param");
  const char* name = "stage3_gather_fp16_weights_on_model_save";
  if (!zero->contains(name)) return;
  const std::string from = std::string("zero_optimization.") + name;
  const std::string to = "zero_optimization.stage3_gather_16bit_weights_on_model_save";
  tree.warnings.push_back(from + " (" + tree.place(from) + ") is an old name of " + to + ".");
  rename(tree, *zero, from, to);
}

// Says whether the text of an override is the value itself, whatever it looks like as JSON.
bool takes_text(const Key* key, const std::string& text) {
  if (key == nullptr || (key->types & t_text) == 0 || (key->types & t_list) != 0) return false;
  return !((key->types & t_null) != 0 && text == "null") && !text.starts_with('"');
}

// `whole` is the option with its text, for messages.
json override_value(const Key* key, const std::string& text, const std::string& whole) {
  if (takes_text(key, text)) {
    if (!valid_utf8(text)) throw core::UsageError(whole + ": the value is not valid UTF-8.");
    return text;
  }
  const bool texts = key != nullptr && (key->types & t_text) != 0;
  try {
    const json value = parse_config_text(text, whole + ", value").root;
    // 2024 is a name if the key takes texts and no numbers.
    const bool names = value.is_number() || value.is_boolean();
    return texts && names && !coerce(key->types, true, value) ? json(text) : value;
  } catch (const core::ConfigError& error) {
    const bool structured = !text.empty() && std::string_view("{[\"'").find(text[0]) != std::string_view::npos;
    if (!valid_utf8(text)) throw;
    if (!structured) return text;
    if (!texts) throw;
    throw core::ConfigError(std::string(error.what()) + " Put a name that begins with " + text[0] +
                            " into double quotes: '" + std::string(key->name) + "=\"" + text + "\"'.");
  }
}

// Says whether what a setting asked for is still there.
bool holds(const Tree& tree, const Applied& set) {
  const json* now = tree.find(set.path);
  if (now == nullptr || *now == set.value) return now != nullptr;
  const size_t dot = set.path.rfind('.');
  const Section* section = find_section(dot == std::string::npos ? "" : set.path.substr(0, dot));
  const Key* key = section == nullptr ? nullptr : find_key(*section, set.path.substr(dot + 1));
  if (key == nullptr) return false;
  // "1" and true may be one value.
  const bool strict = section->parser == Parser::strict;
  const auto asked = coerce(key->types, strict, set.value), got = coerce(key->types, strict, *now);
  return asked && got && *asked == *got;
}

}  // namespace

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    parts.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool covers(std::string_view prefix, std::string_view path) {
  return path.substr(0, prefix.size()) == prefix && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

From Tree::origin(std::string_view path) const {
  for (const Applied& set : applied) {
    if (covers(set.path, path)) return From::command_line;
  }
  const auto found = recorded.find(std::string(path));
  return found == recorded.end() ? From::file : found->second;
}

std::string Tree::place(std::string_view path) const {
  const auto other = written.find(std::string(path));
  for (auto set = applied.rbegin(); set != applied.rend(); ++set) {
    if (!covers(set->path, path)) continue;
    const std::string& named = other != written.end() && set->path == path ? other->second : set->path;
    return set->option == "--set" ? "--set " + printable(named) : set->option;
  }
  const auto line = document.lines.find(std::string(path));
  return (line == document.lines.end() ? document.name : document.name + ":" + std::to_string(line->second)) +
         (other == written.end() ? "" : ", as " + other->second);
}

int Tree::line(std::string_view path) const {
  const auto found = document.lines.find(std::string(path));
  return found == document.lines.end() || origin(path) == From::command_line ? 0 : found->second;
}

const json* Tree::find(std::string_view path) const {
  return descend(const_cast<json&>(document.root), path);
}

void normalise(Tree& tree) {
  if (!tree.document.root.is_object()) {
    throw core::ConfigError(tree.document.name + " holds " + printed(tree.document.root) +
                            "; a configuration is an object: {\"key\": value, …}.");
  }
  replace_boolean_zero(tree);
  replace_aliases(tree);
  replace_deprecated(tree);
}

void apply_set(Tree& tree, const Override& setting) {
  const auto& [text, option] = setting;
  const size_t equals = text.find('=');
  std::vector<std::string> parts = split_path(text.substr(0, std::min(equals, text.size())));
  bool good = equals != std::string::npos && parts.size() <= 8;
  for (const std::string& part : parts) good = good && !part.empty() && valid_utf8(part);
  if (!good) {
    throw core::UsageError(option + " " + in_quotes(text) +
                           " is not of the form section.key=value, for example --set zero_optimization.stage=3.");
  }
  // Known parts take the spelling of the key table, so that an override meets the key it overrides.
  std::string path;
  const Key* key = nullptr;
  for (std::string& part : parts) {
    const Section* section = find_section(path);
    key = section == nullptr ? nullptr : find_key(*section, part);
    if (key != nullptr) part = key->name;
    path += (path.empty() ? "" : ".") + part;
  }
  json value;
  try {
    value = override_value(key, text.substr(equals + 1), option + " " + in_quotes(text));
  } catch (const core::ConfigError& error) {
    return tree.problems.add(error);
  }
  json* node = &tree.document.root;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    node = &(*node)[parts[i]];
    if (node->is_null()) *node = json::object();
    if (!node->is_object()) {
      return tree.problems.add(core::ConfigError(option + " " + in_quotes(text) + ": '" + parts[i] + "' is " +
                                                 printed(*node) + " in " + tree.document.name +
                                                 ", not a section; set " + parts[i] + " itself."));
    }
  }
  (*node)[parts.back()] = value;
  tree.applied.push_back({path, option, std::move(value)});
}

void find_contradictions(Tree& tree) {
  for (size_t i = 0; i < tree.applied.size(); ++i) {
    for (size_t j = i + 1; j < tree.applied.size(); ++j) {
      const Applied &first = tree.applied[i], &second = tree.applied[j];
      const bool meet = covers(first.path, second.path) || covers(second.path, first.path);
      if (!meet || first.option == second.option || holds(tree, first)) continue;
      const auto told = [](const Applied& set) {
        return set.option + " sets " + printable(set.path) + " = " + printed(set.value);
      };
      tree.problems.add(core::ConfigError(told(first) + ", but " + told(second) + "; give one of the two."));
    }
  }
}

}  // namespace zrt::runtime::configuration
