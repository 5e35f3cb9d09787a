#include "models/data/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "models/data/indexed_dataset_writer.h"
#include "models/data/tokenizer.h"
#include "models/data/validation_split.h"

namespace zrt::models::data {

namespace {

// One dataset being written, with the statistics of its text.
class PartWriter {
 public:
  PartWriter(std::string prefix, const Tokenizer& tokenizer)
      : prefix_(std::move(prefix)), tokenizer_(tokenizer), writer_(prefix_, tokenizer.vocab_size()) {}

  void add(std::string_view document) {
    if (document.empty()) return;
    for (const char c : document) ++histogram_[static_cast<unsigned char>(c)];
    bytes_ += static_cast<int64_t>(document.size());
    // Ids take four times the text; where the tokenizer allows it only a piece of them exists at a time.
    const size_t piece = tokenizer_.bytewise() ? size_t{1} << 18 : document.size();
    for (size_t at = 0; at < document.size(); at += piece) {
      ids_.clear();
      tokenizer_.encode(document.substr(at, piece), ids_);
      writer_.append(ids_);
    }
    const int32_t eod = tokenizer_.eod();
    writer_.append(std::span(&eod, 1));
    writer_.end_document();
  }

  BuiltPart seal() {
    const DatasetMeta meta = {tokenizer_.name(), tokenizer_.vocab_size(), writer_.documents(), writer_.tokens(), bytes_,
                              entropy()};
    writer_.seal(meta);
    return {prefix_, meta};
  }
  void publish() { writer_.publish(); }

 private:
  double entropy() const {
    double bits = 0;
    for (const int64_t count : histogram_) {
      const double p = static_cast<double>(count) / static_cast<double>(std::max<int64_t>(bytes_, 1));
      if (count > 0) bits -= p * std::log2(p);
    }
    return std::max(bits, 0.0);  // not -0
  }

  std::string prefix_;
  const Tokenizer& tokenizer_;
  IndexedDatasetWriter writer_;
  std::array<int64_t, 256> histogram_{};
  int64_t bytes_ = 0;
  std::vector<int32_t> ids_;
};

DocumentStream open_stream(const InputFiles& inputs, const BuildOptions& options, bool scanning) {
  DocumentStream::OnRead on_read;
  if (options.progress)
    on_read = [&options, scanning](const std::string& path, int64_t bytes) {
      options.progress({scanning, path, bytes});
    };
  return {inputs.files, options.documents, std::move(on_read)};
}

std::vector<int64_t> measure(const InputFiles& inputs, const BuildOptions& options) {
  DocumentStream stream = open_stream(inputs, options, true);
  std::vector<int64_t> sizes;
  for (std::string document; stream.next(document);) sizes.push_back(static_cast<int64_t>(document.size()));
  return sizes;
}

// Hands every document to train, to validation, or cut in two to both.
void distribute(DocumentStream& stream, const std::vector<int64_t>& sizes, const ValidationSplit& split,
                double fraction, PartWriter& train, PartWriter& validation) {
  size_t number = 0;
  for (std::string document; stream.next(document); ++number) {
    if (number >= sizes.size() || sizes[number] != static_cast<int64_t>(document.size()))
      throw core::DataError(fmt::format("{}: the file changed while it was read. Start again.", stream.path()));
    const std::string_view text = document;
    if (split.by_document) {
      (split.chosen[number] != 0 ? validation : train).add(text);
      continue;
    }
    const size_t kept = cut_document(text, fraction);
    train.add(text.substr(0, kept));
    validation.add(text.substr(kept));
  }
}

}  // namespace

BuildResult build_dataset(const BuildOptions& options) {
  const double fraction = options.validation;
  if (!(fraction >= 0 && fraction < 1))
    throw core::ConfigError(
        fmt::format("validation is {}; it must be a fraction of the text, 0 or more and below 1.", fraction));
  if (options.out.empty()) throw core::ConfigError("out is empty; it must be the prefix of the files to write.");
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer);
  const InputFiles inputs = find_input_files(options.inputs);

  BuildResult result;
  result.skipped = inputs.skipped;
  std::vector<int64_t> sizes;
  if (fraction > 0) sizes = measure(inputs, options);

  const std::filesystem::path out(options.out);
  PartWriter train(fraction > 0 ? (out / "train").string() : options.out, *tokenizer);
  std::optional<PartWriter> validation;
  DocumentStream stream = open_stream(inputs, options, false);
  if (fraction > 0) {
    validation.emplace((out / "validation").string(), *tokenizer);
    const ValidationSplit split = split_documents(sizes, fraction);
    result.split_by_document = split.by_document;
    distribute(stream, sizes, split, fraction, train, *validation);
  } else {
    for (std::string document; stream.next(document);) train.add(document);
  }
  result.skipped.insert(result.skipped.end(), stream.skipped().begin(), stream.skipped().end());
  result.files = static_cast<int64_t>(inputs.files.size() - stream.skipped().size());

  result.train = train.seal();
  if (validation) result.validation = validation->seal();
  if (result.train.meta.documents == 0 || (validation && result.validation->meta.documents == 0))
    throw core::DataError(fmt::format(
        "{}: {} bytes of text are too few{}. Name more text.", fmt::join(options.inputs, ", "),
        result.train.meta.bytes + (validation ? result.validation->meta.bytes : 0),
        validation ? fmt::format(" to set the fraction {} aside for validation", fraction) : std::string()));

  // An old validation part must never stand beside new training data that may contain it.
  if (validation) {
    retire_dataset(result.validation->prefix);
    train.publish();
    validation->publish();
  } else {
    train.publish();
  }
  return result;
}

}  // namespace zrt::models::data
