#include "runtime/data/token_documents.h"

#include "runtime/data/dataset_meta.h"
#include "runtime/data/indexed_dataset.h"
#include "runtime/data/llmc_dataset.h"

namespace zrt::runtime::data {

std::unique_ptr<TokenDocuments> open_undescribed_documents(const std::string& name) {
  if (is_llmc_name(name)) return std::make_unique<LlmcDataset>(name);
  return std::make_unique<IndexedDataset>(name);
}

std::unique_ptr<TokenDocuments> open_documents(const std::string& name) {
  auto documents = open_undescribed_documents(name);
  if (const auto meta = read_meta(name)) check_meta(*meta, name, documents->sequences(), documents->tokens());
  return documents;
}

}  // namespace zrt::runtime::data
