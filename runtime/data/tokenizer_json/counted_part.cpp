#include "runtime/data/tokenizer_json/counted_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"

namespace zrt::runtime::data::tokenizer_json {
namespace {

// Characters that a normalizer may join to one; beyond that the two texts have nothing to do with each other.
constexpr int most_joined = 64;

bool goes_on(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u;
}

}  // namespace

// Tokens that spell the piece from its front or from its back on have their places; those between, such as one of
// unknown characters, share what is left.
void CountedPart::add(std::string_view piece, const std::vector<std::string>& tokens) {
  size_t begin = flat_.size(), end = begin + piece.size(), first = 0, last = tokens.size();
  flat_ += piece;
  std::vector<Span> spans(tokens.size());
  const auto spelled = [&](size_t at, const std::string& token) {
    return token.size() <= end - begin && flat_.compare(at, token.size(), token) == 0;
  };
  for (; first < last && spelled(begin, tokens[first]); ++first) {
    spans[first] = {begin, begin + tokens[first].size(), true};
    begin += tokens[first].size();
  }
  for (; first < last && spelled(end - tokens[last - 1].size(), tokens[last - 1]); --last) {
    spans[last - 1] = {end - tokens[last - 1].size(), end, true};
    end -= tokens[last - 1].size();
  }
  // The places are wrong where no token is left to stand for the rest.
  if (first == last && begin < end)
    begin = flat_.size() - piece.size(), end = flat_.size(), first = 0, last = tokens.size();
  for (size_t i = first; i < last; ++i) spans[i] = {begin, end, last - first == 1};
  spans_.insert(spans_.end(), spans.begin(), spans.end());
}

// Inside of what the normalizer has joined there is no such place: the next one on that side stands in.
size_t CountedPart::place(std::string_view part, size_t at, bool backwards, const Flatten& flatten) const {
  for (int tried = 0; tried < most_joined; ++tried) {
    if (at == 0) return 0;
    if (at == part.size()) return flat_.size();
    if (const std::string before = flatten(part.substr(0, at)); flat_.starts_with(before)) return before.size();
    do backwards ? --at : ++at;
    while (goes_on(part, at));
  }
  throw core::DataError(fmt::format("the tokenizer rewrites '{}' so that it is not known which of its tokens count",
                                    core::printable(std::string(part.substr(0, 100)))));
}

void CountedPart::count(std::string_view part, std::string_view counts, const Flatten& flatten,
                        std::vector<uint8_t>& out) const {
  std::string flat_counts(flat_.size(), 0);
  for (size_t at = 0; at < counts.size();) {
    const size_t end = std::min(counts.find(counts[at] != 0 ? '\0' : '\1', at), counts.size());
    if (counts[at] != 0) {
      const size_t from = place(part, at, true, flatten), to = place(part, end, false, flatten);
      if (from < to)
        std::fill(flat_counts.begin() + static_cast<int64_t>(from), flat_counts.begin() + static_cast<int64_t>(to), 1);
    }
    at = end;
  }
  for (const Span& span : spans_) {
    const std::string_view here = std::string_view(flat_counts).substr(span.begin, span.end - span.begin);
    const bool some = here.find('\1') != std::string_view::npos;
    if (some && !span.exact && here.find('\0') != std::string_view::npos)
      throw core::DataError(fmt::format(
          "a part of '{}' counts, but the tokenizer's tokens do not spell it, so it is not known which of them do",
          core::printable(flat_.substr(span.begin, std::min<size_t>(span.end - span.begin, 100)))));
    out.push_back(some ? 1 : 0);
  }
}

}  // namespace zrt::runtime::data::tokenizer_json
