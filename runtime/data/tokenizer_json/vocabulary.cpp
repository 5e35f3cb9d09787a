#include "runtime/data/tokenizer_json/vocabulary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"

namespace zrt::runtime::data::tokenizer_json {

Vocabulary Vocabulary::of_object(Fields& fields) {
  const Json& entries = fields.need("vocab");
  if (!entries.is_object() || entries.empty()) fields.refuse("vocab", "it must be an object of texts and their ids");
  const auto most = static_cast<double>(entries.size()) * 2 + 1024;
  Vocabulary vocabulary;
  for (const auto& [text, id] : entries.items()) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > most)
      throw core::DataError(core::printable(
          fmt::format("{}: {} gives '{}' the id {}; ids of {} texts must be integers from 0 to {}.", fields.source(),
                      fields.place("vocab"), text, id.dump(), entries.size(), static_cast<int64_t>(most))));
    vocabulary.add(text, id.get<int32_t>());
  }
  return vocabulary;
}

void Vocabulary::add(std::string text, int32_t id) {
  if (id >= size()) texts_.resize(static_cast<size_t>(id) + 1);
  texts_[static_cast<size_t>(id)] = text;
  ids_.insert_or_assign(std::move(text), id);
}

int32_t Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

std::vector<int32_t> Vocabulary::byte_pieces() const {
  std::vector<int32_t> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.push_back(find(fmt::format("<0x{:02X}>", byte)));
  return pieces;
}

}  // namespace zrt::runtime::data::tokenizer_json
