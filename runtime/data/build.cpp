#include "runtime/data/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/error.h"
#include "runtime/data/build_options.h"
#include "runtime/data/build_outputs.h"
#include "runtime/data/chat/chat_template.h"
#include "runtime/data/duplicates.h"
#include "runtime/data/encoder.h"
#include "runtime/data/indexed_dataset_writer.h"
#include "runtime/data/made_folders.h"
#include "runtime/data/output_file.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/sentencepiece_training.h"
#include "runtime/data/text_coder.h"
#include "runtime/data/validation_split.h"

namespace zrt::runtime::data {

namespace {

// The documents of the inputs, without duplicates if they are not wanted. Every pass over them gives the same ones.
class Source {
 public:
  // `tokens` counts those that were written so far; empty while scanning.
  Source(const InputFiles& inputs, const BuildOptions& options, const chat::ChatTemplate* chat_template,
         std::function<int64_t()> tokens = {})
      : tokens_(std::move(tokens)),
        stream_(inputs.files, options.documents, {options.field.value_or("text"), options.skip_bad, chat_template},
                on_read(options)) {
    if (options.dedup) finder_.emplace();
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  bool next(std::string& document) {
    while (stream_.next(document)) {
      if (!finder_ || !finder_->seen(document)) return ++documents_, true;
      ++duplicates_;
    }
    return false;
  }
  const DocumentStream& stream() const { return stream_; }
  int64_t duplicates() const { return duplicates_; }

 private:
  DocumentStream::OnRead on_read(const BuildOptions& options) {
    if (!options.progress) return {};
    return [this, &options](const std::string& path, int64_t bytes) {
      options.progress({!tokens_, path, bytes, documents_, tokens_ ? tokens_() : 0});
    };
  }
  std::function<int64_t()> tokens_;
  int64_t documents_ = 0, duplicates_ = 0;
  DocumentStream stream_;
  std::optional<DuplicateFinder> finder_;
};

std::vector<int64_t> measure(const InputFiles& inputs, const BuildOptions& options,
                             const chat::ChatTemplate* chat_template = nullptr) {
  Source source(inputs, options, chat_template);
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

}  // namespace

BuildResult build_dataset(const BuildOptions& options) {
  const double fraction = options.validation;
  if (!(fraction >= 0 && fraction < 1))
    throw core::ConfigError(
        fmt::format("validation is {}; it must be a fraction of the text, 0 or more and below 1.", fraction));
  require_out(options.out);
  if (fraction == 0) require_prefix(options.out);
  const bool conversations = !options.chat.empty(), train_it = options.tokenizer == "train";
  std::optional<chat::ChatTemplate> chat_template;
  if (conversations) {
    require_conversations(options);
    chat_template = chat::ChatTemplate::of_folder(options.chat);
  }
  const chat::ChatTemplate* by = chat_template ? &*chat_template : nullptr;
  std::shared_ptr<Tokenizer> tokenizer;
  if (!train_it) tokenizer = make_tokenizer(options.tokenizer, options.eod);
  if (conversations) require_counts(*tokenizer);
  if (train_it && !options.eod.empty())
    throw core::ConfigError(
        fmt::format("eod is '{}', but a tokenizer that is trained has an end of documents of its own.", options.eod));
  if (train_it && options.with_template)
    throw core::ConfigError("template is asked for, but a tokenizer that is trained has none. Leave --template out.");
  if (tokenizer) TextCoder(tokenizer, options.with_template);  // refused before anything is read
  const std::filesystem::path out(options.out);
  const std::string train_prefix = fraction > 0 ? (out / "train").string() : options.out;
  const std::string validation_prefix = (out / "validation").string();
  const std::string model_path =
      fraction > 0 ? (out / model_name(tokenizer.get())).string() : tokenizer_copy(options.out, tokenizer.get());
  const bool writes_model = train_it || !tokenizer->model().empty();
  if (!options.force) {
    require_absent_dataset(train_prefix);
    if (fraction > 0) require_absent_dataset(validation_prefix);
    if (writes_model && (train_it || !holds(model_path, tokenizer->model()))) require_absent(model_path);
  }
  const InputFiles inputs = find_input_files(options.inputs);
  require_use(inputs, options);
  require_no_input_dataset(inputs, train_prefix);
  if (fraction > 0) require_no_input_dataset(inputs, validation_prefix);
  if (writes_model) require_no_input(inputs, model_path);
  MadeFolders folders(std::filesystem::path(train_prefix).parent_path());

  BuildResult result;
  result.skipped = inputs.skipped;
  std::vector<int64_t> sizes;
  if (fraction > 0 || train_it) sizes = measure(inputs, options, by);
  ValidationSplit split;
  if (fraction > 0) split = split_documents(sizes, fraction);
  result.split_by_document = split.by_document;
  if (conversations && fraction > 0 && !split.by_document)
    throw core::DataError(fmt::format(
        "{}: {} conversations are too few, or too different in size, to hold out {} of them whole. Name more, "
        "or build the held-out ones by themselves.",
        fmt::join(options.inputs, ", "), sizes.size(), fraction));

  if (train_it) {  // held-out text must not show in the pieces
    SentencePieceTraining training(options.vocabulary, std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    Source source(inputs, options, nullptr);
    distribute(
        source, sizes, split, fraction, [&](std::string_view text) { training.add(text); }, [](std::string_view) {});
    tokenizer = std::make_shared<SentencePieceTokenizer>(training.train(), model_path);
  }

  const TextCoder coder(tokenizer, options.with_template);
  PartWriter train(train_prefix, coder, conversations);
  std::optional<PartWriter> validation;
  if (fraction > 0) validation.emplace(validation_prefix, coder, conversations);
  Encoder encoder(*tokenizer, options.threads,
                  [&](const Encoded& batch) { (batch.part == 0 ? train : *validation).add(batch); });
  Source source(inputs, options, by, [&] { return train.tokens() + (validation ? validation->tokens() : 0); });
  const auto encode_to = [&](int part) {
    return [&, part](std::string_view text) {
      encoder.add(text, part, source.stream().place(), source.stream().counts());
    };
  };
  distribute(source, sizes, split, fraction, encode_to(0), encode_to(1));
  encoder.finish();
  const auto& skipped = source.stream().skipped();
  result.skipped.insert(result.skipped.end(), skipped.begin(), skipped.end());
  result.files = static_cast<int64_t>(inputs.files.size() - skipped.size());
  result.damaged = source.stream().damaged();
  result.bad_lines = source.stream().bad_lines();
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
  build.field = options.field, build.skip_bad = options.skip_bad;
  const InputFiles inputs = find_input_files(options.inputs);
  require_use(inputs, build);
  require_no_input(inputs, options.out);
  const std::vector<int64_t> sizes = measure(inputs, build);
  TrainedTokenizer result;
  result.bytes = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  SentencePieceTraining training(options.vocabulary, result.bytes);
  Source source(inputs, build, nullptr);
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
  result.bad_lines = source.stream().bad_lines();
  return result;
}

}  // namespace zrt::runtime::data
