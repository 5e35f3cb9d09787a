#include "runtime/data/chat/template_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::runtime::data::chat {
namespace {

using Kind = Token::Kind;

constexpr int deepest_statement = 100;

}  // namespace

const Token& TemplateParser::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

bool TemplateParser::sees(Kind kind, std::string_view text) const {
  return peek().kind == kind && peek().text == text;
}

bool TemplateParser::takes(Kind kind, std::string_view text) {
  if (!sees(kind, text)) return false;
  ++at_;
  return true;
}

void TemplateParser::need(Kind kind, std::string_view text) {
  if (!takes(kind, text)) refuse(fmt::format("'{}' stands where '{}' should", peek().text, text));
}

std::string TemplateParser::need_name() {
  if (peek().kind != Kind::name) refuse(fmt::format("'{}' stands where a name should", peek().text));
  return tokens_[at_++].text;
}

void TemplateParser::refuse(const std::string& what) const {
  throw core::ConfigError(fmt::format("line {} of the template: {}", peek().line, what));
}

std::vector<Statement> TemplateParser::parse() {
  Body body;
  body_until(body, {});
  return body;
}

std::string TemplateParser::body_until(Body& body, std::initializer_list<std::string_view> ends) {
  if (++depth_ > deepest_statement) refuse("statements stand too deep in each other");
  while (peek().kind != Kind::last) {
    if (peek().kind == Kind::begin_statement) {
      for (const std::string_view end : ends) {
        if (peek(1).kind != Kind::name || peek(1).text != end) continue;
        at_ += 2, --depth_;
        return std::string(end);
      }
    }
    body.push_back(statement());
  }
  if (ends.size() > 0) refuse(fmt::format("'{}' is missing at the end", *(ends.end() - 1)));
  --depth_;
  return {};
}

}  // namespace zrt::runtime::data::chat
