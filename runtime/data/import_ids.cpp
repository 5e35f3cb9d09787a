#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/file.h"
#include "runtime/data/build_outputs.h"
#include "runtime/data/foreign.h"
#include "runtime/data/llmc_dataset.h"
#include "runtime/data/made_folders.h"
#include "runtime/data/text_measure.h"

namespace zrt::runtime::data {

namespace {

constexpr int64_t ids_at_once = 1 << 16;

// The vocabulary (given, or the tokenizer's) and the id that ends a document.
struct IdKind {
  std::unique_ptr<Tokenizer> tokenizer;  // none where it is not at hand
  int64_t vocabulary = 0;
  std::optional<int64_t> eod;
};

IdKind kind_of(const ImportOptions& options) {
  if (options.tokenizer.empty()) {
    if (!options.vocabulary)
      throw core::ConfigError(
          "neither a tokenizer nor a vocabulary is named: give the one that made the ids, or their number.");
    if (options.eod && (*options.eod < 0 || *options.eod >= *options.vocabulary))
      throw core::ConfigError(
          fmt::format("eod is {}; legal are ids of the vocabulary, 0 to {}.", *options.eod, *options.vocabulary - 1));
    return {nullptr, *options.vocabulary, options.eod};
  }
  if (options.vocabulary || options.eod)
    throw core::ConfigError(fmt::format("tokenizer {} says its vocabulary and its end-of-document id: leave out {}.",
                                        options.tokenizer, options.vocabulary ? "vocabulary" : "eod"));
  IdKind kind{make_tokenizer(options.tokenizer, options.eod_token), 0, std::nullopt};
  kind.vocabulary = kind.tokenizer->vocab_size(), kind.eod = kind.tokenizer->eod();
  return kind;
}

// Throws DataError where the file is none of ids alone.
void require_ids(const core::InputFile& file, int id_bytes) {
  const std::string path = file.path().string();
  if (file.bytes() == 0) throw core::DataError(fmt::format("{}: the file is empty. Leave it out.", path));
  std::array<char, 8> head{};
  file.read(0, head.data(), std::min<uint64_t>(head.size(), file.bytes()));
  const std::string_view begin(head.data(), head.size());
  int32_t magic = 0;
  file.read(0, &magic, std::min<uint64_t>(sizeof magic, file.bytes()));
  if (is_llmc_magic(magic))
    throw core::DataError(
        fmt::format("{}: it has llm.c's header. data.train can name it as it is; nothing need be imported.", path));
  if (begin.starts_with("\x93NUMPY"))
    throw core::DataError(
        fmt::format("{}: it has NumPy's header. Convert it first: python3 -c 'import sys, numpy; "
                    "numpy.load(sys.argv[1]).astype(\"<u{}\").tofile(sys.argv[2])' {} ids.bin",
                    path, id_bytes, path));
  if (begin.starts_with("MMIDIDX"))
    throw core::DataError(
        fmt::format("{}: it is the index of a dataset, whose prefix data.train can name as it is.", path));
  if (file.bytes() % static_cast<uint64_t>(id_bytes) != 0)
    throw core::DataError(
        fmt::format("{}: the file is truncated, or its ids are of another size: it has {} bytes, which are no whole "
                    "ids of {}. Copy it "
                    "again, or name the size (u16, u32).",
                    path, file.bytes(), id_bytes));
}

void read_ids(const core::InputFile& file, int id_bytes, int64_t first, std::span<int32_t> out) {
  const auto byte = static_cast<uint64_t>(first * id_bytes);
  if (id_bytes == 4)
    return file.read(byte, out.data(), out.size_bytes());  // above 2^31 they turn negative, no legal id
  std::vector<uint16_t> narrow(out.size());
  file.read(byte, narrow.data(), 2 * narrow.size());
  std::copy(narrow.begin(), narrow.end(), out.begin());
}

class Importer {
 public:
  Importer(const ImportOptions& options, IdKind kind, int64_t all)
      : options_(options), kind_(std::move(kind)), all_(all), writer_(options.out, kind_.vocabulary) {
    if (kind_.tokenizer) measure_.emplace(*kind_.tokenizer);
  }

  void add(const core::InputFile& file) {
    const auto count = static_cast<int64_t>(file.bytes()) / options_.id_bytes;
    std::vector<int32_t> ids;
    for (int64_t at = 0; at < count; at += ids_at_once) {
      ids.resize(static_cast<size_t>(std::min(ids_at_once, count - at)));
      read_ids(file, options_.id_bytes, at, ids);
      if (const size_t bad = first_illegal(ids, kind_.vocabulary); bad < ids.size())
        throw core::DataError(
            fmt::format("{}: id {} is {}, but the vocabulary has {} ids, so legal are 0 to {}. Name the tokenizer that "
                        "made them, or the "
                        "size of ids that they have (u16, u32).",
                        file.path().string(), at + static_cast<int64_t>(bad), static_cast<uint32_t>(ids[bad]),
                        kind_.vocabulary, kind_.vocabulary - 1));
      for (std::span<const int32_t> rest = ids; !rest.empty();) {
        const auto end = kind_.eod ? std::find(rest.begin(), rest.end(), *kind_.eod) : rest.end();
        const bool ends = end != rest.end();
        const auto piece = rest.first(static_cast<size_t>(end - rest.begin()) + (ends ? 1 : 0));
        if (measure_) measure_->add(piece);
        writer_.append(piece);
        open_ = true;
        if (ends) end_document();
        rest = rest.subspan(piece.size());
      }
    }
    end_document();
  }

  BuiltPart seal(const std::string& copy) {
    DatasetMeta meta;
    meta.vocabulary = kind_.vocabulary, meta.documents = writer_.documents(), meta.tokens = writer_.tokens();
    if (measure_) meta = measure_->meta(options_.language, copy, writer_.documents(), writer_.tokens());
    writer_.seal(measure_ ? std::optional(meta) : std::nullopt);
    return {options_.out, meta};
  }
  void publish() { writer_.publish(); }
  const IdKind& kind() const { return kind_; }

 private:
  void end_document() {
    if (!open_) return;
    if (measure_) measure_->end_document();
    writer_.end_document();
    open_ = false;
    if (options_.progress) options_.progress(writer_.tokens(), all_);
  }

  const ImportOptions& options_;
  IdKind kind_;
  int64_t all_;  // ids of all inputs
  IndexedDatasetWriter writer_;
  std::optional<TextMeasure> measure_;
  bool open_ = false;  // something of the document was written
};

}  // namespace

BuiltPart import_ids(const ImportOptions& options) {
  if (options.id_bytes != 2 && options.id_bytes != 4)
    throw core::ConfigError(fmt::format("ids of {} bytes cannot be read; legal are 2 and 4.", options.id_bytes));
  if (options.inputs.empty()) throw core::DataError("no input was named; name files of ids.");
  IdKind kind = kind_of(options);
  require_prefix(options.out);
  const std::string copy = tokenizer_copy(options.out, kind.tokenizer.get());
  const bool copies = kind.tokenizer && !kind.tokenizer->model().empty() && !holds(copy, kind.tokenizer->model());
  if (!options.force) {
    require_absent_dataset(options.out);
    if (copies) require_absent(copy);
  }
  std::vector<core::InputFile> files;
  int64_t all = 0;
  for (const std::string& path : options.inputs) {
    require_no_input({{{path, true}}, {}}, bin_path(options.out));
    require_ids(files.emplace_back(path), options.id_bytes);
    all += static_cast<int64_t>(files.back().bytes()) / options.id_bytes;
  }
  MadeFolders folders(std::filesystem::path(options.out).parent_path());
  Importer importer(options, std::move(kind), all);
  for (const core::InputFile& file : files) importer.add(file);
  BuiltPart part = importer.seal(copy);
  if (copies) {
    OutputFile model(copy);
    write_model(model, *importer.kind().tokenizer);
    retire_dataset(options.out);
    model.publish();
  }
  importer.publish();
  folders.keep();
  return part;
}

}  // namespace zrt::runtime::data
