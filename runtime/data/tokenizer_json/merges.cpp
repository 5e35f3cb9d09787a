#include "runtime/data/tokenizer_json/merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr size_t few = 32;  // symbols that are looked through at each merge

[[noreturn]] void refuse_merge(const Fields& fields, size_t number, const std::string& why) {
  throw core::DataError(
      core::printable(fmt::format("{}: {}[{}] {}.", fields.source(), fields.place("merges"), number, why)));
}

std::pair<std::string, std::string> pair_of(const Fields& fields, const Json& merge, size_t number) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const std::string text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  refuse_merge(
      fields, number,
      fmt::format("is {}; it must be a pair of tokens, or a string of two with a space between", shown(merge)));
}

}  // namespace

Merges::Merges(Fields& fields, const Vocabulary& vocabulary, std::string_view prefix) {
  const Json& list = fields.need("merges");
  if (!list.is_array()) fields.refuse("merges", "it must be a list");
  size_t slots = 16;
  while (slots < list.size() * 2) slots *= 2;
  slots_.resize(slots);
  mask_ = slots - 1;
  size_t number = 0;
  for (const Json& merge : list) {
    // A file may begin its merges with the version line of GPT-2's merges.txt.
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = pair_of(fields, merge, number);
    if (right.size() < prefix.size())
      refuse_merge(fields, number, fmt::format("has '{}', shorter than its prefix", right));
    const std::string whole = left + right.substr(prefix.size());
    const auto id_of = [&](const std::string& token) {
      const int32_t id = vocabulary.find(token);
      if (id < 0)
        refuse_merge(fields, number, fmt::format("needs the token '{}', which is not in the vocabulary", token));
      return id;
    };
    const int32_t left_id = id_of(left), right_id = id_of(right);
    add(left_id, right_id, {static_cast<uint32_t>(number), id_of(whole)});
    ++number;
  }
}

void Merges::add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t at = place(key);
  while (slots_[at].key != free_key && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

void Merges::apply(std::vector<int32_t>& ids, size_t begin, Scratch& scratch) const {
  if (ids.size() - begin <= few) return apply_few(ids, begin, scratch.ranks);
  apply_many(ids, begin, scratch);
}

void Merges::apply_few(std::vector<int32_t>& ids, size_t begin, std::vector<uint32_t>& ranks) const {
  size_t count = ids.size() - begin;
  if (count < 2) return;
  int32_t* const symbols = ids.data() + begin;
  ranks.resize(count);
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = find(symbols[i], symbols[i + 1]).rank;
  while (count > 1) {
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count) - 1);
    if (*lowest == none) break;
    const auto at = static_cast<size_t>(lowest - ranks.begin());
    symbols[at] = find(symbols[at], symbols[at + 1]).id;
    std::copy(symbols + at + 2, symbols + count, symbols + at + 1);
    std::copy(ranks.begin() + static_cast<std::ptrdiff_t>(at) + 1,
              ranks.begin() + static_cast<std::ptrdiff_t>(count) - 1, ranks.begin() + static_cast<std::ptrdiff_t>(at));
    --count;
    if (at > 0) ranks[at - 1] = find(symbols[at - 1], symbols[at]).rank;
    if (at + 1 < count) ranks[at] = find(symbols[at], symbols[at + 1]).rank;
  }
  ids.resize(begin + count);
}

void Merges::apply_many(std::vector<int32_t>& ids, size_t begin, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.candidates;
  const auto count = static_cast<int32_t>(ids.size() - begin);
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back({ids[begin + static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  const auto symbol = [&](int32_t at) -> Scratch::Symbol& { return symbols[static_cast<size_t>(at)]; };
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) { return a.order > b.order; };
  const auto candidate = [&](int32_t at, std::vector<Scratch::Candidate>& to) {
    const Merge merge = find(symbol(at).id, symbol(symbol(at).after).id);
    if (merge.rank == none) return false;
    to.push_back({static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(at), merge.id});
    return true;
  };
  for (int32_t i = 0; i + 1 < count; ++i) candidate(i, heap);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(static_cast<uint32_t>(top.order));
    Scratch::Symbol& left = symbol(at);
    if (left.id < 0 || left.after < 0) continue;
    Scratch::Symbol& right = symbol(left.after);
    // Its neighbours may have changed since.
    if (find(left.id, right.id).id != top.merged) continue;
    left.id = top.merged;
    right.id = -1;
    left.after = right.after;
    if (left.after >= 0) symbol(left.after).before = at;
    if (left.before >= 0 && candidate(left.before, heap)) std::push_heap(heap.begin(), heap.end(), later);
    if (left.after >= 0 && candidate(at, heap)) std::push_heap(heap.begin(), heap.end(), later);
  }
  ids.resize(begin);
  for (int32_t at = 0; at >= 0; at = symbol(at).after) ids.push_back(symbol(at).id);
}

}  // namespace zrt::runtime::data::tokenizer_json
