#include "runtime/data/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/utf8.h"
#include "runtime/data/sentencepiece_fields.h"

namespace zrt::runtime::data {

namespace {

constexpr size_t run_bytes = size_t{1} << 16, largest_model = size_t{1} << 28;
constexpr std::string_view space_sign = "\xE2\x96\x81";  // U+2581

// Returns the text that a piece stands for.
std::string surface(const sentencepiece::SentencePieceProcessor& processor, int id) {
  if (processor.IsControl(id) || processor.IsUnknown(id)) return "";
  const std::string& piece = processor.IdToPiece(id);
  std::string text;
  if (processor.IsByte(id)) {  // <0xAB>
    uint8_t byte = 0;
    if (piece.size() == 6) std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
    return {static_cast<char>(byte)};
  }
  for (size_t at = 0; at < piece.size();) {
    const bool space = piece.compare(at, space_sign.size(), space_sign) == 0;
    text += space ? ' ' : piece[at];
    at += space ? space_sign.size() : 1;
  }
  return text;
}

}  // namespace

struct SentencePieceTokenizer::Impl {
  std::string model, source, xxh3;
  bool dummy_prefix = false;
  sentencepiece::SentencePieceProcessor processor;
  std::vector<std::string> texts;  // of every id
  std::array<int32_t, 256> byte_ids{};
  int32_t eod = 0;
};

SentencePieceTokenizer::SentencePieceTokenizer(std::string model, std::string source)
    : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.model = std::move(model);
  m.source = std::move(source);
  core::Hash hash;
  hash.update(m.model.data(), m.model.size());
  m.xxh3 = hash.hex();
  const ModelFields fields = read_model_fields(m.model, m.source);
  m.dummy_prefix = fields.add_dummy_prefix;
  if (!fields.byte_fallback)
    throw core::DataError(fmt::format(
        "{}: the SentencePiece model has no byte pieces, so characters it does not know would be lost. Train it with "
        "byte_fallback, or with `zrt data tokenizer`.",
        m.source));
  std::string problem;
  try {
    const auto status = m.processor.LoadFromSerializedProto(fields.identity);
    if (!status.ok()) problem = status.message();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty())
    throw core::DataError(fmt::format("{}: the SentencePiece model is corrupt: {}. Copy it again.", m.source, problem));

  const int count = m.processor.GetPieceSize();
  m.byte_ids.fill(-1);
  for (int id = 0; id < count; ++id) {
    m.texts.push_back(surface(m.processor, id));
    if (m.processor.IsByte(id)) m.byte_ids[static_cast<unsigned char>(m.texts.back()[0])] = id;
  }
  const auto missing = std::count(m.byte_ids.begin(), m.byte_ids.end(), -1);
  if (missing > 0)
    throw core::DataError(fmt::format("{}: the SentencePiece model is corrupt: {} of its 256 byte pieces are missing.",
                                      m.source, missing));
  m.eod = m.processor.eos_id();
  if (m.eod < 0 || m.eod >= count || !m.processor.IsControl(m.eod)) {
    m.eod = count;
    m.texts.emplace_back();
  }
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::open(const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(core::read_text(path, largest_model), path);
}

const std::string& SentencePieceTokenizer::name() const {
  static const std::string sentencepiece = "sentencepiece";
  return sentencepiece;
}
int64_t SentencePieceTokenizer::vocab_size() const {
  return static_cast<int64_t>(impl_->texts.size());
}
int32_t SentencePieceTokenizer::eod() const {
  return impl_->eod;
}
std::string_view SentencePieceTokenizer::model() const {
  return impl_->model;
}
const std::string& SentencePieceTokenizer::xxh3() const {
  return impl_->xxh3;
}

const std::string& SentencePieceTokenizer::text_of(int32_t id) const {
  if (id < 0 || id >= vocab_size())
    throw core::DataError(fmt::format("token id {} cannot be decoded: tokenizer {} has ids 0 to {}.", id, impl_->source,
                                      vocab_size() - 1));
  return impl_->texts[static_cast<size_t>(id)];
}

void SentencePieceTokenizer::encode_run(std::string_view run, std::vector<int32_t>& out) const {
  std::vector<int> ids;
  const auto status = impl_->processor.Encode(run, &ids);
  bool same = status.ok();
  size_t at = 0;
  for (size_t i = 0; same && i < ids.size(); ++i) {
    const std::string& text = text_of(ids[i]);
    same = run.compare(at, text.size(), text) == 0;
    at += text.size();
  }
  if (!same || at != run.size())
    throw core::DataError(fmt::format("{}: the SentencePiece model does not give a text back; it is corrupt. {}",
                                      impl_->source, status.ok() ? "Train another." : status.message()));
  out.insert(out.end(), ids.begin(), ids.end());
}

void SentencePieceTokenizer::encode(std::string_view document, std::vector<int32_t>& out) const {
  std::string prefixed;
  std::string_view rest = document;
  if (impl_->dummy_prefix && !document.empty()) {
    prefixed.append(1, ' ').append(document);
    rest = prefixed;
  }
  while (!rest.empty()) {
    size_t run = 0;
    while (run < rest.size() && run < run_bytes && !rest.substr(run).starts_with(space_sign)) {
      const size_t character = core::utf8_character(rest.substr(run));
      if (character == 0) break;
      run += character;
    }
    if (run == 0) {
      out.push_back(impl_->byte_ids[static_cast<unsigned char>(rest[0])]);
      run = 1;
    } else {
      if (run >= run_bytes) run = core::utf8_cut(rest.substr(0, run), run_bytes - 1, true);
      encode_run(rest.substr(0, run), out);
    }
    rest.remove_prefix(run);
  }
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t id : tokens) text += text_of(id);
  if (impl_->dummy_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace zrt::runtime::data
