// The unigram language model (Kudo 2018): the pieces whose scores add up to most.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/data/tokenizer_json/model.h"
#include "runtime/data/tokenizer_json/trie.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr double unknown_penalty = 10;  // below the lowest score

// The library reads a number as its digits, rounded, times a power of ten, rounded again. Where two ways to cut a word
// have equal scores but for the last bit, that bit decides.
double as_library_reads(double score) {
  std::array<char, 32> text{};
  const auto [end, failed] =
      std::to_chars(text.data(), text.data() + text.size(), std::abs(score), std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  for (const char* at = text.data(); failed == std::errc() && at != end; ++at) {
    if (*at == 'e') {
      int power = 0;
      std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, power);
      exponent += power;
      break;
    }
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (fraction) --exponent;
  }
  if (std::abs(exponent) > 300) return score;
  const double power = std::pow(10.0, std::abs(exponent));
  const auto whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, score);
}

class Unigram : public Model {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, int32_t unknown, bool byte_fallback, std::string source)
      : Model(std::move(vocabulary)),
        scores_(std::move(scores)),
        unknown_(unknown),
        byte_fallback_(byte_fallback),
        source_(std::move(source)),
        byte_pieces_(vocabulary_.byte_pieces()) {
    lowest_ = *std::min_element(scores_.begin(), scores_.end());
    std::vector<std::pair<std::string, int32_t>> words;
    for (int32_t id = 0; id < vocabulary_.size(); ++id) words.emplace_back(vocabulary_.text(id), id);
    pieces_ = Trie(std::move(words));
  }

  int32_t byte_id(uint8_t byte) const override { return byte_fallback_ ? byte_pieces_[byte] : -1; }

 protected:
  void find_ids(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const override {
    auto& steps = scratch.steps;  // the best way to each end
    steps.assign(word.size() + 1, {0, -1, -1});
    for (size_t at = 0; at < word.size();) {
      const size_t character = character_at(word, at).bytes;
      const double till_here = steps[at].score;
      bool single = false;
      const auto offer = [&](size_t bytes, int32_t id, double score) {
        Scratch::Step& step = steps[at + bytes];
        if (step.begin < 0 || till_here + score > step.score) step = {till_here + score, static_cast<int32_t>(at), id};
      };
      pieces_.prefixes(word.substr(at), [&](size_t bytes, int32_t id) {
        offer(bytes, id, scores_[static_cast<size_t>(id)]);
        single = single || bytes == character;
      });
      if (!single) {
        require_unknown(word.substr(at, character));
        offer(character, unknown_, lowest_ - unknown_penalty);
      }
      at += character;
    }
    emit(word, steps, out);
  }

 private:
  void require_unknown(std::string_view character) const {
    if (unknown_ >= 0) return;
    throw core::DataError(core::printable(
        fmt::format("{}: no piece begins with '{}', and model.unk_id names none for unknown text. Name one there.",
                    source_, character)));
  }

  // Walks back from the end. Neighbours that are unknown are one.
  void emit(std::string_view word, const std::vector<Scratch::Step>& steps, std::vector<int32_t>& out) const {
    const size_t first = out.size();
    size_t unknown_end = 0;  // of a run of unknown text, 0 for none
    const auto flush = [&](size_t begin) {
      if (unknown_end > 0) push_backwards(word.substr(begin, unknown_end - begin), out);
      unknown_end = 0;
    };
    for (size_t end = word.size(); end > 0;) {
      const Scratch::Step& step = steps[end];
      const auto begin = static_cast<size_t>(step.begin);
      if (step.id == unknown_) {
        if (unknown_end == 0) unknown_end = end;
      } else {
        flush(end);
        out.push_back(step.id);
      }
      end = begin;
    }
    flush(0);
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  }

  void push_backwards(std::string_view text, std::vector<int32_t>& out) const {
    const int32_t id = vocabulary_.find(text);
    const bool bytes = byte_fallback_ && id < 0 && std::all_of(text.begin(), text.end(), [&](char c) {
                         return byte_pieces_[static_cast<unsigned char>(c)] >= 0;
                       });
    if (!bytes) return out.push_back(id >= 0 ? id : unknown_);
    for (size_t i = text.size(); i-- > 0;) out.push_back(byte_pieces_[static_cast<unsigned char>(text[i])]);
  }

  std::vector<double> scores_;
  int32_t unknown_;
  bool byte_fallback_;
  std::string source_;
  std::vector<int32_t> byte_pieces_;
  double lowest_ = 0;
  Trie pieces_;
};

}  // namespace

std::unique_ptr<Model> read_unigram(Fields& fields) {
  const Json& entries = fields.need("vocab");
  if (!entries.is_array() || entries.empty()) fields.refuse("vocab", "it must be a list of pieces and their scores");
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const Json& entry : entries) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number() ||
        !std::isfinite(entry[1].get<double>()))
      throw core::DataError(
          core::printable(fmt::format("{}: {}[{}] is {}; it must be a pair of a piece and its score.", fields.source(),
                                      fields.place("vocab"), scores.size(), shown(entry))));
    vocabulary.add(entry[0].get<std::string>(), static_cast<int32_t>(scores.size()));
    scores.push_back(as_library_reads(entry[1].get<double>()));
  }
  const auto last = static_cast<int64_t>(scores.size()) - 1;
  const auto unknown = static_cast<int32_t>(fields.number("unk_id", 0, last, -1));
  const bool byte_fallback = fields.flag("byte_fallback", false);
  fields.finish();
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unknown, byte_fallback, fields.source());
}

}  // namespace zrt::runtime::data::tokenizer_json
