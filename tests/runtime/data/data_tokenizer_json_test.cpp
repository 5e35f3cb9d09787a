// A tokenizer.json of Hugging Face gives the ids that the library `tokenizers` gives (tests/data/tokenizers).
#include <fmt/format.h>

#include <chrono>
#include <set>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/tokenizer_json/tokenizer_json.h"
#include "runtime/data/tokenizer_json/unicode.h"
#include "tests/runtime/data/tokenizer_texts.h"

namespace zrt::data_tokenizer_json_test {

using runtime::data::tokenizer_json::JsonTokenizer;
using test::fnv;
using Json = nlohmann::json;

namespace {

// In the order of the seeds of their texts.
constexpr const char* languages[]{"en", "de", "fr", "es", "tr", "ru", "el", "ar", "hi", "th", "ja", "zh"};

const Json& goldens() {
  static const Json read = test::read_tokenizer_data("goldens");
  return read;
}

const Json& texts() {
  static const Json read = test::read_tokenizer_data("texts");
  return read;
}

std::vector<int32_t> ids_of(const JsonTokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

std::string hex(uint64_t value) {
  return fmt::format("{:016x}", value);
}

void check_hash(const JsonTokenizer& tokenizer, const std::string& text, const Json& golden) {
  const auto ids = ids_of(tokenizer, text);
  CHECK(ids.size() == golden.at(0).get<size_t>());
  CHECK(hex(fnv(ids)) == golden.at(1).get<std::string>());
}

}  // namespace

TEST_CASE("ids of 1 MB in twelve languages are those of the library tokenizers, for each of seven shapes") {
  for (const auto& [name, golden] : goldens().at("tokenizers").items()) {
    const auto tokenizer = JsonTokenizer::open(test::tokenizer_file(name), "");
    CHECK(tokenizer->vocab_size() == golden.at("vocabulary").get<int64_t>());
    uint64_t seed = 1;
    size_t bytes = 0;
    for (const char* language : languages) {
      INFO(name << ' ' << language);
      const std::string text = test::language_text(texts(), language, 88000, seed++);
      bytes += text.size();
      check_hash(*tokenizer, text, golden.at("languages").at(language));
    }
    CHECK(bytes > size_t{1} << 20);
  }
}

TEST_CASE("ids of empty texts, blanks, CRLF, marks, emoji, digits and added tokens are those of the library") {
  for (const auto& [name, golden] : goldens().at("tokenizers").items()) {
    const auto tokenizer = JsonTokenizer::open(test::tokenizer_file(name), "");
    const Json& edges = texts().at("edges");
    REQUIRE(edges.size() == golden.at("edges").size());
    for (size_t i = 0; i < edges.size(); ++i) {
      INFO(name << ' ' << edges[i].dump());
      const auto ids = ids_of(*tokenizer, edges[i].get<std::string>());
      CHECK(ids == golden.at("edges")[i].get<std::vector<int32_t>>());
      CHECK(tokenizer->decode(ids) == golden.at("decoded")[i].get<std::string>());
    }
    std::vector<int32_t> around = tokenizer->before_text();
    around.insert(around.end(), tokenizer->after_text().begin(), tokenizer->after_text().end());
    CHECK(around == golden.at("around").get<std::vector<int32_t>>());
  }
}

TEST_CASE("a word of 1 MB has the library's ids, without a wait that grows with its square") {
  const std::string text = test::text_without_space(size_t{1} << 20);
  for (const auto& [name, golden] : goldens().at("tokenizers").items()) {
    INFO(name);
    const auto tokenizer = JsonTokenizer::open(test::tokenizer_file(name), "");
    const auto start = std::chrono::steady_clock::now();
    check_hash(*tokenizer, text, golden.at("without_space"));
    // A second here is 2^40 comparisons there.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  }
}

TEST_CASE("each character has the library's ids, but for those that its Unicode does not know") {
  for (const auto& [name, golden] : goldens().at("tokenizers").items()) {
    const auto tokenizer = JsonTokenizer::open(test::tokenizer_file(name), "");
    std::set<char32_t> differences;
    for (const Json& range : golden.at("differences"))
      for (auto code = range.at(0).get<uint32_t>(); code <= range.at(1).get<uint32_t>(); ++code)
        differences.insert(code);
    for (const auto& [block, expected] : golden.at("code_points").items()) {
      const auto first = static_cast<char32_t>(std::stoul(block, nullptr, 16) << 12);
      uint64_t found = test::fnv_begin;
      for (char32_t code = first; code < first + 0x1000; ++code) {
        if ((code >= 0xD800 && code < 0xE000) || differences.contains(code)) continue;
        if (code >= 0xF0000 && (code - 0xF0000) % 257 != 0) continue;
        std::string text = "x";
        runtime::data::tokenizer_json::append(text, code);
        found = fnv(ids_of(*tokenizer, text + "y"), found);
      }
      INFO(name << " U+" << block << "000 to U+" << block << "FFF");
      CHECK(hex(found) == expected.get<std::string>());
    }
  }
}

TEST_CASE("every normalizer and pre-tokenizer cuts and rewrites texts as the library does") {
  const Json& components = goldens().at("components");
  Json vocabulary{{"<unk>", 0}, {"</s>", 1}};
  const std::string characters = components.at("characters").get<std::string>();
  for (size_t at = 0; at < characters.size();) {
    const size_t bytes = runtime::data::tokenizer_json::character_at(characters, at).bytes;
    const std::string one = characters.substr(at, bytes);
    const size_t id = vocabulary.size();
    vocabulary[one] = id;
    vocabulary[one + "|"] = id + 1;
    at += bytes;
  }
  std::vector<std::string> samples = texts().at("edges").get<std::vector<std::string>>();
  std::erase_if(samples, [](const std::string& text) { return text.find("\U0001FAE0") != std::string::npos; });
  for (const char* language : languages) samples.push_back(test::language_text(texts(), language, 1500, 7));
  REQUIRE(components.at("parts").size() > 35);
  for (const Json& part : components.at("parts")) {
    Json file{{"model",
               {{"type", "BPE"},
                {"unk_token", "<unk>"},
                {"end_of_word_suffix", "|"},
                {"vocab", vocabulary},
                {"merges", Json::array()}}}};
    file.update(part.at("part"));
    const std::string shown = part.at("part").dump(-1, ' ', true);
    if (shown.find("&&") != std::string::npos) {
      CHECK_THROWS_AS(JsonTokenizer(file.dump(), "x", {"</s>", ""}), core::DataError);
      continue;
    }
    const JsonTokenizer tokenizer(file.dump(), "x", {"</s>", ""});
    for (size_t i = 0; i < samples.size(); ++i) {
      INFO(shown << " of " << Json(samples[i].substr(0, 60)).dump(-1, ' ', true, Json::error_handler_t::replace));
      CHECK(hex(fnv(ids_of(tokenizer, samples[i]))) == part.at("ids").at(i).get<std::string>());
    }
  }
}

TEST_CASE("texts come back from byte-level ids whole, with bytes that are no UTF-8") {
  for (const char* name : {"gpt2", "llama3", "llama2"}) {
    INFO(name);
    const auto tokenizer = JsonTokenizer::open(test::tokenizer_file(name), "");
    for (const char* language : {"en", "ar", "zh"}) {
      std::string text = test::language_text(texts(), language, 20000, 3);
      // Special tokens decode to nothing.
      for (const std::string special : {"<|endoftext|>", "</s>"})
        for (size_t at = text.find(special); at != std::string::npos; at = text.find(special))
          text.erase(at, special.size());
      CHECK(tokenizer->decode(ids_of(*tokenizer, text)) == text);
    }
    const std::string broken = "a\xFF\xC3 b\xE2\x82 \xF0\x9F\x98\x80\x80";
    if (std::string(name) != "llama2") CHECK(tokenizer->decode(ids_of(*tokenizer, broken)) == broken);
    CHECK(!ids_of(*tokenizer, broken).empty());
    // Llama 2 begins each part of a text with a space.
    const std::string back = std::string(name) == "llama2" ? "a\xFF b"
                                                           : "a\xFF"
                                                             "b";
    CHECK(tokenizer->decode(ids_of(*tokenizer,
                                   "a\xFF"
                                   "b")) == back);
  }
  const auto bert = JsonTokenizer::open(test::tokenizer_file("bert"), "");
  CHECK(ids_of(*bert, "water \xFF") == ids_of(*bert, "water \xEF\xBF\xBD"));
}

TEST_CASE("one tokenizer serves several threads at once") {
  const auto tokenizer = JsonTokenizer::open(test::tokenizer_file("unigram"), "");
  const std::string text = test::language_text(texts(), "en", 50000, 5);
  const auto expected = ids_of(*tokenizer, text);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&] { ids = ids_of(*tokenizer, text); });
  for (auto& thread : threads) thread.join();
  for (const auto& ids : found) CHECK(ids == expected);
}

}  // namespace zrt::data_tokenizer_json_test
