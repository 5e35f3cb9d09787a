// Reads the tokens of a template into functions that print it.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/chat/template.h"
#include "runtime/data/chat/tokens.h"

namespace zrt::runtime::data::chat {

// Prints statements one after the other, until one ends a turn of a loop.
Flow run(const std::vector<Statement>& body, Scope& scope, Text& to);

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  std::vector<Statement> parse();  // all of it
  bool has_generation() const { return has_generation_; }

 private:
  using Body = std::vector<Statement>;
  struct Call {  // arguments of one
    std::vector<Expression> list;
    std::vector<std::pair<std::string, Expression>> named;
    Arguments of(Scope& scope) const;
  };

  const Token& peek(size_t ahead = 0) const;
  bool sees(Token::Kind kind, std::string_view text) const;
  bool takes(Token::Kind kind, std::string_view text);
  bool takes_sign(std::string_view text) { return takes(Token::Kind::sign, text); }
  bool takes_name(std::string_view text) { return takes(Token::Kind::name, text); }
  void need(Token::Kind kind, std::string_view text);
  std::string need_name();
  [[noreturn]] void refuse(const std::string& what) const;

  // Statements up to a tag that begins with one of these words, which is taken; returns the word.
  std::string body_until(Body& body, std::initializer_list<std::string_view> ends);
  Statement statement();
  Statement set_statement(int line);
  Statement if_statement();
  Statement for_statement(int line);
  Statement macro_statement();
  Statement generation_statement();

  Expression expression();  // with `a if b else c`
  Expression any_of();
  Expression all_of();
  Expression negation();
  Expression comparison();
  Expression sum();
  Expression joined();
  Expression product();
  Expression signed_value(bool with_filters = true);
  Expression primary();
  Expression behind(Expression value);   // attributes, elements, calls
  Expression filters(Expression value);  // filters and tests
  Expression subscript(Expression value);
  Call call();
  Expression list_of(std::string_view end);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;  // of what stands in each other
  bool has_generation_ = false;
};

}  // namespace zrt::runtime::data::chat
