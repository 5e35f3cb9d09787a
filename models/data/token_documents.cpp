#include "models/data/token_documents.h"

#include "models/data/dataset_meta.h"
#include "models/data/indexed_dataset.h"
#include "models/data/llmc_dataset.h"

namespace zrt::models::data {

std::unique_ptr<TokenDocuments> open_documents(const std::string& name) {
  if (is_llmc_name(name)) return std::make_unique<LlmcDataset>(name);
  auto documents = std::make_unique<IndexedDataset>(name);
  if (const auto meta = read_meta(name)) check_meta(*meta, name, documents->sequences(), documents->tokens());
  return documents;
}

}  // namespace zrt::models::data
