#include "runtime/data/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/error.h"
#include "core/file.h"
#include "runtime/data/duplicates.h"
#include "runtime/data/indexed_dataset_writer.h"
#include "runtime/data/made_folders.h"
#include "runtime/data/output_file.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/sentencepiece_training.h"
#include "runtime/data/validation_split.h"

namespace zrt::runtime::data {

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

  BuiltPart seal(const std::string& language, const std::string& tokenizer_file) {
    DatasetMeta meta;
    meta.tokenizer = tokenizer_.name();
    meta.tokenizer_xxh3 = tokenizer_.xxh3();
    if (!tokenizer_.model().empty()) meta.tokenizer_file = std::filesystem::path(tokenizer_file).filename().string();
    meta.tokenizer_eod = tokenizer_.eod_text();
    meta.language = language;
    meta.vocabulary = tokenizer_.vocab_size();
    meta.documents = writer_.documents();
    meta.tokens = writer_.tokens();
    meta.bytes = bytes_;
    meta.unigram_entropy = entropy();
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

// The documents of the inputs, without duplicates if they are not wanted. Every pass over them gives the same ones.
class Source {
 public:
  Source(const InputFiles& inputs, const BuildOptions& options, bool scanning)
      : stream_(inputs.files, options.documents, on_read(options, scanning)) {
    if (options.dedup) finder_.emplace();
  }
  bool next(std::string& document) {
    while (stream_.next(document)) {
      if (!finder_ || !finder_->seen(document)) return true;
      ++duplicates_;
    }
    return false;
  }
  const DocumentStream& stream() const { return stream_; }
  int64_t duplicates() const { return duplicates_; }

 private:
  static DocumentStream::OnRead on_read(const BuildOptions& options, bool scanning) {
    if (!options.progress) return {};
    return [&options, scanning](const std::string& path, int64_t bytes) { options.progress({scanning, path, bytes}); };
  }
  DocumentStream stream_;
  std::optional<DuplicateFinder> finder_;
  int64_t duplicates_ = 0;
};

std::vector<int64_t> measure(const InputFiles& inputs, const BuildOptions& options) {
  Source source(inputs, options, true);
  std::vector<int64_t> sizes;
  for (std::string document; source.next(document);) sizes.push_back(static_cast<int64_t>(document.size()));
  return sizes;
}

using Sink = std::function<void(std::string_view document)>;

// Hands every document to train, to validation, or cut in two to both. `sizes` are of an earlier pass, if there was
// one.
void distribute(Source& source, const std::vector<int64_t>& sizes, const ValidationSplit& split, double fraction,
                const Sink& train, const Sink& validation) {
  size_t number = 0;
  for (std::string document; source.next(document); ++number) {
    if (!sizes.empty() && (number >= sizes.size() || sizes[number] != static_cast<int64_t>(document.size())))
      throw core::DataError(
          fmt::format("{}: the file changed while it was read. Start again.", source.stream().path()));
    const std::string_view text = document;
    if (fraction == 0) {
      train(text);
    } else if (split.by_document) {
      (split.chosen[number] != 0 ? validation : train)(text);
    } else {
      const size_t kept = cut_document(text, fraction);
      train(text.substr(0, kept));
      validation(text.substr(kept));
    }
  }
}

// A prefix without a name of its own would make hidden files. Throws ConfigError.
void require_name(const BuildOptions& options) {
  const std::string name = std::filesystem::path(options.out).filename().string();
  if (options.validation > 0 || (!name.empty() && name != "." && name != "..")) return;
  throw core::ConfigError(
      fmt::format("out is '{}', a folder; it must be the prefix of the files to write, such as '{}'.", options.out,
                  (std::filesystem::path(options.out) / "corpus").string()));
}

// Throws ConfigError when a file is there that would be replaced.
void require_absent(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, failed))) return;
  throw core::ConfigError(
      fmt::format("{}: this file is there already. Choose another --out, or add --force to replace it.", path));
}

void require_absent_dataset(const std::string& prefix) {
  for (const std::string& path : {idx_path(prefix), bin_path(prefix), meta_path(prefix)}) require_absent(path);
}

// Throws ConfigError when a file that is to be written is one of those that are read: --force would lose the text.
void require_no_input(const InputFiles& inputs, const std::string& path) {
  for (const InputFile& input : inputs.files) {
    std::error_code failed;
    if (!std::filesystem::equivalent(input.path, path, failed)) continue;
    throw core::ConfigError(
        fmt::format("{}: --out would replace this file, which is one of the inputs. Choose another --out.", path));
  }
}

void require_no_input_dataset(const InputFiles& inputs, const std::string& prefix) {
  for (const std::string& path : {idx_path(prefix), bin_path(prefix), meta_path(prefix)})
    require_no_input(inputs, path);
}

// A model that is there already may be the very one that is to be copied there.
bool holds(const std::string& path, std::string_view model) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  return !failed && bytes == model.size() && core::read_text(path, bytes) == model;
}

// Beside the dataset, where the model of its tokenizer is kept; of one that is trained without `tokenizer`.
std::string path_of_model(const BuildOptions& options, const Tokenizer* tokenizer) {
  const bool json = tokenizer != nullptr && tokenizer->name() == tokenizer_json_name;
  if (options.validation > 0)
    return (std::filesystem::path(options.out) / (json ? "tokenizer.json" : "tokenizer.model")).string();
  return options.out + (json ? ".tokenizer.json" : ".model");
}

void write_model(OutputFile& file, const Tokenizer& tokenizer) {
  file.write(tokenizer.model().data(), tokenizer.model().size());
  file.seal();
}

}  // namespace

BuildResult build_dataset(const BuildOptions& options) {
  const double fraction = options.validation;
  if (!(fraction >= 0 && fraction < 1))
    throw core::ConfigError(
        fmt::format("validation is {}; it must be a fraction of the text, 0 or more and below 1.", fraction));
  if (options.out.empty()) throw core::ConfigError("out is empty; it must be the prefix of the files to write.");
  require_name(options);
  const bool train_it = options.tokenizer == "train";
  std::unique_ptr<Tokenizer> tokenizer;
  if (!train_it) tokenizer = make_tokenizer(options.tokenizer, options.eod);
  if (train_it && !options.eod.empty())
    throw core::ConfigError(
        fmt::format("eod is '{}', but a tokenizer that is trained has an end of documents of its own.", options.eod));
  const std::filesystem::path out(options.out);
  const std::string train_prefix = fraction > 0 ? (out / "train").string() : options.out;
  const std::string validation_prefix = (out / "validation").string();
  const std::string model_path = path_of_model(options, tokenizer.get());
  const bool writes_model = train_it || !tokenizer->model().empty();
  if (!options.force) {
    require_absent_dataset(train_prefix);
    if (fraction > 0) require_absent_dataset(validation_prefix);
    if (writes_model && (train_it || !holds(model_path, tokenizer->model()))) require_absent(model_path);
  }
  const InputFiles inputs = find_input_files(options.inputs);
  require_no_input_dataset(inputs, train_prefix);
  if (fraction > 0) require_no_input_dataset(inputs, validation_prefix);
  if (writes_model) require_no_input(inputs, model_path);
  MadeFolders folders(std::filesystem::path(train_prefix).parent_path());

  BuildResult result;
  result.skipped = inputs.skipped;
  std::vector<int64_t> sizes;
  if (fraction > 0 || train_it) sizes = measure(inputs, options);
  ValidationSplit split;
  if (fraction > 0) split = split_documents(sizes, fraction);
  result.split_by_document = split.by_document;

  if (train_it) {  // held-out text must not show in the pieces
    SentencePieceTraining training(options.vocabulary, std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    Source source(inputs, options, true);
    distribute(
        source, sizes, split, fraction, [&](std::string_view text) { training.add(text); }, [](std::string_view) {});
    tokenizer = std::make_unique<SentencePieceTokenizer>(training.train(), model_path);
  }

  PartWriter train(train_prefix, *tokenizer);
  std::optional<PartWriter> validation;
  if (fraction > 0) validation.emplace(validation_prefix, *tokenizer);
  Source source(inputs, options, false);
  distribute(
      source, sizes, split, fraction, [&](std::string_view text) { train.add(text); },
      [&](std::string_view text) { validation->add(text); });
  const auto& skipped = source.stream().skipped();
  result.skipped.insert(result.skipped.end(), skipped.begin(), skipped.end());
  result.files = static_cast<int64_t>(inputs.files.size() - skipped.size());
  result.damaged = source.stream().damaged();
  result.duplicates = source.duplicates();

  result.train = train.seal(options.language, model_path);
  if (validation) result.validation = validation->seal(options.language, model_path);
  if (result.train.meta.documents == 0 || (validation && result.validation->meta.documents == 0))
    throw core::DataError(fmt::format(
        "{}: {} bytes of text are too few{}. Name more text.", fmt::join(options.inputs, ", "),
        result.train.meta.bytes + (validation ? result.validation->meta.bytes : 0),
        validation ? fmt::format(" to set the fraction {} aside for validation", fraction) : std::string()));

  // An old validation part must never stand beside new training data that may contain it, nor old data beside a new
  // tokenizer.
  if (validation) retire_dataset(result.validation->prefix);
  if (!tokenizer->model().empty()) {
    OutputFile model(model_path);
    write_model(model, *tokenizer);
    retire_dataset(result.train.prefix);
    model.publish();
  }
  train.publish();
  if (validation) validation->publish();
  folders.keep();
  return result;
}

TrainedTokenizer train_tokenizer(const TokenizerOptions& options) {
  if (!has_suffix(options.out, ".model"))
    throw core::ConfigError(fmt::format("out is '{}'; the file of a tokenizer must end in .model.", options.out));
  if (!options.force) require_absent(options.out);
  BuildOptions build;
  build.progress = options.progress;
  const InputFiles inputs = find_input_files(options.inputs);
  require_no_input(inputs, options.out);
  const std::vector<int64_t> sizes = measure(inputs, build);
  TrainedTokenizer result;
  result.bytes = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  SentencePieceTraining training(options.vocabulary, result.bytes);
  Source source(inputs, build, true);
  distribute(
      source, sizes, {}, 0, [&](std::string_view text) { training.add(text); }, [](std::string_view) {});
  const SentencePieceTokenizer tokenizer(training.train(), options.out);
  MadeFolders folders(std::filesystem::path(options.out).parent_path());
  OutputFile model(options.out);
  write_model(model, tokenizer);
  model.publish();
  folders.keep();
  sync_folder_of(options.out);
  result.vocabulary = tokenizer.vocab_size();
  result.xxh3 = tokenizer.xxh3();
  result.skipped = inputs.skipped;
  result.skipped.insert(result.skipped.end(), source.stream().skipped().begin(), source.stream().skipped().end());
  result.damaged = source.stream().damaged();
  return result;
}

}  // namespace zrt::runtime::data
