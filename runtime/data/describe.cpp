#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "runtime/data/build_outputs.h"
#include "runtime/data/foreign.h"
#include "runtime/data/text_measure.h"
#include "runtime/data/token_documents.h"
#include "runtime/data/token_mask.h"

namespace zrt::runtime::data {

namespace {

constexpr int64_t ids_of_piece = 1 << 16;

void require_legal(const TokenDocuments& documents, int64_t sequence, int64_t first, std::span<const int32_t> ids,
                   const Tokenizer& tokenizer, const std::string& named) {
  const size_t place = first_illegal(ids, tokenizer.vocab_size());
  if (place == ids.size()) return;
  throw core::DataError(
      fmt::format("{}: token {} of sequence {} is {}, but tokenizer {} has ids 0 to {}: another one made this dataset.",
                  documents.source(), first + static_cast<int64_t>(place), sequence, ids[place], named,
                  tokenizer.vocab_size() - 1));
}

}  // namespace

BuiltPart describe_dataset(const DescribeOptions& options) {
  const auto tokenizer = make_tokenizer(options.tokenizer, options.eod);
  const std::string description = meta_path(options.prefix), copy = tokenizer_copy(options.prefix, tokenizer.get());
  const bool copies = !tokenizer->model().empty() && !holds(copy, tokenizer->model());
  if (!options.force) {
    require_absent(description);
    if (copies) require_absent(copy);
  }
  // The old description may be of another dataset, which is no reason to refuse this one.
  const auto documents = open_undescribed_documents(options.prefix);
  TextMeasure measure(*tokenizer);
  std::vector<int32_t> ids;
  int64_t read = 0;
  for (int64_t i = 0; i < documents->sequences(); ++i) {
    for (int64_t first = 0; first < documents->length(i); first += ids_of_piece) {
      ids.resize(static_cast<size_t>(std::min(ids_of_piece, documents->length(i) - first)));
      documents->read(i, first, static_cast<int64_t>(ids.size()), int64_t{1} << 31, ids.data());
      require_legal(*documents, i, first, ids, *tokenizer, options.tokenizer);
      measure.add(ids);
      read += static_cast<int64_t>(ids.size());
      if (options.progress) options.progress(read, documents->tokens());
    }
    measure.end_document();
  }
  DatasetMeta meta = measure.meta(options.language, copy, documents->sequences(), documents->tokens());
  if (const auto mask = open_mask(options.prefix, *documents)) meta.counted_tokens = mask->counted();
  check_meta(meta, options.prefix, documents->sequences(), documents->tokens());
  if (copies) {
    OutputFile model(copy);
    write_model(model, *tokenizer);
    // An old description must never stand beside a new tokenizer.
    std::error_code failed;
    if (std::filesystem::is_regular_file(description, failed)) std::filesystem::remove(description, failed);
    model.publish();
  }
  core::write_durably(description, to_json(meta));
  return {options.prefix, meta};
}

}  // namespace zrt::runtime::data
