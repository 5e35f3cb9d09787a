#include "runtime/data/gpt_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "models/masking.h"
#include "runtime/data/dataset_meta.h"
#include "runtime/data/token_mask.h"

namespace zrt::runtime::data {

namespace {

SampleIndex make_index(const TokenDocuments& data, const GptDatasetOptions& options) {
  const std::pair<int64_t, int64_t> range = documents_of_part(data, options);
  std::vector<int32_t> lengths;
  for (int64_t i = range.first; i < range.second; ++i) lengths.push_back(data.length(i));
  return build_sample_index(lengths, static_cast<int32_t>(range.first), options.sequence, options.samples, options.seed,
                            options.order, data.source() + part_text(options));
}

}  // namespace

std::string part_text(const GptDatasetOptions& options) {
  constexpr const char* names[] = {"training", "validation", "test"};
  if (options.split.empty()) return "";
  return fmt::format(" (the {} part of data.split {})", names[options.part], options.split);
}

std::pair<int64_t, int64_t> documents_of_part(const TokenDocuments& data, const GptDatasetOptions& options) {
  std::pair<int64_t, int64_t> range(0, data.sequences());
  if (!options.split.empty()) range = split_sequences(options.split, data.sequences()).at(options.part);
  if (!options.split.empty() && range.second <= range.first)
    throw core::DataError(
        fmt::format("{}{}: none of its {} documents is in that part. Whole documents are given: build the dataset of "
                    "smaller ones (`zrt data build --documents paragraph`), or hold text out there (`--validation`).",
                    data.source(), part_text(options), data.sequences()));
  if (range.second > std::numeric_limits<int32_t>::max())
    throw core::DataError(fmt::format("{}: it has {} sequences; Megatron's sample order can number at most {}.",
                                      data.source(), range.second, std::numeric_limits<int32_t>::max()));
  return range;
}

DatasetFacts facts_of(const std::string& prefix, const TokenDocuments& data) {
  const auto meta = read_meta(prefix);
  return {prefix,
          data.sequences(),
          data.tokens(),
          data.xxh3(),
          data.tokens_xxh3(),
          meta ? tokenizer_text(*meta) : "",
          meta && meta->templated,
          data.mask() != nullptr ? data.mask()->xxh3() : ""};
}

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
  return {facts_of(prefix_, *data_)};
}

template <class Run>
void GptDataset::walk(SampleStart at, int64_t count, const Run& run) const {
  while (count > 0) {
    const int32_t document = index_.documents[static_cast<size_t>(at.position)];
    const int64_t here = std::min<int64_t>(count, data_->length(document) - at.offset);
    if (here > 0) run(document, at.offset, here);
    count -= here;
    at = {at.position + 1, 0};
  }
}

int64_t GptDataset::counted(int64_t sample) const {
  SampleStart at = start(sample);
  const TokenMask* mask = data_->mask();
  if (mask == nullptr) return sequence_;
  const SampleOrigin first = origin(sample);  // its first token is no target
  int64_t sum = mask->counts(first.document, first.offset) ? -1 : 0;
  walk(at, sequence_ + 1,
       [&](int32_t document, int64_t offset, int64_t count) { sum += mask->counted(document, offset, count); });
  return sum;
}

void GptDataset::read(int64_t sample, const SampleRows& to) const {
  int32_t *const tokens = to.tokens, *const targets = to.targets;
  to.count_positions(sequence_);
  // The S + 1 tokens go to tokens[0..S) and the last target; the other targets are a shifted copy.
  int64_t done = 0;
  const auto copy = [&](int32_t document, int64_t offset, int64_t count) {
    const int64_t inputs = std::min(count, sequence_ - done);
    if (inputs > 0) data_->read(document, offset, inputs, vocabulary_, tokens + done);
    if (inputs < count) data_->read(document, offset + inputs, 1, vocabulary_, targets + sequence_ - 1);
    done += count;
  };
  walk(start(sample), sequence_ + 1, copy);
  std::copy(tokens + 1, tokens + sequence_, targets);
  const TokenMask* mask = data_->mask();
  if (mask == nullptr) return;
  int64_t target = -1;
  walk(start(sample), sequence_ + 1, [&](int32_t document, int64_t offset, int64_t count) {
    for (int64_t i = 0; i < count; ++i, ++target)
      if (target >= 0 && !mask->counts(document, offset + i)) targets[target] = models::not_counted;
  });
}

}  // namespace zrt::runtime::data
