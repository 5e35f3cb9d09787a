#include "runtime/data/masked_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace zrt::runtime::data {

namespace {

constexpr uint32_t masking_step = 0xfffffffeu;  // no step of training has this number
// The purposes of random numbers: RngKey::tensor.
enum : uint32_t { order_of_words, treatment, other_token, cut_of_text, order_of_runs };

// A number below `count` from a word.
int64_t below(int64_t count, uint32_t word) {
  return static_cast<int64_t>((static_cast<uint64_t>(count) * word) >> 32);
}

struct NamedToken {
  const char* key;
  int32_t id;
};
std::array<NamedToken, 3> named_tokens(const models::Masking& masking) {
  return {NamedToken{"model.cls_token", masking.cls}, NamedToken{"model.separator_token", masking.separator},
          NamedToken{"model.mask_token", masking.mask}};
}

}  // namespace

std::vector<WordPart> word_parts(const models::Masking& masking, const Tokenizer* tokenizer, int64_t vocabulary) {
  std::vector<WordPart> parts(static_cast<size_t>(vocabulary), WordPart::begins);
  if (tokenizer == nullptr) {
    if (!masking.whole_words) return parts;
    throw core::ConfigError(
        "model.whole_words is true, but the data has no description (PREFIX.meta.json) that says which tokens make "
        "words. Build it with `zrt data build`, or set model.whole_words to false.");
  }
  for (const NamedToken& token : named_tokens(masking)) {
    if (token.id >= tokenizer->vocab_size()) continue;
    throw core::ConfigError(
        fmt::format("{} is {}, but the data's tokenizer '{}' uses the ids 0 to {} for text. Set it to an id from {} "
                    "on, and model.vocab to {} or more.",
                    token.key, token.id, tokenizer->name(), tokenizer->vocab_size() - 1, tokenizer->vocab_size(),
                    tokenizer->vocab_size() + 3));
  }
  for (int64_t id = 0; id < std::min(vocabulary, tokenizer->vocab_size()); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (masking.whole_words) parts[static_cast<size_t>(id)] = tokenizer->word_part(token);
  }
  parts[static_cast<size_t>(tokenizer->eod())] = WordPart::between;
  return parts;
}

MaskedDataset::MaskedDataset(std::shared_ptr<const SampleSource> text, int64_t sequence, MaskedOptions options)
    : text_(std::move(text)), sequence_(sequence), options_(std::move(options)) {
  const auto named = named_tokens(options_.masking);
  const auto all = static_cast<int64_t>(options_.parts.size());
  for (int32_t id = 0; id < (options_.text > 0 ? std::min(options_.text, all) : all); ++id) {
    const bool special =
        std::any_of(named.begin(), named.end(), [&](const NamedToken& token) { return token.id == id; });
    if (!special && id != options_.end) ordinary_.push_back(id);
  }
}

uint32_t MaskedDataset::draw(uint32_t purpose, int64_t sample, int64_t place) const {
  return core::random_word({options_.seed, masking_step, purpose}, static_cast<uint64_t>(sample * sequence_ + place));
}

void MaskedDataset::lay_out(int64_t sample, int32_t* tokens, int32_t* targets) const {
  const models::Masking& masking = options_.masking;
  const int64_t count = masking.text(sequence_);
  std::vector<int32_t> text(static_cast<size_t>(count)), next(text.size());
  text_->read(sample, {text.data(), next.data()});
  for (const NamedToken& token : named_tokens(masking)) {
    if (std::find(text.begin(), text.end(), token.id) == text.end()) continue;
    throw core::DataError(
        fmt::format("sample {} holds token {}, which {} names. Set that key to an id that no text has, and model.vocab "
                    "above it.",
                    sample, token.id, token.key));
  }
  std::fill_n(targets, sequence_, models::not_counted);
  tokens[0] = masking.cls, tokens[sequence_ - 1] = masking.separator;
  if (!masking.sentence_order) {
    std::copy(text.begin(), text.end(), tokens + 1);
    return;
  }
  // Both runs have at least a quarter of the text.
  const int64_t least = std::max<int64_t>(1, count / 4);
  const int64_t cut = least + below(count - 2 * least + 1, draw(cut_of_text, sample, 0));
  const bool swaps = draw(order_of_runs, sample, 0) >> 31 != 0;
  const auto middle = text.begin() + cut;
  int32_t* to = swaps ? std::copy(middle, text.end(), tokens + 1) : std::copy(text.begin(), middle, tokens + 1);
  *to++ = masking.separator;
  swaps ? std::copy(text.begin(), middle, to) : std::copy(middle, text.end(), to);
  targets[0] = swaps ? models::swapped : models::in_order;
}

std::vector<int64_t> MaskedDataset::choose(int64_t sample, const int32_t* tokens) const {
  const models::Masking& masking = options_.masking;
  struct Word {
    bool between;  // what stands between words is chosen last, where these are not enough
    uint32_t order;
    int64_t first, count;
  };
  std::vector<Word> words;
  WordPart before = WordPart::between;
  for (int64_t place = 1; place < sequence_; ++place) {
    const int32_t token = tokens[place];
    if (token == masking.separator) {
      before = WordPart::between;
      continue;
    }
    const WordPart part = options_.parts[static_cast<size_t>(token)];
    if (part == WordPart::continues && before != WordPart::between) {
      ++words.back().count;
    } else {
      words.push_back({part == WordPart::between, draw(order_of_words, sample, place), place, 1});
    }
    before = part;
  }
  std::sort(words.begin(), words.end(), [](const Word& a, const Word& b) {
    return std::tie(a.between, a.order, a.first) < std::tie(b.between, b.order, b.first);
  });
  const auto wanted = static_cast<size_t>(masking.predicted(sequence_));
  std::vector<int64_t> places;
  for (const Word& word : words) {
    for (int64_t i = 0; i < word.count && places.size() < wanted; ++i) places.push_back(word.first + i);
  }
  return places;
}

void MaskedDataset::read(int64_t sample, const SampleRows& to) const {
  int32_t *const tokens = to.tokens, *const targets = to.targets;
  lay_out(sample, tokens, targets);
  for (const int64_t place : choose(sample, tokens)) {
    targets[place] = tokens[place];
    const int64_t tenth = below(10, draw(treatment, sample, place));
    if (tenth < 8) {
      tokens[place] = options_.masking.mask;
    } else if (tenth == 8) {
      const int64_t other = below(static_cast<int64_t>(ordinary_.size()), draw(other_token, sample, place));
      tokens[place] = ordinary_[static_cast<size_t>(other)];
    }
  }
}

}  // namespace zrt::runtime::data
