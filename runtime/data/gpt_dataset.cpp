#include "runtime/data/gpt_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "runtime/data/dataset_meta.h"

namespace zrt::runtime::data {

namespace {

SampleIndex make_index(const TokenDocuments& data, const GptDatasetOptions& options) {
  std::pair<int64_t, int64_t> range(0, data.sequences());
  if (!options.split.empty()) range = split_sequences(options.split, data.sequences()).at(options.part);
  if (!options.split.empty() && range.second <= range.first)
    throw core::DataError(
        fmt::format("{}: data.split {} gives part {} of its {} documents none. Whole documents are given: build the "
                    "dataset of smaller "
                    "ones (`zrt data build --documents paragraph`), or hold text out there (`--validation`).",
                    data.source(), options.split, options.part, data.sequences()));
  if (range.second > std::numeric_limits<int32_t>::max())
    throw core::DataError(fmt::format("{}: it has {} sequences; Megatron's sample order can number at most {}.",
                                      data.source(), range.second, std::numeric_limits<int32_t>::max()));
  std::vector<int32_t> lengths;
  for (int64_t i = range.first; i < range.second; ++i) lengths.push_back(data.length(i));
  std::string source = data.source();
  if (!options.split.empty()) source += fmt::format(" (part {} of data.split {})", options.part, options.split);
  return build_sample_index(lengths, static_cast<int32_t>(range.first), options.sequence, options.samples, options.seed,
                            options.order, source);
}

}  // namespace

GptDataset::GptDataset(const GptDatasetOptions& options)
    : prefix_(options.prefix),
      data_(open_documents(options.prefix)),
      sequence_(options.sequence),
      vocabulary_(options.vocabulary),
      index_(make_index(*data_, options)) {}

const SampleStart& GptDataset::start(int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw core::DataError(fmt::format("{}: sample {} does not exist; it was opened for samples 0 to {}.",
                                      data_->source(), sample, size() - 1));
  return index_.starts[static_cast<size_t>(index_.order[static_cast<size_t>(sample)])];
}

SampleOrigin GptDataset::origin(int64_t sample) const {
  SampleStart at = start(sample);
  // One that starts behind a document's last token starts with the next document that has any.
  while (at.offset == data_->length(index_.documents[static_cast<size_t>(at.position)])) at = {at.position + 1, 0};
  return {0, index_.documents[static_cast<size_t>(at.position)], at.offset};
}

std::vector<DatasetFacts> GptDataset::datasets() const {
  const auto meta = read_meta(prefix_);
  return {{prefix_, data_->sequences(), data_->tokens(), data_->xxh3(), data_->tokens_xxh3(),
           meta ? tokenizer_text(*meta) : "", meta && meta->templated}};
}

void GptDataset::read(int64_t sample, int32_t* tokens, int32_t* targets) const {
  SampleStart at = start(sample);
  // The S + 1 tokens go to tokens[0..S) and the last target; the other targets are a shifted copy.
  const auto copy = [&](int64_t count, int32_t* out) {
    while (count > 0) {
      const int32_t document = index_.documents[static_cast<size_t>(at.position)];
      const int64_t here = std::min<int64_t>(count, data_->length(document) - at.offset);
      data_->read(document, at.offset, here, vocabulary_, out);
      out += here;
      count -= here;
      at.offset += here;
      if (at.offset == data_->length(document)) at = {at.position + 1, 0};
    }
  };
  copy(sequence_, tokens);
  copy(1, targets + sequence_ - 1);
  std::copy(tokens + 1, tokens + sequence_, targets);
}

}  // namespace zrt::runtime::data
