#include "tools/commands/data_show.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/data/chat/chat_line.h"
#include "runtime/data/chat/chat_template.h"
#include "runtime/data/text_reader.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {
namespace {

namespace chat = runtime::data::chat;

// Line `number`, from 1, of a file, compressed or not.
std::string line_of(const std::string& path, int64_t number) {
  constexpr size_t longest = size_t{64} << 20;
  runtime::data::TextReader reader(path);
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

}  // namespace

int show_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("chat", po::value<std::string>(),
                        "a folder of Hugging Face, whose chat template makes text of the messages")(
      "line", po::value<int64_t>()->default_value(1), "of the file, from 1")(
      "json", "print the text, and the bytes [begin, end) of it that count, as JSON");
  po::variables_map values;
  if (!parse(args, show_usage, options, {"FILE"}, values)) return 0;
  if (!values.count("chat")) throw core::UsageError(fmt::format("--chat is missing; usage: {}", show_usage));
  const int64_t number = values["line"].as<int64_t>();
  if (number < 1) throw core::UsageError(fmt::format("--line is {}; legal are 1 and more", number));
  const std::string path = values["FILE"].as<std::string>();
  const auto chat_template = chat::ChatTemplate::of_folder(values["chat"].as<std::string>());
  chat::Conversation conversation;
  try {
    const chat::ChatLine line = chat::read_chat_line(line_of(path, number));
    conversation = chat_template.render(line.messages, line.tools);
  } catch (const core::ConfigError& error) {
    throw core::DataError(fmt::format("{}: line {}: {}", path, number, error.what()));
  }
  const auto counted = std::count(conversation.counts.begin(), conversation.counts.end(), 1);
  if (values.count("json")) {
    std::cout << nlohmann::ordered_json{{"line", number},
                                        {"text", conversation.text},
                                        {"counted_bytes", counted},
                                        {"counted", spans_of(conversation.counts)}}
                     .dump(1)
              << "\n";
    return 0;
  }
  std::cout << drawn(conversation) << (conversation.text.ends_with('\n') ? "" : "\n");
  std::cerr << fmt::format("line {}: {} bytes, of which {} count\n", number, conversation.text.size(), counted);
  return 0;
}

}  // namespace zrt::tools
