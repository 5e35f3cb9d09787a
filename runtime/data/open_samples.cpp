#include "runtime/data/open_samples.h"

#include "runtime/data/document_dataset.h"
#include "runtime/data/packed_dataset.h"

namespace zrt::runtime::data {

std::unique_ptr<SampleSource> open_samples(const GptDatasetOptions& options) {
  if (options.documents == DocumentUse::alone) return std::make_unique<DocumentDataset>(options);
  if (options.documents == DocumentUse::separate) return std::make_unique<PackedDataset>(options);
  return std::make_unique<GptDataset>(options);
}

}  // namespace zrt::runtime::data
