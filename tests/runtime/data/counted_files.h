// Datasets that say which of their tokens count, for tests.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/data/data_files.h"

namespace zrt::test {

// `counts`: 1 or 0 for each token. `described`: PREFIX.meta.json says that so many count.
inline void write_counted(const std::string& prefix, int64_t vocabulary, const DocumentList& documents,
                          const DocumentList& counts, std::optional<int64_t> described = {}) {
  zrt::runtime::data::IndexedDatasetWriter writer(prefix, vocabulary, true);
  for (size_t i = 0; i < documents.size(); ++i) {
    writer.append_counted(documents[i], std::vector<uint8_t>(counts[i].begin(), counts[i].end()));
    writer.end_document();
  }
  std::optional<zrt::runtime::data::DatasetMeta> meta;
  if (described) {
    meta = {"ids", vocabulary, writer.documents(), writer.tokens(), 100, 0.5};
    meta->counted_tokens = described;
  }
  writer.seal(meta);
  writer.publish();
}

}  // namespace zrt::test
