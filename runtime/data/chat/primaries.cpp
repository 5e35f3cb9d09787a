#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "core/error.h"
#include "runtime/data/chat/functions.h"
#include "runtime/data/chat/operators.h"
#include "runtime/data/chat/template_parser.h"

namespace zrt::runtime::data::chat {
namespace {

using Kind = Token::Kind;

Value look_up(Scope& scope, const std::string& name) {
  for (Scope* at = &scope; at != nullptr; at = at->above) {
    if (const auto found = at->names.find(name); found != at->names.end()) return found->second;
  }
  return Undefined{name};
}

}  // namespace

Arguments TemplateParser::Call::of(Scope& scope) const {
  Arguments arguments;
  for (const Expression& each : list) arguments.list.push_back(each(scope));
  for (const auto& [name, each] : named) arguments.named.emplace_back(name, each(scope));
  return arguments;
}

Expression TemplateParser::primary() {
  const Token token = peek();
  ++at_;
  switch (token.kind) {
    case Kind::string: {
      std::string text = token.text;
      while (peek().kind == Kind::string) text += tokens_[at_++].text;
      return [value = Value(Text(text))](Scope&) { return value; };
    }
    case Kind::integer: {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (error != std::errc()) refuse(fmt::format("the number {} is too large", token.text));
      return [value](Scope&) { return Value(value); };
    }
    case Kind::real:
      return [value = std::strtod(token.text.c_str(), nullptr)](Scope&) { return Value(value); };
    case Kind::name:
      if (token.text == "true" || token.text == "True") return [](Scope&) { return Value(true); };
      if (token.text == "false" || token.text == "False") return [](Scope&) { return Value(false); };
      if (token.text == "none" || token.text == "None") return [](Scope&) { return Value(None{}); };
      return [name = token.text](Scope& scope) { return look_up(scope, name); };
    default:
      break;
  }
  if (token.kind == Kind::sign && token.text == "(") {
    if (takes_sign(")")) return [](Scope&) { return Value(List{}); };
    Expression first = expression();
    if (takes_sign(")")) return first;
    need(Kind::sign, ",");
    return [first, rest = list_of(")")](Scope& scope) {
      List all{first(scope)};
      const Value others = rest(scope);
      all.insert(all.end(), others.list()->begin(), others.list()->end());
      return Value(all);
    };
  }
  if (token.kind == Kind::sign && token.text == "[") return list_of("]");
  if (token.kind == Kind::sign && token.text == "{") {
    std::vector<std::pair<Expression, Expression>> entries;
    while (!takes_sign("}")) {
      Expression key = expression();
      need(Kind::sign, ":");
      entries.emplace_back(key, expression());
      if (!sees(Kind::sign, "}")) need(Kind::sign, ",");
    }
    return [entries](Scope& scope) {
      Map map;
      for (const auto& [key, value] : entries) map.emplace_back(to_text(key(scope)).bytes, value(scope));
      return Value(map);
    };
  }
  --at_;
  refuse(fmt::format("'{}' stands where a value should", token.text));
}

Expression TemplateParser::list_of(std::string_view end) {
  std::vector<Expression> elements;
  while (!takes_sign(end)) {
    elements.push_back(expression());
    if (!sees(Kind::sign, end)) need(Kind::sign, ",");
  }
  return [elements](Scope& scope) {
    List list;
    for (const Expression& each : elements) list.push_back(each(scope));
    return Value(list);
  };
}

TemplateParser::Call TemplateParser::call() {
  Call call;
  while (!takes_sign(")")) {
    if (peek().kind == Kind::name && peek(1).kind == Kind::sign && peek(1).text == "=") {
      std::string name = need_name();
      ++at_;
      call.named.emplace_back(std::move(name), expression());
    } else {
      call.list.push_back(expression());
    }
    if (!sees(Kind::sign, ")")) need(Kind::sign, ",");
  }
  return call;
}

Expression TemplateParser::behind(Expression value) {
  while (true) {
    if (takes_sign(".")) {
      const std::string name = peek().kind == Kind::integer ? std::string(tokens_[at_++].text) : need_name();
      if (sees(Kind::sign, "(")) {
        ++at_;
        value = [value, name, call = call()](Scope& scope) {
          const Value object = value(scope);
          if (has_method(object, name)) return call_method(object, name, call.of(scope));
          const Value attribute = element_of(object, Text(name));
          if (attribute.function() == nullptr) return call_method(object, name, call.of(scope));
          return (*attribute.function())(call.of(scope));
        };
      } else {
        value = [value, name](Scope& scope) { return element_of(value(scope), Text(name)); };
      }
    } else if (takes_sign("[")) {
      value = subscript(value);
    } else if (takes_sign("(")) {
      value = [value, call = call()](Scope& scope) {
        const Value function = value(scope);
        if (function.function() == nullptr) {
          throw core::ConfigError(function.undefined() ? fmt::format("the function '{}' is not known", function.name())
                                                       : fmt::format("{} is called like a function", function.kind()));
        }
        return (*function.function())(call.of(scope));
      };
    } else {
      return value;
    }
  }
}

Expression TemplateParser::subscript(Expression value) {
  const auto bound = [&]() -> Expression {
    if (sees(Kind::sign, ":") || sees(Kind::sign, "]")) return [](Scope&) { return Value(); };
    return expression();
  };
  Expression first = bound();
  if (takes_sign("]")) {
    return [value, first](Scope& scope) {
      const Value object = value(scope);
      return element_of(object, first(scope));
    };
  }
  need(Kind::sign, ":");
  Expression end = bound(), step = [](Scope&) { return Value(); };
  if (takes_sign(":")) step = bound();
  need(Kind::sign, "]");
  return [value, first, end, step](Scope& scope) {
    const Value object = value(scope);
    return slice_of(object, first(scope), end(scope), step(scope));
  };
}

Expression TemplateParser::filters(Expression value) {
  while (true) {
    if (takes_sign("|")) {
      const std::string name = need_name();
      Call arguments;
      if (takes_sign("(")) arguments = call();
      value = [value, name, arguments](Scope& scope) {
        const Value object = value(scope);
        return apply_filter(name, object, arguments.of(scope));
      };
    } else if (takes_name("is")) {
      const bool wanted = !takes_name("not");
      const std::string name = need_name();
      Call arguments;
      if (takes_sign("(")) {
        arguments = call();
      } else if (name == "in" || name == "eq" || name == "equalto") {
        arguments.list.push_back(signed_value(false));
      }
      value = [value, name, arguments, wanted](Scope& scope) {
        const Value object = value(scope);
        return Value(apply_test(name, object, arguments.of(scope)) == wanted);
      };
    } else if (sees(Kind::sign, "(") || sees(Kind::sign, "[") || sees(Kind::sign, ".")) {
      value = behind(value);
    } else {
      return value;
    }
  }
}

}  // namespace zrt::runtime::data::chat
