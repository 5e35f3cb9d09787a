// Opens a dataset's samples as data.documents says.
#pragma once
#include <memory>

#include "runtime/data/gpt_dataset.h"
#include "runtime/data/sample_source.h"

namespace zrt::runtime::data {

std::unique_ptr<SampleSource> open_samples(const GptDatasetOptions& options);

}  // namespace zrt::runtime::data
