// Tokenizing on several threads: the order and the bytes are those of one.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/encoder.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_encoder_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using zrt::core::ConfigError;
using zrt::core::DataError;

namespace {

// An id is a letter; takes longer for some documents than for others, and refuses those with a '!'.
class SlowTokenizer : public ByteTokenizer {
 public:
  explicit SlowTokenizer(bool bytewise) : bytewise_(bytewise) {}
  bool bytewise() const override { return bytewise_; }
  void encode(std::string_view document, std::vector<int32_t>& out) const override {
    if (document.starts_with('s')) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (document.find('!') != document.npos) throw DataError("refused " + std::string(document.substr(0, 8)));
    ByteTokenizer::encode(document, out);
    const int now = ++running;
    for (int most = most_running; now > most && !most_running.compare_exchange_weak(most, now);) {
    }
    if (document.starts_with('w')) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    --running;
  }
  mutable std::atomic<int> running = 0, most_running = 0;

 private:
  bool bytewise_;
};

struct Handed {
  int part;
  std::string text;  // of a document, of its ids
  bool operator==(const Handed&) const = default;
};

// The documents as they are handed on, pieces put together.
std::vector<Handed> handed_on(const Tokenizer& tokenizer, int threads, const std::vector<Handed>& documents) {
  std::vector<Handed> handed;
  bool open = false;
  Encoder encoder(tokenizer, threads, [&](const Encoded& batch) {
    size_t at = 0;
    for (size_t i = 0; i < batch.id_ends.size(); ++i) {
      if (!open) handed.push_back({batch.part, ""});
      handed.back().text += tokenizer.decode(std::span(batch.ids).subspan(at, batch.id_ends[i] - at));
      CHECK(batch.text_ends[i] == batch.id_ends[i]);
      at = batch.id_ends[i];
      open = batch.open && i + 1 == batch.id_ends.size();
    }
    int64_t counted = 0;
    for (const int64_t count : batch.counts) counted += count;
    CHECK(counted == static_cast<int64_t>(batch.text.size()));
  });
  for (const Handed& document : documents) encoder.add(document.text, document.part);
  encoder.finish();
  return handed;
}

std::vector<Handed> some_documents() {
  std::vector<Handed> documents;
  for (size_t i = 0; i < 400; ++i) {
    const size_t bytes = i % 50 == 7 ? 700'000 : i % 7 == 0 ? 90'000 : i % 97;
    std::string text = (i % 11 == 0 ? "s" : "d") + std::to_string(i) + " ";
    while (text.size() < bytes) text += static_cast<char>('a' + text.size() % 23);
    documents.push_back({i % 5 == 0 ? 1 : 0, text});
  }
  documents.push_back({0, std::string(size_t{1} << 19, 'e')});  // two pieces exactly
  return documents;
}

}  // namespace

TEST_CASE("documents are handed on as they came, whatever the number of threads", "[data]") {
  const std::vector<Handed> documents = some_documents();
  for (const bool bytewise : {false, true}) {
    const SlowTokenizer tokenizer(bytewise);
    for (const int threads : {1, 2, 3, 8}) {
      INFO(threads << " threads, bytewise " << bytewise);
      CHECK((handed_on(tokenizer, threads, documents) == documents));
    }
  }
  CHECK(handed_on(SlowTokenizer(true), 2, {{0, ""}, {1, ""}}).empty());
  CHECK(contains(error_of<ConfigError>([] { handed_on(SlowTokenizer(true), 0, {}); }), "threads is 0; legal are 1"));
}

TEST_CASE("threads work at the same time", "[data]") {
  const SlowTokenizer tokenizer(false);
  std::vector<Handed> documents;
  for (int i = 0; i < 8; ++i) documents.push_back({0, "w" + std::string(300'000, 'x')});
  handed_on(tokenizer, 1, documents);
  CHECK(tokenizer.most_running == 1);
  handed_on(tokenizer, 4, documents);
  CHECK(tokenizer.most_running >= 2);
}

TEST_CASE("the first document that is refused is the one that is told of, whichever thread is first", "[data]") {
  const SlowTokenizer tokenizer(false);
  for (const int threads : {1, 2, 8}) {
    std::vector<Handed> documents;
    for (int i = 0; i < 40; ++i)
      documents.push_back({0, (i == 5 ? "slow!" : i > 5 ? "fast!" : "good") + std::string(200'000, ' ')});
    CHECK(error_of<DataError>([&] { handed_on(tokenizer, threads, documents); }) == "refused slow!   ");
  }
}

TEST_CASE("a text that cannot be encoded is named with its file and line or document", "[data]") {
  const TemporaryFolder folder;
  // It tries all ways to part a word of many letters.
  test::write_file(folder / "t.json", R"({"added_tokens": [{"id": 1, "content": "</s>", "special": true}],
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": false},
    "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  const std::string bad = std::string(60, 'a') + "b";
  test::write_file(folder / "a.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"" + bad + "\"}\n");
  test::write_file(folder / "b.txt", "a\n\naa\n\n" + bad + "\n");
  for (const int threads : {1, 2}) {
    BuildOptions options;
    options.out = folder / "x", options.tokenizer = folder / "t.json", options.threads = threads;
    options.inputs = {folder / "a.jsonl"};
    const auto refusal = [&] { return error_of<DataError>([&] { build_dataset(options); }); };
    CHECK(contains(refusal(), (folder / "a.jsonl") + ": line 3: " + (folder / "t.json") + ": the regular expression"));
    options.inputs = {folder / "b.txt"}, options.documents = Documents::paragraph;
    CHECK(contains(refusal(), (folder / "b.txt") + ": document 3: " + (folder / "t.json")));
  }
}

TEST_CASE("a reader that fails leaves no thread behind, and neither does one whose text is thrown away", "[data]") {
  const SlowTokenizer tokenizer(false);
  CHECK_THROWS_AS(
      [&] {
        Encoder encoder(tokenizer, 4, [](const Encoded&) { throw std::runtime_error("disk full"); });
        for (int i = 0; i < 100; ++i) encoder.add(std::string(200'000, 's'), 0);
        encoder.finish();
      }(),
      std::runtime_error);
  Encoder encoder(tokenizer, 4, [](const Encoded&) {});
  for (int i = 0; i < 10; ++i) encoder.add(std::string(300'000, 's'), 0);
}

TEST_CASE("a build has the same bytes on any number of threads", "[data]") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 6000; ++i)
    text += "{\"text\": \"document " + std::to_string(i * 7919 % 6007) + " says\\n" +
            std::string(static_cast<size_t>(i % 300), 'x') + "\"}\n";
  test::write_file(folder / "a.jsonl", text);
  test::write_file(folder / "b.txt", std::string(900'000, 'y') + " prose");
  TokenizerOptions train;
  train.inputs = {folder / "a.jsonl"}, train.out = folder / "t.model", train.vocabulary = 512;
  train_tokenizer(train);
  for (const std::string& tokenizer : {std::string("bytes"), train.out}) {
    for (const double validation : {0.0, 0.1}) {
      std::vector<std::string> files;
      for (const int threads : {1, 2, 5}) {
        BuildOptions options;
        options.inputs = {folder / "a.jsonl", folder / "b.txt"}, options.out = folder / "out";
        options.tokenizer = tokenizer, options.threads = threads, options.validation = validation, options.force = true;
        options.dedup = true;
        build_dataset(options);
        std::string all;
        const std::vector<std::string> prefixes =
            validation > 0 ? std::vector<std::string>{options.out + "/train", options.out + "/validation"}
                           : std::vector<std::string>{options.out};
        for (const std::string& prefix : prefixes)
          for (const char* end : {".bin", ".idx", ".meta.json"}) all += test::read_file(prefix + end) + "|";
        files.push_back(all);
      }
      CHECK((files[0] == files[1] && files[0] == files[2]));
      CHECK(files[0].size() > 300'000);
    }
  }
}

}  // namespace zrt::data_encoder_test
