#include "runtime/data/document_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "core/error.h"
#include "models/masking.h"
#include "runtime/data/numpy_random.h"
#include "runtime/data/token_mask.h"

namespace zrt::runtime::data {

DocumentDataset::DocumentDataset(const GptDatasetOptions& options)
    : prefix_(options.prefix),
      data_(open_documents(options.prefix)),
      sequence_(options.sequence),
      vocabulary_(options.vocabulary),
      padding_(options.padding) {
  if (sequence_ < 1 || options.samples.value_or(0) < 0)
    throw core::ConfigError(fmt::format("{}: {} samples of {} tokens were asked for; legal are 0 or more of 1 or more.",
                                        data_->source(), options.samples.value_or(0), sequence_));
  const auto [first, behind] = documents_of_part(*data_, options);
  std::vector<int32_t> kept;
  for (int64_t i = first; i < behind; ++i) {
    const auto document = static_cast<int32_t>(i);
    if (counted_in(document) == 0) {
      ++without_;
      continue;
    }
    kept.push_back(document);
    const int64_t lost = data_->length(i) - taken(document);
    if (lost > 0) ++cut_, cut_tokens_ += lost;
  }
  documents_ = static_cast<int64_t>(kept.size());
  if (kept.empty())
    throw core::DataError(fmt::format(
        "{}: none of its {} documents has a token that counts among the first {} behind its first: with data.documents "
        "'alone' there is no sample. Raise model.sequence, or set data.documents to 'joined'.",
        data_->source(), behind - first, sequence_));
  const int64_t epochs = std::max<int64_t>(1, (options.samples.value_or(0) + documents_ - 1) / documents_);
  int64_t all = 0;
  if (__builtin_mul_overflow(epochs, documents_, &all) || all > int64_t{1} << 40)
    throw core::DataError(fmt::format("{}: {} epochs of {} documents are more than 2^40 samples. Ask for fewer steps.",
                                      data_->source(), epochs, documents_));
  order_.reserve(static_cast<size_t>(all));
  NumpyRandom random(options.seed);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    order_.insert(order_.end(), kept.begin(), kept.end());
    if (options.order == Order::megatron) random.shuffle(std::span(order_).last(kept.size()));
  }
}

int64_t DocumentDataset::taken(int32_t document) const {
  return std::min<int64_t>(data_->length(document), sequence_ + 1);
}

int64_t DocumentDataset::counted_in(int32_t document) const {
  const int64_t targets = std::max<int64_t>(taken(document) - 1, 0);
  const TokenMask* mask = data_->mask();
  return mask == nullptr || targets == 0 ? targets : mask->counted(document, 1, targets);
}

int32_t DocumentDataset::document_of(int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw core::DataError(fmt::format("{}: sample {} does not exist; it was opened for samples 0 to {}.",
                                      data_->source(), sample, size() - 1));
  return order_[static_cast<size_t>(sample)];
}

void DocumentDataset::read(int64_t sample, const SampleRows& to) const {
  int32_t *const tokens = to.tokens, *const targets = to.targets;
  to.count_positions(sequence_);
  const int32_t document = document_of(sample);
  const int64_t count = taken(document), inputs = std::min(count, sequence_);
  data_->read(document, 0, inputs, vocabulary_, tokens);
  std::fill(tokens + inputs, tokens + sequence_, padding_);
  std::copy(tokens + 1, tokens + inputs, targets);
  std::fill(targets + inputs - 1, targets + sequence_, models::not_counted);
  if (count > inputs) data_->read(document, inputs, 1, vocabulary_, targets + sequence_ - 1);
  const TokenMask* mask = data_->mask();
  for (int64_t i = 1; mask != nullptr && i < count; ++i)
    if (!mask->counts(document, i)) targets[i - 1] = models::not_counted;
}

std::vector<std::string> DocumentDataset::left_out() const {
  std::string text;
  if (cut_ > 0)
    text = fmt::format(
        "{} of {} documents are longer than a sample (model.sequence {}) and are cut: {} tokens are not read", cut_,
        documents_, sequence_, cut_tokens_);
  if (without_ > 0)
    text += fmt::format("{}{} documents have no token that counts within a sample and are left out",
                        cut_ > 0 ? "; " : "", without_);
  if (text.empty()) return {};
  return {fmt::format("{}: {}", prefix_, text)};
}

}  // namespace zrt::runtime::data
