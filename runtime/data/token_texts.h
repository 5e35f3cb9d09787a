// The texts that ids stand for in a tokenizer's file, so that two files may be compared.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace zrt::runtime::data {

struct TokenTexts {
  std::string kind;                      // the file's name, or "bytes"
  std::map<int64_t, std::string> texts;  // by id, as the file spells them
};

TokenTexts byte_texts();  // those of ByteTokenizer, without the end of a document

// Reads tokenizer.json, a SentencePiece model (.model), vocab.json or vocab.txt. Nothing where the contents are no such
// file.
std::optional<TokenTexts> read_token_texts(const std::string& name, const std::string& contents);

// Says which id stands for another text, with both texts and sizes; "" where all ids that both have agree.
std::string different_token(const TokenTexts& a, const TokenTexts& b);

}  // namespace zrt::runtime::data
