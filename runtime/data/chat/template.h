// A Jinja template, as chat templates of Hugging Face's folders are: what transformers' sandbox renders, in the parts
// of the language that such templates use. Errors name the line.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/chat/value.h"

namespace zrt::runtime::data::chat {

// Names of a template, of a macro or of one turn of a loop.
struct Scope {
  std::map<std::string, Value, std::less<>> names;
  Scope* above = nullptr;
  int64_t* left = nullptr;  // statements that may still run
  int depth = 0;            // of macros
};

enum class Flow : uint8_t { on, next_turn, end_loop };
using Expression = std::function<Value(Scope&)>;
using Statement = std::function<Flow(Scope&, Text&)>;

// Text in a {% generation %} block has this mark.
inline constexpr char generation_mark = 2;

class Template {
 public:
  // Throws ConfigError for what is no template, or uses a part of the language that is not known.
  explicit Template(std::string_view source);
  // Throws ConfigError where the template refuses the variables (raise_exception), they do not suit it, or it runs or
  // prints more than any conversation needs.
  Text render(const Map& variables) const;
  bool has_generation() const { return has_generation_; }

 private:
  std::vector<Statement> body_;
  bool has_generation_ = false;
};

}  // namespace zrt::runtime::data::chat
