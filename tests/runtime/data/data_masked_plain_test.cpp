// Samples of which tokens are hidden against the same thing said plainly: every option with every other, over
// tokenizers of bytes and of pieces, place by place.
#include <map>
#include <numeric>
#include <set>

#include "catch.h"
#include "core/philox.h"
#include "runtime/data/masked_dataset.h"
#include "tests/runtime/data/data_samples.h"

namespace zrt::data_masked_plain_test {

using namespace zrt::models;
using namespace zrt::runtime::data;
using test::read;
using test::Sample;

namespace {

constexpr int32_t cls = 300, separator = 301, mask = 302, vocabulary = 310;

// Pieces "a" … of words; an id's class is its remainder: 0 stands between words, 1 begins one, others continue it.
class Pieces : public Tokenizer {
 public:
  const std::string& name() const override {
    static const std::string name = "pieces";
    return name;
  }
  int64_t vocab_size() const override { return 200; }
  int32_t eod() const override { return 7; }  // not the last id, and in the middle of a word by its remainder
  WordPart word_part(int32_t token) const override {
    if (token == eod()) return WordPart::between;
    return token % 5 == 0 ? WordPart::between : token % 5 == 1 ? WordPart::begins : WordPart::continues;
  }
  void encode(std::string_view, std::vector<int32_t>&) const override {}
  std::string decode(std::span<const int32_t>) const override { return ""; }
};

// Any tokens of a tokenizer, now and then the end of a document.
class AnyText : public SampleSource {
 public:
  AnyText(int64_t sequence, const Tokenizer& tokenizer, bool words)
      : sequence_(sequence), end_(tokenizer.eod()), words_(words), ids_(tokenizer.vocab_size()) {}
  int64_t size() const override { return 1 << 20; }
  int64_t sequence() const override { return sequence_; }
  void read(int64_t sample, const runtime::data::SampleRows& to) const override {
    for (int64_t i = 0; i < sequence_; ++i) to.tokens[i] = at(sample, i), to.targets[i] = at(sample, i + 1);
  }
  int64_t counted(int64_t) const override { return sequence_; }
  SampleOrigin origin(int64_t sample) const override { return {0, 0, sample}; }
  std::vector<DatasetFacts> datasets() const override { return {}; }
  int32_t at(int64_t sample, int64_t i) const {
    const uint32_t word = core::random_word({3, 0, 0}, static_cast<uint64_t>(sample * 1000 + i));
    if (word % 23 == 0) return end_;
    if (words_) return word % 6 == 1 ? ' ' : static_cast<int32_t>('a' + word / 100 % 26);
    return static_cast<int32_t>(word / 100 % static_cast<uint32_t>(ids_));
  }

 private:
  int64_t sequence_;
  int32_t end_;
  bool words_;
  int64_t ids_;
};

struct Case {
  Masking masking;
  const Tokenizer& tokenizer;
  uint64_t seed;
  int64_t T;
};

// The word that each place belongs to, -1 for none; and true for words that are what stands between words.
struct Words {
  std::vector<int64_t> of_place;
  std::vector<bool> between;
};
Words words_of(const Case& c, const std::vector<int32_t>& tokens) {
  Words words{std::vector<int64_t>(tokens.size(), -1), {}};
  const auto is_text = [&](size_t i) { return tokens[i] != cls && tokens[i] != separator; };
  const auto part = [&](size_t i) {
    if (tokens[i] == c.tokenizer.eod()) return WordPart::between;
    return c.masking.whole_words ? c.tokenizer.word_part(tokens[i]) : WordPart::begins;
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!is_text(i)) continue;
    const bool goes_on = i > 0 && is_text(i - 1) && part(i) == WordPart::continues && part(i - 1) != WordPart::between;
    if (!goes_on) words.between.push_back(part(i) == WordPart::between);
    words.of_place[i] = static_cast<int64_t>(words.between.size()) - 1;
  }
  return words;
}

// The sample as masked_dataset.h describes it.
Sample plain(const Case& c, const AnyText& text, int64_t number) {
  enum : uint32_t { order_of_words, treatment, other_token, cut_of_text, order_of_runs };
  const auto drawn = [&](uint32_t purpose, size_t place) {
    return core::random_word({c.seed, 0xfffffffeu, purpose},
                             static_cast<uint64_t>(number) * static_cast<uint64_t>(c.T) + place);
  };
  const auto below = [](uint64_t count, uint32_t word) { return static_cast<size_t>(count * word >> 32); };
  std::vector<int32_t> run(static_cast<size_t>(c.masking.sentence_order ? c.T - 3 : c.T - 2));
  for (size_t i = 0; i < run.size(); ++i) run[i] = text.at(number, static_cast<int64_t>(i));

  Sample sample;
  sample.tokens = {cls};
  sample.targets.assign(static_cast<size_t>(c.T), not_counted);
  if (c.masking.sentence_order) {
    // A quarter of the text is the least of either run.
    const size_t least = std::max<size_t>(1, run.size() / 4), choices = run.size() - 2 * least + 1;
    const auto middle = run.begin() + static_cast<std::ptrdiff_t>(least + below(choices, drawn(cut_of_text, 0)));
    std::vector<int32_t> one(run.begin(), middle), two(middle, run.end());
    const bool turned = drawn(order_of_runs, 0) >= 0x80000000u;
    if (turned) std::swap(one, two);
    sample.tokens.insert(sample.tokens.end(), one.begin(), one.end());
    sample.tokens.push_back(separator);
    run = two;
    sample.targets[0] = turned ? swapped : in_order;
  }
  sample.tokens.insert(sample.tokens.end(), run.begin(), run.end());
  sample.tokens.push_back(separator);

  const Words words = words_of(c, sample.tokens);
  std::vector<size_t> order(words.between.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<size_t> first(order.size(), SIZE_MAX);
  for (size_t i = sample.tokens.size(); i-- > 0;) {
    if (words.of_place[i] >= 0) first[static_cast<size_t>(words.of_place[i])] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (words.between[a] != words.between[b]) return static_cast<bool>(words.between[b]);
    return drawn(order_of_words, first[a]) < drawn(order_of_words, first[b]);
  });
  std::vector<int32_t> ordinary;
  for (int32_t id = 0; id < c.tokenizer.vocab_size(); ++id) {
    if (id != c.tokenizer.eod()) ordinary.push_back(id);
  }
  int64_t left = std::llround(0.15 * static_cast<double>(c.T));
  const std::vector<int32_t> shown = sample.tokens;
  for (const size_t word : order) {
    for (size_t i = 0; i < shown.size() && left > 0; ++i) {
      if (words.of_place[i] != static_cast<int64_t>(word)) continue;
      --left;
      sample.targets[i] = shown[i];
      const size_t tenth = below(10, drawn(treatment, i));
      if (tenth < 8) sample.tokens[i] = mask;
      if (tenth == 8) sample.tokens[i] = ordinary[below(ordinary.size(), drawn(other_token, i))];
    }
  }
  return sample;
}

}  // namespace

TEST_CASE("samples of every option beside every other are those of a plain description, token by token", "[data]") {
  const ByteTokenizer bytes;
  const Pieces pieces;
  for (const Tokenizer* tokenizer : std::initializer_list<const Tokenizer*>{&bytes, &pieces}) {
    for (const bool whole_words : {false, true}) {
      for (const bool sentence_order : {false, true}) {
        for (const int64_t T : {9, 32, 77}) {
          Masking masking{cls, separator, mask};
          masking.whole_words = whole_words, masking.sentence_order = sentence_order;
          const Case c{masking, *tokenizer, static_cast<uint64_t>(T) * 31, T};
          const AnyText text(masking.text(T), *tokenizer, tokenizer == &bytes);
          const MaskedDataset data(
              std::make_shared<AnyText>(text), T,
              {masking, word_parts(masking, tokenizer, vocabulary), c.seed, tokenizer->vocab_size(), tokenizer->eod()});
          CAPTURE(tokenizer->name(), whole_words, sentence_order, T);
          int hidden = 0, chosen = 0, ends = 0, drawn = 0;
          for (int64_t number = 0; number < 300; ++number) {
            const Sample sample = read(data, number), expected = plain(c, text, number);
            CAPTURE(number);
            REQUIRE(sample.tokens == expected.tokens);
            REQUIRE(sample.targets == expected.targets);
            for (size_t i = 0; i < sample.tokens.size(); ++i) {
              // The model may rely on this, whatever the numbers are.
              if (sample.targets[i] < 0) continue;
              ++chosen, hidden += sample.tokens[i] == mask;
              CHECK((sample.targets[i] != cls && sample.targets[i] != separator && sample.targets[i] != mask));
              const bool other = sample.tokens[i] != mask && sample.tokens[i] != sample.targets[i];
              drawn += other, ends += other && sample.tokens[i] == tokenizer->eod();
              CHECK((sample.tokens[i] == mask || sample.tokens[i] < tokenizer->vocab_size()));
            }
            CHECK(std::count(sample.tokens.begin(), sample.tokens.end(), separator) == (sentence_order ? 2 : 1));
          }
          CHECK(chosen == 300 * masking.predicted(T));
          CHECK(std::abs(hidden - 0.8 * chosen) < 5 * std::sqrt(0.16 * chosen));
          CHECK((drawn > 0 && ends == 0));
        }
      }
    }
  }
}

}  // namespace zrt::data_masked_plain_test
