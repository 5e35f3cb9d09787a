#include "runtime/data/token_documents.h"

#include <fmt/format.h>

#include "core/error.h"
#include "runtime/data/dataset_meta.h"
#include "runtime/data/indexed_dataset.h"
#include "runtime/data/llmc_dataset.h"
#include "runtime/data/token_mask.h"

namespace zrt::runtime::data {

TokenDocuments::TokenDocuments() = default;
TokenDocuments::~TokenDocuments() = default;

void TokenDocuments::set_mask(std::unique_ptr<const TokenMask> mask) {
  mask_ = std::move(mask);
}

std::unique_ptr<TokenDocuments> open_undescribed_documents(const std::string& name) {
  if (is_llmc_name(name)) return std::make_unique<LlmcDataset>(name);
  return std::make_unique<IndexedDataset>(name);
}

std::unique_ptr<TokenDocuments> open_documents(const std::string& name) {
  auto documents = open_undescribed_documents(name);
  const auto meta = read_meta(name);
  if (meta) check_meta(*meta, name, documents->sequences(), documents->tokens());
  auto mask = open_mask(name, *documents);
  if (meta && meta->counted_tokens && (mask ? mask->counted() : -1) != *meta->counted_tokens)
    throw core::DataError(
        fmt::format("{}: {} says that {} tokens count. Build the dataset again, or copy all its files again.",
                    idx_path(counts_prefix(name)),
                    mask ? fmt::format("{} tokens count, but {}", mask->counted(), meta_path(name))
                         : fmt::format("there is no such file, but {}", meta_path(name)),
                    *meta->counted_tokens));
  documents->set_mask(std::move(mask));
  return documents;
}

}  // namespace zrt::runtime::data
