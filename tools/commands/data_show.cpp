#include "tools/commands/data_show.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/data/chat/chat_line.h"
#include "runtime/data/chat/chat_template.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/text_reader.h"
#include "runtime/data/token_documents.h"
#include "runtime/data/token_mask.h"
#include "runtime/data/token_texts.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {
namespace {

namespace data = runtime::data;
namespace chat = data::chat;

// Line `number`, from 1, of a file, compressed or not.
std::string line_of(const std::string& path, int64_t number) {
  constexpr size_t longest = size_t{64} << 20;
  data::TextReader reader(path);
  std::array<char, 1 << 16> piece{};
  std::string line;
  int64_t at = 1;
  for (size_t count = reader.read(piece.data(), piece.size()); count > 0;
       count = reader.read(piece.data(), piece.size())) {
    for (size_t i = 0; i < count; ++i) {
      if (piece[i] != '\n') {
        if (at == number) line += piece[i];
      } else if (at++ == number) {
        return line;
      }
    }
    if (line.size() > longest) {
      throw core::DataError(fmt::format("{}: line {} is longer than {} bytes", path, number, longest));
    }
  }
  if (at == number && !line.empty()) return line;
  const int64_t lines = line.empty() ? at - 1 : at;
  throw core::DataError(fmt::format("{} has {} line{}; --line is {}", path, lines, lines == 1 ? "" : "s", number));
}

// Draws what counts in green, or in ⟦brackets⟧ where there are no colours.
std::string drawn(const chat::Conversation& conversation) {
  const bool colours = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  const std::string begin = colours ? "\033[32m" : "⟦", end = colours ? "\033[0m" : "⟧";
  std::string text;
  const size_t size = conversation.text.size();
  for (size_t at = 0; at < size;) {
    size_t next = at;
    while (next < size && conversation.counts[next] == conversation.counts[at]) ++next;
    const std::string part = core::printable_lines(std::string_view(conversation.text).substr(at, next - at));
    text += conversation.counts[at] != 0 ? begin + part + end : part;
    at = next;
  }
  return text;
}

nlohmann::ordered_json spans_of(const std::string& counts) {
  nlohmann::ordered_json spans = nlohmann::ordered_json::array();
  for (size_t at = 0; at < counts.size(); ++at) {
    if (counts[at] == 0) continue;
    const size_t end = std::min(counts.find('\0', at), counts.size());
    spans.push_back({at, end});
    at = end;
  }
  return spans;
}

struct Tokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> counted;  // 1 or 0 for each
};

// Null where the folder has none.
std::unique_ptr<data::Tokenizer> tokenizer_of(const std::string& folder) {
  if (!std::filesystem::is_regular_file(std::filesystem::path(folder) / "tokenizer.json")) return nullptr;
  return data::make_tokenizer(folder, "0");  // which token ends documents does not matter: every tokenizer has this id
}

std::optional<Tokens> tokens_of(const data::Tokenizer* tokenizer, const chat::Conversation& conversation) {
  if (tokenizer == nullptr) return std::nullopt;
  Tokens tokens;
  tokenizer->encode_counted(conversation.text, conversation.counts, tokens.ids, tokens.counted);
  return tokens;
}

std::string counts_text(const Tokens& tokens) {
  return fmt::format("{} tokens, of which {} count", tokens.ids.size(),
                     std::count(tokens.counted.begin(), tokens.counted.end(), 1));
}

Tokens read_document(const data::TokenDocuments& documents, int64_t number) {
  if (number >= documents.sequences())
    throw core::DataError(fmt::format("{}: it has {} documents, from 0; --document is {}", documents.source(),
                                      documents.sequences(), number));
  const int64_t length = documents.length(number);
  Tokens tokens{std::vector<int32_t>(static_cast<size_t>(length)),
                std::vector<uint8_t>(static_cast<size_t>(length), 1)};
  documents.read(number, 0, length, int64_t{1} << 31, tokens.ids.data());
  for (int64_t i = 0; documents.mask() != nullptr && i < length; ++i)
    tokens.counted[static_cast<size_t>(i)] = documents.mask()->counts(number, i) ? 1 : 0;
  return tokens;
}

// The text of tokens inside a document: some decoders leave out a space in front of the first one.
std::string inner_text(const data::Tokenizer& tokenizer, std::vector<int32_t> run) {
  const size_t first = tokenizer.decode(std::array{run[0]}).size();
  run.insert(run.begin(), run[0]);
  return tokenizer.decode(run).substr(first);
}

// The text of a document. Control tokens, which decode to nothing, stand as their file spells them.
chat::Conversation text_of(const Tokens& tokens, const data::Tokenizer& tokenizer) {
  const auto names = data::read_token_texts(tokenizer.name(), std::string(tokenizer.model()));
  chat::Conversation text;
  std::vector<int32_t> run;
  const auto add = [&](const std::string& part, uint8_t counts) {
    text.text += part;
    text.counts.append(part.size(), static_cast<char>(counts));
  };
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const int32_t id = tokens.ids[i];
    const bool control = tokenizer.decode(std::array{id, id}).empty();
    if (!control) run.push_back(id);
    const bool ends = control || i + 1 == tokens.ids.size() || tokens.counted[i + 1] != tokens.counted[i];
    if (!ends) continue;
    // A control token ends the run before it, which may count otherwise.
    if (!run.empty())
      add(text.text.empty() ? tokenizer.decode(run) : inner_text(tokenizer, run),
          control && i > 0 ? tokens.counted[i - 1] : tokens.counted[i]);
    run.clear();
    if (!control || !names) continue;
    const auto name = names->texts.find(id);
    if (name != names->texts.end()) add(name->second, tokens.counted[i]);
  }
  return text;
}

int show_document(const std::string& prefix, int64_t number, bool json) {
  if (number < 0) throw core::UsageError(fmt::format("--document is {}; legal are 0 and more", number));
  const auto documents = data::open_documents(prefix);
  const Tokens tokens = read_document(*documents, number);
  if (json) {
    std::cout
        << nlohmann::ordered_json{{"document", number}, {"ids", tokens.ids}, {"token_counts", tokens.counted}}.dump()
        << "\n";
    return 0;
  }
  const auto made_by = data::common_tokenizer({prefix}, int64_t{1} << 31);
  if (!made_by)
    throw core::DataError(
        fmt::format("{}: no description (PREFIX.meta.json) says what its ids stand for; --json prints "
                    "them, and `zrt data describe` writes one",
                    prefix));
  const chat::Conversation text = text_of(tokens, *data::open_tokenizer(*made_by));
  std::cout << drawn(text) << (text.text.ends_with('\n') ? "" : "\n");
  std::cerr << fmt::format("document {}: {}\n", number, counts_text(tokens));
  return 0;
}

}  // namespace

int show_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("chat", po::value<std::string>(),
                        "a folder of Hugging Face, whose chat template makes text of the messages")(
      "line", po::value<int64_t>()->default_value(1), "of the file, from 1")(
      "document", po::value<int64_t>(), "of the dataset PREFIX, from 0, instead of a line")(
      "json", "print as JSON: the text, the bytes [begin, end) of it that count, its ids, and 1 for each that counts");
  po::variables_map values;
  if (!parse(args, show_usage, options, {"FILE"}, values)) return 0;
  if (values.count("document")) {
    if (values.count("chat") || !values["line"].defaulted())
      throw core::UsageError("--document shows what a dataset holds: it goes with neither --chat nor --line");
    return show_document(values["FILE"].as<std::string>(), values["document"].as<int64_t>(), values.count("json") > 0);
  }
  if (!values.count("chat")) throw core::UsageError(fmt::format("--chat is missing; usage: {}", show_usage));
  const int64_t number = values["line"].as<int64_t>();
  if (number < 1) throw core::UsageError(fmt::format("--line is {}; legal are 1 and more", number));
  const std::string path = values["FILE"].as<std::string>();
  const auto chat_template = chat::ChatTemplate::of_folder(values["chat"].as<std::string>());
  const auto tokenizer = tokenizer_of(values["chat"].as<std::string>());
  const std::string text = line_of(path, number);
  chat::Conversation conversation;
  std::optional<Tokens> tokens;
  try {
    const chat::ChatLine line = chat::read_chat_line(text);
    conversation = chat_template.render(line.messages, line.tools);
    tokens = tokens_of(tokenizer.get(), conversation);
  } catch (const core::Error& error) {
    throw core::DataError(fmt::format("{}: line {}: {}", path, number, error.what()));
  }
  const auto counted = std::count(conversation.counts.begin(), conversation.counts.end(), 1);
  if (values.count("json")) {
    nlohmann::ordered_json json{{"line", number},
                                {"text", conversation.text},
                                {"counted_bytes", counted},
                                {"counted", spans_of(conversation.counts)}};
    if (tokens) json["ids"] = tokens->ids, json["token_counts"] = tokens->counted;
    std::cout << json.dump(1) << "\n";
    return 0;
  }
  std::cout << drawn(conversation) << (conversation.text.ends_with('\n') ? "" : "\n");
  std::cerr << fmt::format("line {}: {} bytes, of which {} count{}\n", number, conversation.text.size(), counted,
                           tokens ? "; " + counts_text(*tokens) : "");
  return 0;
}

}  // namespace zrt::tools
