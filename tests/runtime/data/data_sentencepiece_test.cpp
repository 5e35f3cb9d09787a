// The SentencePiece tokenizer: every text comes back, training repeats itself, hostile models are refused.
#include <random>

#include "catch.h"
#include "core/error.h"
#include "core/utf8.h"
#include "runtime/data/sentencepiece_fields.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/sentencepiece_training.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_sentencepiece_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using zrt::core::ConfigError;
using zrt::core::DataError;

namespace {

// One sentence in each of twelve languages, with what is hard to keep: leading and double spaces, tabs, line ends.
const std::vector<std::string>& languages() {
  static const std::vector<std::string> texts{
      "Das Paketsystem löst Abhängigkeiten auf; größere Änderungen übernimmt der Verwalter.\n",
      "  The package system  resolves dependencies;\tthe administrator\r\nmakes larger changes.\n\n\n",
      "El sistema de paquetes resuelve las dependencias; el año que viene habrá más.\n",
      "Le système de paquets résout les dépendances ; l'œuvre est « complète » à Noël.\n",
      "Sistem paket menyelesaikan ketergantungan; pengelola membuat perubahan besar.\n",
      "Il sistema dei pacchetti risolve le dipendenze; perché l'amministratore è lì.\n",
      "パッケージシステムは依存関係を解決します。管理者が大きな変更を行います。\n",
      "O sistema de pacotes resolve as dependências; a instalação não é difícil.\n",
      "O sistema de pacotes resolve dependências; você pode fazê-lo já.\n",
      "Система пакетов разрешает зависимости; администратор вносит изменения.\n",
      "软件包系统解决依赖关系；管理员进行较大的更改。\n",
      "軟體套件系統解決相依性；管理員進行較大的變更。\n",
  };
  return texts;
}

std::string train(int64_t vocabulary = 600) {
  int64_t bytes = 0;
  for (const std::string& text : languages()) bytes += 20 * static_cast<int64_t>(text.size());
  SentencePieceTraining training(vocabulary, bytes);
  for (int i = 0; i < 20; ++i)
    for (const std::string& text : languages()) training.add(text);
  return training.train();
}

const std::string& model() {
  static const std::string bytes = train();
  return bytes;
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

// Text of all kinds: words, spaces, the space sign, control characters, any code point, any byte.
std::string random_text(std::mt19937& random, size_t parts) {
  static const std::vector<std::string> common{
      " ",      "  ",   "\n",      "\t",   "\r\n",         "\xE2\x96\x81", "\xE2\x96\x85",      "<s>", "</s>", "<unk>",
      "<0x0A>", "The ", "größere", "依赖", "\xEF\xBF\xBD", "\xEF\xBB\xBF", std::string(1, '\0')};
  std::string text;
  for (size_t i = 0; i < parts; ++i) {
    const auto kind = random() % 4, value = random();
    if (kind < 2) text += common[value % common.size()];
    if (kind == 2) text += languages()[value % languages().size()].substr(value % 7, value % 23);
    if (kind == 3) text += static_cast<char>(value);
  }
  return text;
}

// The message's field with `bytes`, as protobuf writes it.
std::string part(int number, const std::string& bytes) {
  REQUIRE(bytes.size() < 128);
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

}  // namespace

TEST_CASE("UTF-8 is what Unicode's table of well-formed bytes says", "[data]") {
  CHECK(core::utf8_character("a") == 1);
  CHECK(core::utf8_character(std::string(1, '\0')) == 1);
  CHECK(core::utf8_character("\xC3\xA9") == 2);
  CHECK(core::utf8_character("\xE4\xB8\xAD\xE6") == 3);
  CHECK(core::utf8_character("\xF4\x8F\xBF\xBF") == 4);
  for (const char* bad : {"", "\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE4\xB8",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF",
                          "\xE4"
                          "a\xAD"})
    CHECK(core::utf8_character(bad) == 0);
}

TEST_CASE("decode gives back every byte of every text", "[data]") {
  const SentencePieceTokenizer tokenizer(model(), "x.model");
  CHECK(tokenizer.vocab_size() > 300);
  CHECK(tokenizer.vocab_size() <= 600);
  int64_t ids = 0, bytes = 0;
  for (const std::string& text : languages()) {
    const std::vector<int32_t> encoded = encode(tokenizer, text);
    CHECK(tokenizer.decode(encoded) == text);
    ids += static_cast<int64_t>(encoded.size());
    bytes += static_cast<int64_t>(text.size());
  }
  CHECK(2 * ids < bytes);  // pieces, not bytes
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_text(random, random() % 40);
    const std::vector<int32_t> encoded = encode(tokenizer, text);
    CHECK(tokenizer.decode(encoded) == text);
    CHECK(std::count(encoded.begin(), encoded.end(), tokenizer.eod()) == 0);
  }
}

TEST_CASE("long texts are cut without losing a byte, and equal to their lines' ids", "[data]") {
  const SentencePieceTokenizer tokenizer(model(), "x.model");
  std::string text, line;
  std::vector<int32_t> by_line;
  while (text.size() < 200000) {
    line = languages()[text.size() % languages().size()];
    text += line;
    for (const int32_t id : encode(tokenizer, line)) by_line.push_back(id);
  }
  CHECK(encode(tokenizer, text) == by_line);
  for (const std::string& one_line : {std::string(200000, 'a'), std::string(70000, ' '), std::string(65536, '\n')})
    CHECK(tokenizer.decode(encode(tokenizer, one_line)) == one_line);
  std::string wide;
  while (wide.size() < 150001) wide += "依";
  CHECK(tokenizer.decode(encode(tokenizer, "a" + wide)) == "a" + wide);
}

TEST_CASE("the end of a document is the model's end sign, which no text contains", "[data]") {
  const SentencePieceTokenizer tokenizer(model(), "x.model");
  CHECK(tokenizer.eod() == 1);
  CHECK(tokenizer.decode(std::vector<int32_t>{tokenizer.eod()}).empty());
  CHECK(contains(error_of<DataError>([&] { tokenizer.decode(std::vector<int32_t>{-1}); }), "x.model has ids 0 to"));
  const auto beyond = static_cast<int32_t>(tokenizer.vocab_size());
  CHECK_THROWS_AS(tokenizer.decode(std::vector<int32_t>{beyond}), DataError);

  // trainer.eos_piece (47) renamed: the model has no end sign of that name any more, so an id is added.
  const SentencePieceTokenizer without(model() + part(2, "\xFA\x02\x03<e>"), "y.model");
  CHECK(without.eod() == tokenizer.vocab_size());
  CHECK(without.vocab_size() == tokenizer.vocab_size() + 1);
  CHECK(without.decode(std::vector<int32_t>{without.eod()}).empty());
}

TEST_CASE("a model's dummy prefix is a space before the document, and comes off again", "[data]") {
  const SentencePieceTokenizer plain(model(), "x.model");
  const SentencePieceTokenizer prefixed(model() + part(3, std::string("\x18\x01", 2)), "y.model");
  CHECK(encode(prefixed, "The package") == encode(plain, " The package"));
  for (const char* text : {"The package", " The", "", "\xFF", "\xE2\x96\x81", "\n\n"})
    CHECK(prefixed.decode(encode(prefixed, text)) == text);
  // A normaliser that drops spaces has no effect.
  const SentencePieceTokenizer dropping(model() + part(3, std::string("\x20\x01", 2)), "z.model");
  CHECK(dropping.decode(encode(dropping, "  a   b ")) == "  a   b ");
}

TEST_CASE("the same text trains the same tokenizer, other text another", "[data]") {
  const SentencePieceTokenizer tokenizer(model(), "x.model");
  CHECK(train() == model());
  CHECK(SentencePieceTokenizer(train(), "y").xxh3() == tokenizer.xxh3());
  CHECK(SentencePieceTokenizer(train(550), "y").xxh3() != tokenizer.xxh3());
  CHECK(tokenizer.xxh3().size() == 16);
}

TEST_CASE("sizes that cannot be trained are refused with what is legal", "[data]") {
  CHECK(contains(error_of<ConfigError>([] { SentencePieceTraining(511, 1); }), "511; legal are 512 to 1048576"));
  CHECK_THROWS_AS(SentencePieceTraining(int64_t{1} << 40, 1), ConfigError);
  CHECK_THROWS_AS(SentencePieceTraining(512, 10).train(), DataError);
  SentencePieceTraining bytes(512, 10);
  bytes.add("\xFF\xFE\t\t");
  CHECK_THROWS_AS(bytes.train(), DataError);
  // Text with fewer pieces than asked for gives a smaller model.
  SentencePieceTraining little(4096, 10);
  little.add("ab ab\n");
  const SentencePieceTokenizer tokenizer(little.train(), "x.model");
  CHECK(tokenizer.vocab_size() < 300);
  CHECK(tokenizer.decode(encode(tokenizer, "ab 依\n")) == "ab 依\n");
  // Text with more characters than the vocabulary holds: the rare ones become bytes, or it is refused by name.
  SentencePieceTraining wide(512, 10);
  for (uint32_t c = 0x4E00; c < 0x5200; ++c)
    wide.add(std::string{static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                         static_cast<char>(0x80 | (c & 63)), '\n'});
  CHECK(contains(error_of<ConfigError>([&] { wide.train(); }), "a tokenizer of 512 pieces cannot be trained"));
}

TEST_CASE("training takes evenly spread lines of a text that is too long", "[data]") {
  // A hundred times the limit is announced, so one line in a hundred is taken: the text's later words must be in it.
  SentencePieceTraining training(512, 100 * training_bytes);
  for (int i = 0; i < 4000; ++i) training.add(i < 2000 ? "first first first\n" : "second second second\n");
  const SentencePieceTokenizer tokenizer(training.train(), "x.model");
  CHECK(encode(tokenizer, "first").size() == 1);
  CHECK(encode(tokenizer, "second").size() == 1);
}

TEST_CASE("truncated and corrupt models are refused by name, or read as a model that keeps every byte", "[data]") {
  const std::string& good = model();
  const auto outcome = [](const std::string& bytes) {
    return error_of<DataError>([&] {
      const SentencePieceTokenizer tokenizer(bytes, "bad.model");
      for (const std::string& text : languages()) {
        const std::vector<int32_t> ids = encode(tokenizer, text);
        CHECK(tokenizer.decode(ids) == text);
      }
    });
  };
  CHECK(outcome(good).empty());
  for (const char* text : {"", "a", "not a model at all", "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"})
    CHECK(contains(outcome(text), "bad.model"));
  CHECK(contains(outcome(std::string(1 << 16, '\xFF')), "truncated or corrupt"));

  const size_t stride = std::getenv("ZRT_FULL_TESTS") != nullptr ? 1 : 37;
  for (size_t size = 0; size < good.size(); size += stride) {
    INFO("the first " << size << " bytes");
    CHECK(contains(outcome(good.substr(0, size)), "bad.model"));
  }
  std::mt19937 random(3);
  for (int i = 0; i < (stride == 1 ? 20000 : 300); ++i) {
    std::string bytes = good;
    const size_t at = random() % bytes.size();
    // Half of them among the specs at the end, which decide most.
    const size_t place = i % 2 == 0 ? at : bytes.size() - 1 - at % 300;
    bytes[place] = static_cast<char>(bytes[place] ^ (1 << random() % 8));
    INFO("byte " << place);
    const std::string message = outcome(bytes);
    CHECK((message.empty() || contains(message, "bad.model")));
  }
}

TEST_CASE("a model without byte pieces is refused, for it cannot hold every text", "[data]") {
  // trainer.byte_fallback (35) = false
  const std::string bytes = model() + part(2, std::string("\x98\x02\x00", 3));
  CHECK(contains(error_of<DataError>([&] { SentencePieceTokenizer(bytes, "x.model"); }),
                 "x.model: the SentencePiece model has no byte pieces"));
}

TEST_CASE("a hostile character map never reaches the library", "[data]") {
  // normalizer.precompiled_charsmap (2): a trie of 4 bytes whose units point far away.
  const std::string bytes = model() + part(3, part(2, std::string("\x04\0\0\0\xFF\xFF\xFF\xFFxx", 10)));
  const SentencePieceTokenizer tokenizer(bytes, "x.model");
  CHECK(tokenizer.decode(encode(tokenizer, languages()[0])) == languages()[0]);
  CHECK(encode(tokenizer, languages()[0]) == encode(SentencePieceTokenizer(model(), "y.model"), languages()[0]));
}

}  // namespace zrt::data_sentencepiece_test
