// One text out of a line of JSON.
#pragma once
#include <string>
#include <string_view>

namespace zrt::runtime::data {

class JsonField {
 public:
  explicit JsonField(std::string name) : name_(std::move(name)) {}

  // Puts the text of the field into `text`; the last one where the object names it twice, as other readers do. Returns
  // "", or a sentence on what is wrong with the line: no JSON or not UTF-8 with the column, half of a surrogate pair,
  // not an object, the field missing (with those there are) or no text.
  std::string read(std::string_view line, std::string& text) const;

  // Says whether a line is JSON of any kind.
  static bool is_json(std::string_view line);

  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace zrt::runtime::data
