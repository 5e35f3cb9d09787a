#include "runtime/data/chat/template.h"

#include <fmt/format.h>

#include "core/error.h"
#include "runtime/data/chat/template_parser.h"

namespace zrt::runtime::data::chat {
namespace {

constexpr int64_t most_statements = 1'000'000;

Map names_of(const Arguments& arguments) {
  return arguments.named;
}

// Functions that every template has.
void add_functions(Scope& scope) {
  scope.names["raise_exception"] = Function([](const Arguments& arguments) -> Value {
    throw core::ConfigError(fmt::format("the template refuses the conversation: {}",
                                        arguments.list.empty() ? "" : to_text(arguments.list[0]).bytes));
  });
  scope.names["namespace"] = Function([](const Arguments& arguments) { return Value(names_of(arguments)); });
  scope.names["dict"] = Function([](const Arguments& arguments) { return Value(names_of(arguments)); });
  scope.names["range"] = Function([](const Arguments& arguments) {
    List bounds = arguments.list;
    if (bounds.size() == 1) bounds.insert(bounds.begin(), Value(int64_t{0}));
    if (bounds.size() == 2) bounds.emplace_back(int64_t{1});
    constexpr int64_t most = 100'000;
    int64_t all[3] = {0, 0, 0};
    for (size_t i = 0; i < 3; ++i) {
      if (bounds.size() != 3 || bounds[i].integer() == nullptr) {
        throw core::ConfigError("'range' takes one to three integers");
      }
      all[i] = *bounds[i].integer();
    }
    List numbers;
    bool over = all[2] == 0;
    for (int64_t i = all[0]; !over && (all[2] > 0 ? i < all[1] : i > all[1]);
         over = __builtin_add_overflow(i, all[2], &i)) {
      numbers.emplace_back(i);
      if (static_cast<int64_t>(numbers.size()) > most) throw core::ConfigError("'range' is too long");
    }
    return Value(numbers);
  });
}

}  // namespace

Template::Template(std::string_view source) {
  TemplateParser parser(cut_template(source));
  body_ = parser.parse();
  has_generation_ = parser.has_generation();
}

Text Template::render(const Map& variables) const {
  int64_t left = most_statements;
  Scope scope;
  scope.left = &left;
  add_functions(scope);
  for (const auto& [name, value] : variables) scope.names[name] = value;
  Text text;
  run(body_, scope, text);
  return text;
}

}  // namespace zrt::runtime::data::chat
