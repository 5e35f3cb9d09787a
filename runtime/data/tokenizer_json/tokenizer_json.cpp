#include "runtime/data/tokenizer_json/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/json_problem.h"
#include "runtime/data/tokenizer_json/added_tokens.h"
#include "runtime/data/tokenizer_json/byte_level.h"
#include "runtime/data/tokenizer_json/counted_part.h"
#include "runtime/data/tokenizer_json/decoder.h"
#include "runtime/data/tokenizer_json/end_of_document.h"
#include "runtime/data/tokenizer_json/model.h"
#include "runtime/data/tokenizer_json/normalizer.h"
#include "runtime/data/tokenizer_json/pre_tokenizer.h"
#include "runtime/data/tokenizer_json/template.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr size_t largest_file = size_t{1} << 28;

Json parse_json(const std::string& text, const std::string& source) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw core::DataError(
        fmt::format("{}: the file is not JSON: {}. Copy it again.", source, core::json_problem(error.what())));
  }
}

// Puts U+FFFD for each byte that is no UTF-8.
std::string mended(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t good = well_formed_bytes(text);
    out += text.substr(0, good);
    if (good < text.size()) out += "\xEF\xBF\xBD";
    text.remove_prefix(std::min(text.size(), good + 1));
  }
  return out;
}

// Lends each call of encode() the memory of a thread.
class ScratchPool {
 public:
  std::unique_ptr<Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Scratch>();
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give(std::unique_ptr<Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace

struct JsonTokenizer::Impl {
  std::string model_bytes, source, xxh3;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<Decoder> decoder;
  std::optional<AddedTokens> added;
  Template around;
  int32_t size = 0, eod = 0;
  bool raw_bytes = false;                        // the model sees bytes, which the vocabulary writes as characters
  std::unordered_map<int32_t, uint8_t> byte_of;  // of the ids that stand for a byte
  mutable ScratchPool pool;

  const std::string& text_of(int32_t id) const {
    static const std::string none;
    if (const AddedToken* token = added->with_id(id)) return token->text;
    return id < model->vocabulary().size() ? model->vocabulary().text(id) : none;
  }

  void check(int32_t id) const {
    if (id < 0 || id >= size)
      throw core::DataError(
          fmt::format("token id {} cannot be decoded: tokenizer {} has ids 0 to {}.", id, source, size - 1));
  }

  bool has_bytes() const {
    for (int byte = 0; byte < 256; ++byte)
      if (model->byte_id(static_cast<uint8_t>(byte)) < 0) return false;
    return true;
  }

  // Says whether the normalizer leaves out the first character: what stands behind it does not begin the text.
  bool loses_front(std::string_view text, std::string_view normal) const {
    const std::string_view character = text.substr(0, character_at(text, 0).bytes);
    if (normal.starts_with(character)) return false;
    std::string alone(character);
    normalizer->apply(alone);
    return alone.empty();
  }

  // Encodes a text whose first `good` bytes are well-formed and the next one is not.
  void encode_broken(std::string_view text, size_t good, Scratch& scratch, std::vector<int32_t>& out) const {
    bool first = true;
    while (!text.empty()) {
      if (good > 0) encode(text.substr(0, good), first, scratch, out);
      if (good < text.size()) out.push_back(model->byte_id(static_cast<uint8_t>(text[good++])));
      first = false;
      text.remove_prefix(good);
      good = well_formed_bytes(text);
    }
  }

  // Hands on what the model sees of a part, and the tokens that stand in it when it is normalized. `first`: the text
  // begins with it.
  template <class Seen, class Token>
  void cut(std::string_view part, bool first, const Seen& seen, const Token& token) const {
    const auto see = [&](Piece piece) { seen(piece.text); };
    const PieceSink to_model(see);
    std::string normal;
    if (normalizer) {
      normal = part;
      normalizer->apply(normal);
      first = first && !loses_front(part, normal);
      part = normal;
    }
    added->split(
        part, true,
        [&](std::string_view rest) {
          const Piece piece{rest, first && rest.data() == part.data()};
          pre_tokenizer ? pre_tokenizer->cut(piece, to_model) : to_model(piece);
        },
        token);
  }

  // Encodes well-formed UTF-8.
  void encode(std::string_view text, bool first, Scratch& scratch, std::vector<int32_t>& out) const {
    const auto seen = [&](std::string_view piece) { model->encode(piece, scratch, out); };
    const auto token = [&](int32_t id, std::string_view) { out.push_back(id); };
    added->split(
        text, false, [&](std::string_view part) { cut(part, first && part.data() == text.data(), seen, token); },
        token);
  }

  // The text of a token as it stands in a piece, behind another one or not.
  std::string spelled(int32_t id, bool continues) const {
    const std::string& text = text_of(id);
    std::string bytes;
    if (raw_bytes && append_bytes(bytes, text)) return bytes;
    if (const auto byte = byte_of.find(id); byte != byte_of.end()) return {static_cast<char>(byte->second)};
    const std::string_view prefix = model->continuing_prefix();
    return continues && !prefix.empty() && text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }

  // Encodes a part of a text.
  void encode_counted(std::string_view part, bool first, std::string_view counts, Scratch& scratch,
                      std::vector<int32_t>& out, std::vector<uint8_t>& counted) const {
    const size_t before = out.size();
    if (counts.find(counts[0] != 0 ? '\0' : '\1') == std::string_view::npos) {
      cut(
          part, first, [&](std::string_view piece) { model->encode(piece, scratch, out); },
          [&](int32_t id, std::string_view) { out.push_back(id); });
      return counted.resize(counted.size() + out.size() - before, static_cast<uint8_t>(counts[0]));
    }
    CountedPart tokens;
    std::vector<std::string> texts;
    cut(
        part, first,
        [&](std::string_view piece) {
          texts.clear();
          const size_t begin = out.size();
          model->encode(piece, scratch, out);
          for (size_t i = begin; i < out.size(); ++i) texts.push_back(spelled(out[i], i > begin));
          tokens.add(piece, texts);
        },
        [&](int32_t id, std::string_view text) {
          out.push_back(id);
          tokens.add(text, {std::string(text)});
        });
    const auto flatten = [&](std::string_view beginning) {
      std::string flat;
      cut(
          beginning, first, [&](std::string_view piece) { flat += piece; },
          [&](int32_t, std::string_view text) { flat += text; });
      return flat;
    };
    tokens.count(part, counts, flatten, counted);
  }
};

JsonTokenizer::JsonTokenizer(std::string model, std::string source, const Ends& ends)
    : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.model_bytes = std::move(model);
  m.source = std::move(source);
  core::Hash hash;
  hash.update(m.model_bytes.data(), m.model_bytes.size());
  m.xxh3 = hash.hex();
  const Json json = parse_json(m.model_bytes, m.source);
  Fields fields(json, "", m.source);
  // Callers that pad and cut texts say so themselves.
  fields.pass_over({"version", "truncation", "padding"});
  std::optional<Fields> model_fields = fields.child("model");
  if (!model_fields) fields.refuse("model", "it must be there: this is no tokenizer.json of Hugging Face");
  if (auto part = fields.child("normalizer")) m.normalizer = read_normalizer(std::move(*part));
  bool raw_bytes = takes_raw_bytes(*model_fields);
  if (auto part = fields.child("pre_tokenizer"))
    m.pre_tokenizer = read_pre_tokenizer(std::move(*part), raw_bytes);
  else
    raw_bytes = false;
  m.model = read_model(std::move(*model_fields), raw_bytes);
  m.raw_bytes = raw_bytes;
  for (int byte = 0; byte < 256; ++byte)
    if (const int32_t id = m.model->byte_id(static_cast<uint8_t>(byte)); id >= 0)
      m.byte_of[id] = static_cast<uint8_t>(byte);
  m.added.emplace(fields, m.model->vocabulary(), m.normalizer.get());
  m.size = m.model->vocabulary().size();
  for (const AddedToken& token : m.added->all()) m.size = std::max(m.size, token.id + 1);
  if (auto part = fields.child("decoder")) m.decoder = read_decoder(std::move(*part));
  if (!m.decoder) m.decoder = spaced_decoder();
  if (auto part = fields.child("post_processor")) m.around = read_template(std::move(*part), m.size);
  fields.finish();
  m.eod = end_of_document(ends.named, ends.configured.empty() ? std::nullopt : std::optional(ends.configured), *m.added,
                          m.model->vocabulary(), m.source);
}

JsonTokenizer::~JsonTokenizer() = default;

std::unique_ptr<JsonTokenizer> JsonTokenizer::open(const std::string& path, const std::string& eod) {
  return std::make_unique<JsonTokenizer>(core::read_text(path, largest_file), path,
                                         Ends{eod, eod.empty() ? configured_end(path).value_or("") : ""});
}

const std::string& JsonTokenizer::name() const {
  static const std::string name = tokenizer_json_name;
  return name;
}
int64_t JsonTokenizer::vocab_size() const {
  return impl_->size;
}
int32_t JsonTokenizer::eod() const {
  return impl_->eod;
}
std::string JsonTokenizer::eod_text() const {
  const AddedToken* token = impl_->added->with_id(impl_->eod);
  return token != nullptr ? token->content : impl_->text_of(impl_->eod);
}
std::string_view JsonTokenizer::model() const {
  return impl_->model_bytes;
}
const std::string& JsonTokenizer::xxh3() const {
  return impl_->xxh3;
}
const std::vector<int32_t>& JsonTokenizer::before_text() const {
  return impl_->around.before;
}
const std::vector<int32_t>& JsonTokenizer::after_text() const {
  return impl_->around.after;
}

WordPart JsonTokenizer::word_part(int32_t token) const {
  const Impl& m = *impl_;
  m.check(token);
  const AddedToken* added = m.added->with_id(token);
  if (added != nullptr && added->special) return WordPart::between;
  const std::string& text = m.text_of(token);
  const std::string_view prefix = m.model->continuing_prefix();
  if (!prefix.empty()) return text.starts_with(prefix) ? WordPart::continues : WordPart::begins;
  // Between two letters a token shows its own spaces.
  std::vector<std::string> texts{"a", text};
  m.decoder->apply(texts);
  std::string whole;
  for (const std::string& part : texts) whole += part;
  return word_part_of(std::string_view(whole).substr(std::min<size_t>(whole.size(), 1)));
}

void JsonTokenizer::encode(std::string_view document, std::vector<int32_t>& out) const {
  const Impl& m = *impl_;
  if (document.empty()) return;
  const size_t good = well_formed_bytes(document);
  auto scratch = m.pool.take();
  if (good == document.size())
    m.encode(document, true, *scratch, out);
  else if (m.has_bytes())
    m.encode_broken(document, good, *scratch, out);
  else
    m.encode(mended(document), true, *scratch, out);
  m.pool.give(std::move(scratch));
}

void JsonTokenizer::encode_counted(std::string_view text, std::string_view counts, std::vector<int32_t>& out,
                                   std::vector<uint8_t>& counted) const {
  const Impl& m = *impl_;
  if (well_formed_bytes(text) != text.size()) throw core::DataError("the text is not UTF-8");
  auto scratch = m.pool.take();
  const auto counts_of = [&](std::string_view part) {
    return counts.substr(static_cast<size_t>(part.data() - text.data()), part.size());
  };
  m.added->split(
      text, false,
      [&](std::string_view part) {
        m.encode_counted(part, part.data() == text.data(), counts_of(part), *scratch, out, counted);
      },
      [&](int32_t id, std::string_view part) {
        out.push_back(id);
        counted.push_back(counts_of(part).find('\1') != std::string_view::npos ? 1 : 0);
      });
  m.pool.give(std::move(scratch));
}

std::string JsonTokenizer::decode(std::span<const int32_t> tokens) const {
  const Impl& m = *impl_;
  std::vector<std::string> texts;
  for (const int32_t id : tokens) {
    m.check(id);
    const AddedToken* added = m.added->with_id(id);
    if (id == m.eod || (added != nullptr && added->special)) continue;
    texts.push_back(m.text_of(id));
  }
  m.decoder->apply(texts);
  std::string whole;
  for (const std::string& text : texts) whole += text;
  return whole;
}

}  // namespace zrt::runtime::data::tokenizer_json
