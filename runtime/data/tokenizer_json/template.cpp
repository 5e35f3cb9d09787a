#include "runtime/data/tokenizer_json/template.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace zrt::runtime::data::tokenizer_json {

namespace {

// ["[CLS]", 101]
int32_t id_of_pair(Fields& fields, const char* key, int64_t vocabulary) {
  const Json& pair = fields.need(key);
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number_integer() ||
      pair[1].get<double>() < 0 || pair[1].get<double>() >= static_cast<double>(vocabulary))
    fields.refuse(key, fmt::format("it must be a pair of a token and its id, below {}", vocabulary));
  return pair[1].get<int32_t>();
}

std::vector<int32_t> ids_of(Fields& special, const std::string& name, int64_t vocabulary) {
  std::optional<Fields> entry = special.child(name.c_str());
  if (!entry) special.refuse(name.c_str(), "the template names it, so it must be there");
  const Json& ids = entry->need("ids");
  if (!ids.is_array()) entry->refuse("ids", "it must be a list");
  std::vector<int32_t> found;
  for (const Json& id : ids) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= static_cast<double>(vocabulary))
      entry->refuse("ids", fmt::format("they must be integers from 0 to {}", vocabulary - 1));
    found.push_back(id.get<int32_t>());
  }
  return found;
}

Template read_single(Fields& fields, int64_t vocabulary) {
  std::optional<Fields> special = fields.child("special_tokens");
  fields.pass_over({"pair"});  // documents come alone
  Template result;
  bool text_seen = false;
  for (Fields& item : fields.list("single")) {
    if (item.find("Sequence") != nullptr) {
      if (text_seen) item.refuse("Sequence", "the text stands in the template twice");
      text_seen = true;
      continue;
    }
    std::optional<Fields> token = item.child("SpecialToken");
    if (!token) item.refuse("SpecialToken", "an item must be a Sequence or a SpecialToken");
    if (!special) fields.refuse("special_tokens", "the template names some, so it must be there");
    for (const int32_t id : ids_of(*special, token->text("id"), vocabulary))
      (text_seen ? result.after : result.before).push_back(id);
  }
  return result;
}

}  // namespace

Template read_template(Fields fields, int64_t vocabulary) {
  const std::string type = fields.text("type");
  Template result;
  if (type == "TemplateProcessing") {
    result = read_single(fields, vocabulary);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    result.before.push_back(id_of_pair(fields, "cls", vocabulary));
    result.after.push_back(id_of_pair(fields, "sep", vocabulary));
    fields.pass_over({"trim_offsets", "add_prefix_space"});
  } else if (type == "ByteLevel") {
    fields.pass_over({"trim_offsets", "add_prefix_space", "use_regex"});  // of offsets alone
  } else if (type == "Sequence") {
    for (Fields& part : fields.list("processors")) {
      const Template inner = read_template(std::move(part), vocabulary);
      result.before.insert(result.before.begin(), inner.before.begin(), inner.before.end());
      result.after.insert(result.after.end(), inner.after.begin(), inner.after.end());
    }
  } else {
    fields.refuse("type",
                  "zrt knows the post-processors TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and "
                  "Sequence");
  }
  fields.finish();
  return result;
}

}  // namespace zrt::runtime::data::tokenizer_json
