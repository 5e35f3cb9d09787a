// docs/config.md: implemented keys by section, then what is accepted without effect and what is refused.
#include <algorithm>

#include "core/keys/text.h"
#include "runtime/config/key_docs.h"

namespace zrt::runtime {
namespace {

constexpr const char* head = R"(# Keys of the configuration

`zrt config --markdown` writes this page from the table that the program reads configurations with; a test compares them.
`zrt config KEY` prints one key, `zrt config SECTION` those of a section.

A key that is left out has its default, and so has one of a number or a flag that is `"auto"`, and any key of DeepSpeed's.
Where a name or a path is expected, `"auto"` is a name like others. *Changes* says what a key has an influence on:

- *results*: weights and losses;
- *memory and time*: where states live, what is transferred, how long a step takes; never the weights;
- *reports*: what is printed and written; never the weights;
- *nothing*: the key may only say what happens anyway.
)";

bool is_listed(const KeyDoc& key, const std::string& handling) {
  return key.handling == handling && !key.section;
}

std::string in_code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

void add_implemented(const SectionDoc& section, std::string& page) {
  const bool any = std::any_of(section.keys.begin(), section.keys.end(),
                               [](const KeyDoc& key) { return is_listed(key, "implemented"); });
  if (!any) return;
  page += "\n## " + (section.path.empty() ? "Top level" : in_code(section.path));
  page += (section.of.empty() ? "" : " of " + section.of) + "\n\n" + section.help + "\n\n";
  page += "| key | values | default | changes | what it is for |\n|---|---|---|---|---|\n";
  for (const KeyDoc& key : section.keys) {
    if (!is_listed(key, "implemented")) continue;
    const std::string alias = key.alias.empty() ? "" : ", also " + in_code(key.alias);
    const std::string of = section.of.empty() && !key.of.empty() ? "Of " + key.of + ". " : "";
    page += "| " + in_code(key.name) + alias + " | " + key.legal + " | " +
            (key.fallback.empty() ? "none: it must be given" : in_code(key.fallback)) + " | " + key.changes + " | " +
            of + key.help + " |\n";
  }
}

// Lists keys: those of a section about which the same is said share a line.
void add_others(const std::string& handling, bool with_default, std::string& page) {
  page += "\n| section | keys | why |\n|---|---|---|\n";
  for (const SectionDoc& section : key_docs()) {
    std::vector<std::pair<std::string, std::vector<std::string>>> lines;
    for (const KeyDoc& key : section.keys) {
      if (!is_listed(key, handling)) continue;
      auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& known) { return known.first == key.help; });
      if (line == lines.end()) line = lines.insert(line, {key.help, {}});
      const bool legal = with_default && !key.fallback.empty() && key.fallback != "null";
      line->second.push_back(in_code(key.name) + (legal ? " (" + in_code(key.fallback) + ")" : ""));
    }
    const std::string of = section.of.empty() ? "" : " of " + section.of;
    for (const auto& [help, keys] : lines) {
      page += "| " + (section.path.empty() ? "top level" : in_code(section.path)) + of + " | " +
              core::keys::join(keys) + " | " + help + " |\n";
    }
  }
}

}  // namespace

std::string config_page() {
  std::string page = head;
  for (const bool ours : {true, false}) {
    for (const SectionDoc& section : key_docs()) {
      if (section.ours == ours) add_implemented(section, page);
    }
  }
  page +=
      "\n## Accepted without effect\n\nThese keys of DeepSpeed steer its own machinery; one that is set to another "
      "value than its default is named in a\nwarning.\n";
  add_others("no effect", false, page);
  page +=
      "\n## Refused\n\nThese keys ask for something else than what would happen. Only the value in brackets is "
      "accepted, "
      "where there is one.\n";
  add_others("refused", true, page);
  return page;
}

}  // namespace zrt::runtime
