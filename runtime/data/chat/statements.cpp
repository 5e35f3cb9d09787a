#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "runtime/data/chat/operators.h"
#include "runtime/data/chat/template_parser.h"

namespace zrt::runtime::data::chat {
namespace {

using Kind = Token::Kind;

constexpr int deepest_macro = 50;
constexpr std::string_view in_line = "line ";  // begins messages that name one

template <class Work>
auto at_line(int line, const Work& work) {
  try {
    return work();
  } catch (const core::ConfigError& error) {
    if (std::string_view(error.what()).starts_with(in_line)) throw;
    throw core::ConfigError(fmt::format("{}{} of the template: {}", in_line, line, error.what()));
  }
}

// The names of a loop's target: one, or several that an element is taken apart for.
void assign(Scope& scope, const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) {
    scope.names[names[0]] = value;
    return;
  }
  const List parts = elements_of(value);
  if (parts.size() != names.size()) {
    throw core::ConfigError(fmt::format("{} values for {} names", parts.size(), names.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) scope.names[names[i]] = parts[i];
}

Value loop_of(const List& all, size_t i) {
  const auto at = static_cast<int64_t>(i), count = static_cast<int64_t>(all.size());
  Map loop{{"index", at + 1},        {"index0", at},
           {"revindex", count - at}, {"revindex0", count - at - 1},
           {"first", i == 0},        {"last", i + 1 == all.size()},
           {"length", count}};
  if (i > 0) loop.emplace_back("previtem", all[i - 1]);
  if (i + 1 < all.size()) loop.emplace_back("nextitem", all[i + 1]);
  return loop;
}

}  // namespace

Flow run(const std::vector<Statement>& body, Scope& scope, Text& to) {
  for (const Statement& each : body) {
    if (--*scope.left < 0) throw core::ConfigError("the template runs without an end");
    if (const Flow flow = each(scope, to); flow != Flow::on) return flow;
  }
  return Flow::on;
}

Statement TemplateParser::statement() {
  const Token token = peek();
  ++at_;
  if (token.kind == Kind::text) {
    return [text = Text(token.text)](Scope&, Text& to) { return to += text, Flow::on; };
  }
  if (token.kind == Kind::begin_output) {
    Expression value = expression();
    need(Kind::end, "}}");
    return [value, line = token.line](Scope& scope, Text& to) {
      to += at_line(line, [&] { return to_text(value(scope)); });
      return Flow::on;
    };
  }
  const std::string word = need_name();
  if (word == "set") return set_statement(token.line);
  if (word == "if") return if_statement();
  if (word == "for") return for_statement(token.line);
  if (word == "macro") return macro_statement();
  if (word == "generation") return generation_statement();
  if (word == "break" || word == "continue") {
    need(Kind::end, "%}");
    return [flow = word == "break" ? Flow::end_loop : Flow::next_turn](Scope&, Text&) { return flow; };
  }
  --at_;
  refuse(fmt::format("'{}' is not known; known are set, if, for, macro, generation, break and continue", word));
}

Statement TemplateParser::set_statement(int line) {
  std::vector<std::string> names{need_name()};
  if (takes_sign(".")) {
    const std::string attribute = need_name();
    need(Kind::sign, "=");
    Expression value = expression();
    need(Kind::end, "%}");
    return [name = names[0], attribute, value, line](Scope& scope, Text&) {
      at_line(line, [&] {
        Scope* at = &scope;
        while (at != nullptr && !at->names.contains(name)) at = at->above;
        Map* map = at != nullptr ? at->names[name].map() : nullptr;
        if (map == nullptr) throw core::ConfigError(fmt::format("'{}' is no namespace", name));
        Value made = copied(value(scope));
        for (auto& [known, held] : *map) {
          if (known == attribute) return void(held = made);
        }
        map->emplace_back(attribute, made);
      });
      return Flow::on;
    };
  }
  while (takes_sign(",")) names.push_back(need_name());
  if (takes(Kind::end, "%}")) {
    Body body;
    body_until(body, {"endset"});
    need(Kind::end, "%}");
    return [name = names[0], body](Scope& scope, Text&) {
      Text text;
      run(body, scope, text);
      scope.names[name] = text;
      return Flow::on;
    };
  }
  need(Kind::sign, "=");
  Expression value = expression();
  need(Kind::end, "%}");
  return [names, value, line](Scope& scope, Text&) {
    at_line(line, [&] {
      const Value made = value(scope);
      check_depth(made);
      assign(scope, names, made);
    });
    return Flow::on;
  };
}

Statement TemplateParser::if_statement() {
  struct Branch {
    Expression condition;
    int line = 0;
    Body body;
  };
  std::vector<Branch> branches;
  std::string word = "if";
  while (word != "endif") {
    Branch& branch = branches.emplace_back();
    branch.line = peek().line;
    if (word != "else") branch.condition = expression();
    need(Kind::end, "%}");
    word = word == "else" ? body_until(branch.body, {"endif"}) : body_until(branch.body, {"elif", "else", "endif"});
  }
  need(Kind::end, "%}");
  return [branches](Scope& scope, Text& to) {
    for (const Branch& branch : branches) {
      const bool holds = !branch.condition || at_line(branch.line, [&] { return branch.condition(scope).truth(); });
      if (holds) return run(branch.body, scope, to);
    }
    return Flow::on;
  };
}

Statement TemplateParser::for_statement(int line) {
  std::vector<std::string> names;
  const bool bracket = takes_sign("(");
  do {
    names.push_back(need_name());
  } while (takes_sign(","));
  if (bracket) need(Kind::sign, ")");
  need(Kind::name, "in");
  Expression over = any_of(), condition;  // `if` behind it chooses elements
  if (takes_name("if")) condition = expression();
  need(Kind::end, "%}");
  Body body, otherwise;
  if (body_until(body, {"else", "endfor"}) == "else") {
    need(Kind::end, "%}");
    body_until(otherwise, {"endfor"});
  }
  need(Kind::end, "%}");
  return [=](Scope& scope, Text& to) {
    List all;
    at_line(line, [&] {
      for (const Value& each : elements_of(over(scope))) {
        Scope turn{{}, &scope, scope.left, scope.depth};
        assign(turn, names, each);
        if (!condition || condition(turn).truth()) all.push_back(each);
      }
    });
    if (all.empty()) return run(otherwise, scope, to);
    for (size_t i = 0; i < all.size(); ++i) {
      Scope turn{{}, &scope, scope.left, scope.depth};
      at_line(line, [&] { assign(turn, names, all[i]); });
      turn.names["loop"] = loop_of(all, i);
      if (run(body, turn, to) == Flow::end_loop) break;
    }
    return Flow::on;
  };
}

Statement TemplateParser::macro_statement() {
  const std::string name = need_name();
  need(Kind::sign, "(");
  std::vector<std::pair<std::string, Expression>> parameters;
  while (!takes_sign(")")) {
    auto& [parameter, other] = parameters.emplace_back(need_name(), nullptr);
    if (takes_sign("=")) other = expression();
    if (!sees(Kind::sign, ")")) need(Kind::sign, ",");
  }
  need(Kind::end, "%}");
  auto body = std::make_shared<Body>();
  body_until(*body, {"endmacro"});
  need(Kind::end, "%}");
  return [name, parameters, body](Scope& scope, Text&) {
    scope.names[name] = Function([=, &scope](const Arguments& arguments) {
      Scope own{{}, &scope, scope.left, scope.depth + 1};
      if (own.depth > deepest_macro) throw core::ConfigError(fmt::format("macro '{}' calls itself too deep", name));
      for (size_t i = 0; i < parameters.size(); ++i) {
        const auto& [parameter, other] = parameters[i];
        if (i < arguments.list.size()) {
          own.names[parameter] = arguments.list[i];
        } else if (other) {
          own.names[parameter] = other(own);
        } else {
          own.names[parameter] = Undefined{parameter};
        }
      }
      for (const auto& [parameter, value] : arguments.named) own.names[parameter] = value;
      const int depth = std::exchange(scope.depth, own.depth);
      Text text;
      try {
        run(*body, own, text);
      } catch (...) {
        scope.depth = depth;
        throw;
      }
      scope.depth = depth;
      return Value(text);
    });
    return Flow::on;
  };
}

Statement TemplateParser::generation_statement() {
  has_generation_ = true;
  need(Kind::end, "%}");
  Body body;
  body_until(body, {"endgeneration"});
  need(Kind::end, "%}");
  return [body](Scope& scope, Text& to) {
    Text text;
    const Flow flow = run(body, scope, text);
    text.marks.assign(text.bytes.size(), generation_mark);
    to += text;
    return flow;
  };
}

}  // namespace zrt::runtime::data::chat
