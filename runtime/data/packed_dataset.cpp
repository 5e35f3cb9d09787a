#include "runtime/data/packed_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "models/masking.h"
#include "runtime/data/best_fit.h"
#include "runtime/data/token_mask.h"

namespace zrt::runtime::data {
namespace {

constexpr int64_t longest_sample = int64_t{1} << 24, most_samples = int64_t{1} << 40;

// "1 sample", "2 samples"; the plural is the word with an s, or is given.
std::string counted_text(int64_t count, const std::string& one, const std::string& many = "") {
  return fmt::format("{} {}", count, count == 1 ? one : many.empty() ? one + "s" : many);
}

}  // namespace

PackedDataset::PackedDataset(const GptDatasetOptions& options)
    : prefix_(options.prefix),
      data_(open_documents(options.prefix)),
      sequence_(options.sequence),
      vocabulary_(options.vocabulary),
      padding_(options.padding) {
  const int64_t wanted = options.samples.value_or(0);
  if (sequence_ < 1 || sequence_ > longest_sample || wanted < 0)
    throw core::ConfigError(fmt::format("{}: {} samples of {} tokens were asked for; legal are 0 or more of 1 to 2^24.",
                                        data_->source(), wanted, sequence_));
  const auto [first, behind] = documents_of_part(*data_, options);
  const std::vector<Piece> all = cut(first, behind);
  if (all.empty())
    throw core::DataError(
        fmt::format("{}{}: none of its {} documents has a token behind its first that counts, so there is nothing to "
                    "learn. Name data of which some do: `zrt data show PREFIX --document 0` shows what counts.",
                    data_->source(), part_text(options), behind - first));
  NumpyRandom random(options.seed);
  const auto append = [&] { append_epoch(all, options.order == Order::megatron ? &random : nullptr); };
  append();
  counts_.samples = size();
  if (wanted > most_samples - counts_.samples)
    throw core::DataError(fmt::format("{}: epochs of {} samples for {} are more than 2^40. Ask for fewer steps.",
                                      data_->source(), counts_.samples, wanted));
  // Every epoch is packed into as many samples, because it has pieces of the same lengths.
  const int64_t epochs = std::max<int64_t>(1, (wanted + counts_.samples - 1) / counts_.samples);
  pieces_.reserve(static_cast<size_t>(epochs) * all.size());
  starts_.reserve(static_cast<size_t>(epochs * counts_.samples) + 1);
  for (int64_t epoch = 1; epoch < epochs; ++epoch) append();
}

std::vector<PackedDataset::Piece> PackedDataset::cut(int64_t first, int64_t behind) {
  std::vector<Piece> all;
  for (int64_t document = first; document < behind; ++document) {
    const int64_t rows = std::max<int64_t>(data_->length(document) - 1, 0);
    int64_t kept = 0, left_out = 0;
    for (int64_t at = 0; at < rows; at += sequence_) {
      const Piece piece{static_cast<int32_t>(document), static_cast<int32_t>(at),
                        static_cast<int32_t>(std::min(rows - at, sequence_))};
      if (counted_in(piece) == 0) {
        ++left_out;
        continue;
      }
      ++kept;
      counts_.rows += piece.rows;
      all.push_back(piece);
    }
    if (kept == 0) {
      ++counts_.without_target;
      continue;
    }
    ++counts_.documents;
    counts_.cut += rows > sequence_ ? 1 : 0;
    counts_.pieces_left_out += left_out;
  }
  return all;
}

void PackedDataset::append_epoch(std::vector<Piece> pieces, NumpyRandom* random) {
  if (random != nullptr) random->shuffle(std::span(pieces));
  std::vector<int32_t> lengths;
  lengths.reserve(pieces.size());
  for (const Piece& piece : pieces) lengths.push_back(piece.rows);
  const Packing packing = best_fit(lengths, sequence_);
  std::vector<int64_t> samples(static_cast<size_t>(packing.count), -1);  // by bin, its number in the epoch
  int64_t next = 0;
  for (const int64_t bin : packing.bins)
    if (int64_t& sample = samples[static_cast<size_t>(bin)]; sample < 0) sample = next++;
  if (random != nullptr) random->shuffle(std::span(samples));
  const auto sample_of = [&](size_t piece) {
    return static_cast<size_t>(samples[static_cast<size_t>(packing.bins[piece])]);
  };

  // A counting sort by sample keeps the order of its pieces.
  const size_t before = starts_.size() - 1;
  starts_.resize(starts_.size() + samples.size(), 0);
  for (size_t i = 0; i < pieces.size(); ++i) ++starts_[before + sample_of(i) + 1];
  for (size_t i = before + 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  std::vector<int64_t> places(starts_.begin() + static_cast<int64_t>(before), starts_.end() - 1);
  pieces_.resize(pieces_.size() + pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) pieces_[static_cast<size_t>(places[sample_of(i)]++)] = pieces[i];
}

std::span<const PackedDataset::Piece> PackedDataset::pieces(int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw core::DataError(fmt::format("{}: sample {} does not exist; it was opened for samples 0 to {}.",
                                      data_->source(), sample, size() - 1));
  const auto at = static_cast<size_t>(sample);
  return std::span(pieces_).subspan(static_cast<size_t>(starts_[at]),
                                    static_cast<size_t>(starts_[at + 1] - starts_[at]));
}

int64_t PackedDataset::counted_in(const Piece& piece) const {
  const TokenMask* mask = data_->mask();
  return mask == nullptr ? piece.rows : mask->counted(piece.document, piece.offset + int64_t{1}, piece.rows);
}

int64_t PackedDataset::counted(int64_t sample) const {
  int64_t sum = 0;
  for (const Piece& piece : pieces(sample)) sum += counted_in(piece);
  return sum;
}

SampleOrigin PackedDataset::origin(int64_t sample) const {
  const Piece& first = pieces(sample).front();
  return {0, first.document, first.offset};
}

void PackedDataset::read(int64_t sample, const SampleRows& to) const {
  const TokenMask* mask = data_->mask();
  std::vector<int32_t> ids(static_cast<size_t>(sequence_) + 1);
  int64_t done = 0;
  for (const Piece& piece : pieces(sample)) {
    const SampleRows here = to.from(done);
    data_->read(piece.document, piece.offset, piece.rows + int64_t{1}, vocabulary_, ids.data());
    std::copy_n(ids.begin(), piece.rows, here.tokens);
    std::copy_n(ids.begin() + 1, piece.rows, here.targets);
    if (here.positions != nullptr) std::iota(here.positions, here.positions + piece.rows, 0);
    for (int64_t i = 0; mask != nullptr && i < piece.rows; ++i)
      if (!mask->counts(piece.document, piece.offset + i + 1)) here.targets[i] = models::not_counted;
    done += piece.rows;
  }
  const SampleRows rest = to.from(done);
  std::fill_n(rest.tokens, sequence_ - done, padding_);
  std::fill_n(rest.targets, sequence_ - done, models::not_counted);
  if (rest.positions != nullptr) std::fill_n(rest.positions, sequence_ - done, 0);
}

std::vector<std::string> PackedDataset::fullness() const {
  const auto places = static_cast<double>(counts_.samples * sequence_);
  std::string text =
      fmt::format("{}: {} of {} tokens hold {}; {:.1f} % of their places are padding", prefix_,
                  counted_text(counts_.samples, "sample"), sequence_, counted_text(counts_.documents, "document"),
                  100 * (places - static_cast<double>(counts_.rows)) / places);
  if (counts_.cut > 0)
    text += fmt::format("; {} longer than a sample and cut into pieces",
                        counted_text(counts_.cut, "document is", "documents are"));
  return {text};
}

std::vector<std::string> PackedDataset::left_out() const {
  std::vector<std::string> parts;
  if (counts_.pieces_left_out > 0)
    parts.push_back(
        fmt::format("{} no token that counts and {} left out",
                    counted_text(counts_.pieces_left_out, "piece of a document has", "pieces of documents have"),
                    counts_.pieces_left_out == 1 ? "is" : "are"));
  if (counts_.without_target > 0)
    parts.push_back(fmt::format("{} no token that counts and {} left out",
                                counted_text(counts_.without_target, "document has", "documents have"),
                                counts_.without_target == 1 ? "is" : "are"));
  if (parts.empty()) return {};
  return {fmt::format("{}: {}", prefix_, fmt::join(parts, "; "))};
}

}  // namespace zrt::runtime::data
