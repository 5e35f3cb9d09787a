// Samples of which tokens are hidden: how many, which, what becomes of them, and that nothing but seed, number and
// place decides it.
#include <cmath>
#include <map>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/masked_dataset.h"
#include "tests/runtime/data/data_samples.h"

namespace zrt::data_masked_test {

using namespace zrt::models;
using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::read;
using test::Sample;

namespace {

constexpr int64_t T = 64, vocabulary = 260;

// Text of a repeated sentence; sample n begins at its byte n.
class Sentences : public SampleSource {
 public:
  Sentences(int64_t sequence, std::string text) : sequence_(sequence), text_(std::move(text)) {}
  int64_t size() const override { return 1000; }
  int64_t sequence() const override { return sequence_; }
  void read(int64_t sample, const runtime::data::SampleRows& to) const override {
    for (int64_t i = 0; i < sequence_; ++i) {
      to.tokens[i] = at(sample + i), to.targets[i] = at(sample + i + 1);
    }
  }
  int64_t counted(int64_t) const override { return sequence_; }
  SampleOrigin origin(int64_t sample) const override { return {0, 0, sample}; }
  std::vector<DatasetFacts> datasets() const override { return {}; }
  int32_t at(int64_t i) const { return static_cast<unsigned char>(text_[static_cast<size_t>(i) % text_.size()]); }

 private:
  int64_t sequence_;
  std::string text_;
};

const std::string some_text = "a model of both sides names the words that a reader does not see, ";

Masking masking(bool whole_words, bool sentence_order = false) {
  Masking masking{257, 258, 259};
  masking.whole_words = whole_words, masking.sentence_order = sentence_order;
  return masking;
}

MaskedDataset make(const Masking& masking, uint64_t seed = 1, const std::string& text = some_text) {
  const ByteTokenizer bytes;
  return {std::make_shared<Sentences>(masking.text(T), text), T,
          MaskedOptions{masking, word_parts(masking, &bytes, vocabulary), seed, bytes.vocab_size(), bytes.eod()}};
}

// The tokens as they were before some were hidden.
std::vector<int32_t> shown(const Sample& sample) {
  std::vector<int32_t> tokens = sample.tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (sample.targets[i] >= 0) tokens[i] = sample.targets[i];
  }
  return tokens;
}

bool same(const Sample& a, const Sample& b) {
  return a.tokens == b.tokens && a.targets == b.targets;
}

}  // namespace

TEST_CASE("every sample is [CLS], its text and [SEP], and as many of its tokens have targets", "[data]") {
  for (const bool whole_words : {false, true}) {
    for (const std::string& text : {some_text, std::string("  \n "), std::string("x")}) {
      const MaskedDataset data = make(masking(whole_words), 1, text);
      const Sentences plain(T - 2, text);
      CHECK((data.size() == 1000 && data.sequence() == T && data.origin(7).offset == 7));
      for (int64_t n = 0; n < 200; ++n) {
        const Sample sample = read(data, n);
        const std::vector<int32_t> tokens = shown(sample);
        CHECK((tokens.front() == 257 && tokens.back() == 258));
        for (int64_t i = 0; i < T - 2; ++i) REQUIRE(tokens[static_cast<size_t>(i + 1)] == plain.at(n + i));
        CHECK(std::count_if(sample.targets.begin(), sample.targets.end(), [](int32_t x) { return x >= 0; }) == 10);
        for (const int32_t target : sample.targets) CHECK((target >= 0 || target == not_counted));
      }
    }
  }
}

TEST_CASE("of the chosen tokens eight in ten are hidden, one is another and one stays", "[data]") {
  const MaskedDataset data = make(masking(false));
  double hidden = 0, kept = 0, all = 0;
  std::map<int32_t, int> others;
  std::map<size_t, int> places;
  for (int64_t n = 0; n < 1000; ++n) {
    const Sample sample = read(data, n);
    for (size_t i = 0; i < sample.tokens.size(); ++i) {
      if (sample.targets[i] < 0) continue;
      ++all, ++places[i];
      hidden += sample.tokens[i] == 259, kept += sample.tokens[i] == sample.targets[i];
      if (sample.tokens[i] != 259 && sample.tokens[i] != sample.targets[i]) ++others[sample.tokens[i]];
    }
  }
  const auto near = [&](double count, double share) {
    return std::abs(count - share * all) < 4 * std::sqrt(all * share * (1 - share));
  };
  CHECK(all == 10000);
  CHECK(near(hidden, 0.8));
  CHECK(near(kept, 0.1 + 0.1 / 256));
  CHECK((others.begin()->first < 8 && others.rbegin()->first > 248 && others.rbegin()->first < 256));
  CHECK(others.size() > 200);
  // Every place of the text is chosen alike.
  CHECK((places.size() == T - 2 && places.begin()->first == 1));
  for (const auto& [place, count] : places)
    CHECK(std::abs(count - 10000.0 / (T - 2)) < 5 * std::sqrt(10000.0 / (T - 2)));
}

TEST_CASE("a sample's mask depends on the seed and its number, and not on what was read before", "[data]") {
  const MaskedDataset one = make(masking(true)), again = make(masking(true)), other = make(masking(true), 2);
  std::set<std::vector<int32_t>> targets;
  for (int64_t n = 99; n >= 0; --n) {
    CHECK(same(read(one, n), read(again, n)));
    CHECK(!same(read(one, n), read(other, n)));
    // 66 samples on, the text is the same.
    CHECK(shown(read(one, n)) == shown(read(one, n + static_cast<int64_t>(some_text.size()))));
    CHECK(read(one, n).targets != read(one, n + static_cast<int64_t>(some_text.size())).targets);
    targets.insert(read(one, n).targets);
  }
  CHECK(targets.size() == 100);
}

TEST_CASE("whole words are hidden together, but for one that is cut where there are enough", "[data]") {
  const MaskedDataset data = make(masking(true));
  int cut_words = 0;
  for (int64_t n = 0; n < 300; ++n) {
    const Sample sample = read(data, n);
    const std::vector<int32_t> tokens = shown(sample);
    int cut = 0;
    for (size_t i = 1; i + 1 < tokens.size();) {
      size_t end = i;
      while (end + 1 < tokens.size() && tokens[end] != ' ') ++end;
      const auto chosen =
          std::count_if(sample.targets.begin() + static_cast<std::ptrdiff_t>(i),
                        sample.targets.begin() + static_cast<std::ptrdiff_t>(end), [](int32_t x) { return x >= 0; });
      if (chosen != 0 && chosen != static_cast<std::ptrdiff_t>(end - i)) {
        ++cut;
        CHECK(sample.targets[i] >= 0);  // the first of its tokens are chosen
      }
      if (end + 1 < tokens.size()) CHECK(sample.targets[end] == not_counted);  // white space
      i = end + 1;
    }
    CHECK(cut <= 1);
    cut_words += cut;
  }
  CHECK((cut_words > 100 && cut_words < 300));
}

TEST_CASE("two runs of text stand in order or swapped, each about half of the time", "[data]") {
  const MaskedDataset data = make(masking(false, true));
  const Sentences plain(T - 3, some_text);
  int in_turn = 0;
  std::set<std::ptrdiff_t> cuts;
  for (int64_t n = 0; n < 400; ++n) {
    const Sample sample = read(data, n);
    const std::vector<int32_t> tokens = shown(sample);
    const auto first = std::find(tokens.begin(), tokens.end(), 258);
    std::vector<int32_t> a(tokens.begin() + 1, first), b(first + 1, tokens.end() - 1);
    cuts.insert(first - tokens.begin());
    CHECK((a.size() >= 15 && b.size() >= 15));
    REQUIRE((sample.targets[0] == in_order || sample.targets[0] == swapped));
    if (sample.targets[0] == swapped) std::swap(a, b);
    in_turn += sample.targets[0] == in_order;
    a.insert(a.end(), b.begin(), b.end());
    for (int64_t i = 0; i < T - 3; ++i) REQUIRE(a[static_cast<size_t>(i)] == plain.at(n + i));
    CHECK(std::count_if(sample.targets.begin(), sample.targets.end(), [](int32_t x) { return x >= 0; }) == 10);
  }
  CHECK(std::abs(in_turn - 200) < 40);
  CHECK(cuts.size() > 25);
}

TEST_CASE("words of pieces begin with white space, words of bytes stand between it", "[data]") {
  CHECK(word_part_of(" the") == WordPart::begins);
  CHECK(word_part_of("ing") == WordPart::continues);
  for (const char* text : {"", " ", "\n\t"}) CHECK(word_part_of(text) == WordPart::between);
  const ByteTokenizer bytes;
  CHECK(bytes.word_part('a') == WordPart::continues);
  for (const int32_t token : {int32_t{' '}, int32_t{'\n'}, bytes.eod()})
    CHECK(bytes.word_part(token) == WordPart::between);
}

TEST_CASE("a token that is drawn anew is one of text, and never the end of a document", "[data]") {
  const ByteTokenizer bytes;
  for (const bool whole_words : {false, true}) {
    Masking wide = masking(whole_words);
    wide.cls = 997, wide.separator = 998, wide.mask = 999;
    const MaskedDataset data(std::make_shared<Sentences>(wide.text(T), some_text), T,
                             {wide, word_parts(wide, &bytes, 1000), 1, bytes.vocab_size(), bytes.eod()});
    int drawn = 0, wrong = 0;
    for (int64_t number = 0; number < 400; ++number) {
      const Sample sample = read(data, number);
      for (size_t i = 0; i < sample.tokens.size(); ++i) {
        if (sample.targets[i] < 0 || sample.tokens[i] == wide.mask || sample.tokens[i] == sample.targets[i]) continue;
        ++drawn;
        wrong += sample.tokens[i] >= 256;
      }
    }
    CHECK(drawn > 50);
    CHECK(wrong == 0);
  }
}

TEST_CASE("ids that text uses are refused, as are words of an unknown tokenizer", "[data]") {
  const ByteTokenizer bytes;
  Masking wrong = masking(false);
  wrong.separator = 102;
  const std::string text = error_of<core::ConfigError>([&] { word_parts(wrong, &bytes, vocabulary); });
  CHECK(contains(text, "model.separator_token is 102"));
  CHECK(contains(text, "model.vocab to 260 or more"));
  CHECK(contains(error_of<core::ConfigError>([&] { word_parts(masking(true), nullptr, vocabulary); }),
                 "model.whole_words is true"));
  CHECK(word_parts(masking(false), nullptr, vocabulary).size() == vocabulary);
  // The text itself shows it where no tokenizer is known.
  wrong.separator = 'w';
  const MaskedDataset data(std::make_shared<Sentences>(T - 2, some_text), T,
                           {wrong, word_parts(wrong, nullptr, vocabulary), 1});
  CHECK(contains(error_of<core::DataError>([&] { read(data, 0); }), "model.separator_token"));
}

}  // namespace zrt::data_masked_test
