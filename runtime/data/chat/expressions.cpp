#include <fmt/format.h>

#include "core/error.h"
#include "runtime/data/chat/operators.h"
#include "runtime/data/chat/template_parser.h"

namespace zrt::runtime::data::chat {
namespace {

using Kind = Token::Kind;

constexpr int deepest_expression = 100;  // expressions and statements in each other

Expression combined(std::string sign, Expression left, Expression right) {
  return [sign = std::move(sign), left = std::move(left), right = std::move(right)](Scope& scope) {
    const Value first = left(scope);
    return combine(sign, first, right(scope));
  };
}

struct Deeper {
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  int& depth_;
};

}  // namespace

Expression TemplateParser::expression() {
  const Deeper deeper(depth_);
  if (depth_ > deepest_expression) refuse("expressions stand too deep in each other");
  Expression value = any_of();
  while (takes_name("if")) {
    Expression condition = any_of();
    Expression other;
    if (takes_name("else")) other = expression();
    value = [value, condition, other](Scope& scope) {
      if (condition(scope).truth()) return value(scope);
      return other ? other(scope) : Value();
    };
  }
  return value;
}

Expression TemplateParser::any_of() {
  Expression left = all_of();
  while (takes_name("or")) {
    left = [left, right = all_of()](Scope& scope) {
      Value first = left(scope);
      return first.truth() ? first : right(scope);
    };
  }
  return left;
}

Expression TemplateParser::all_of() {
  Expression left = negation();
  while (takes_name("and")) {
    left = [left, right = negation()](Scope& scope) {
      Value first = left(scope);
      return first.truth() ? right(scope) : first;
    };
  }
  return left;
}

Expression TemplateParser::negation() {
  const Deeper deeper(depth_);
  if (depth_ > deepest_expression) refuse("expressions stand too deep in each other");
  if (!takes_name("not")) return comparison();
  return [value = negation()](Scope& scope) { return Value(!value(scope).truth()); };
}

Expression TemplateParser::comparison() {
  Expression left = sum();
  Expression holds;  // of a chain a < b < c all
  while (true) {
    std::string sign;
    for (const std::string_view each : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (sign.empty() && takes_sign(each)) sign = each;
    }
    if (sign.empty() && takes_name("in")) sign = "in";
    if (sign.empty() && sees(Kind::name, "not") && peek(1).kind == Kind::name && peek(1).text == "in") {
      at_ += 2, sign = "not in";
    }
    if (sign.empty()) return holds ? holds : left;
    Expression right = sum();
    Expression one = combined(sign, left, right);
    if (holds) {
      holds = [holds, one](Scope& scope) { return Value(holds(scope).truth() && one(scope).truth()); };
    } else {
      holds = one;
    }
    left = right;
  }
}

Expression TemplateParser::sum() {
  Expression left = joined();
  while (sees(Kind::sign, "+") || sees(Kind::sign, "-")) {
    std::string sign = tokens_[at_++].text;
    left = combined(std::move(sign), left, joined());
  }
  return left;
}

Expression TemplateParser::joined() {
  Expression left = product();
  while (takes_sign("~")) left = combined("~", left, product());
  return left;
}

Expression TemplateParser::product() {
  Expression left = signed_value();
  while (sees(Kind::sign, "*") || sees(Kind::sign, "/") || sees(Kind::sign, "//") || sees(Kind::sign, "%")) {
    std::string sign = tokens_[at_++].text;
    left = combined(std::move(sign), left, signed_value());
  }
  return left;
}

Expression TemplateParser::signed_value(bool with_filters) {
  const Deeper deeper(depth_);
  if (depth_ > deepest_expression) refuse("expressions stand too deep in each other");
  Expression value;
  if (takes_sign("-")) {
    value = combined(
        "-", [](Scope&) { return Value(int64_t{0}); }, signed_value(false));
  } else {
    value = behind(primary());
  }
  return with_filters ? filters(value) : value;
}

}  // namespace zrt::runtime::data::chat
