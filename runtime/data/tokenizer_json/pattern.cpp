#include "runtime/data/tokenizer_json/pattern.h"

#include <nlohmann/json.hpp>

namespace zrt::runtime::data::tokenizer_json {

Pattern::Pattern(Fields& fields, const char* key) {
  const Json& value = fields.need(key);
  const std::string legal = R"(it must be {"String": "…"} or {"Regex": "…"}, not empty)";
  if (!value.is_object() || value.size() != 1) fields.refuse(key, legal);
  const auto entry = value.begin();
  const std::string& kind = entry.key();
  const Json& text = *entry;
  if ((kind != "String" && kind != "Regex") || !text.is_string() || text.get_ref<const std::string&>().empty())
    fields.refuse(key, legal);
  text_ = text.get<std::string>();
  if (kind == "Regex") regex_ = std::make_unique<Regex>(text_, fields.source(), fields.place(key));
}

void Pattern::replace(std::string& text, std::string_view content) const {
  std::string out;
  bool any = false;
  const std::string_view whole = text;
  parts(whole, [&](size_t begin, size_t end, bool matched) {
    any = any || matched;
    out += matched ? content : whole.substr(begin, end - begin);
  });
  if (any) text = std::move(out);
}

}  // namespace zrt::runtime::data::tokenizer_json
