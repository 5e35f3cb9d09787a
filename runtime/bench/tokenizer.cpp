#include "runtime/bench/tokenizer.h"

#include <fmt/format.h>

#include <atomic>
#include <string_view>

#include "core/error.h"
#include "core/utf8.h"
#include "runtime/data/document_stream.h"
#include "runtime/data/tokenizer.h"

namespace zrt::runtime {

namespace {

std::vector<std::string> read_documents(const TokenizerBenchOptions& options) {
  const data::InputFiles inputs = data::find_input_files(options.files);
  data::DocumentStream stream(inputs.files, data::Documents::file, {}, {});
  std::vector<std::string> texts;
  for (std::string text; stream.next(text);) texts.push_back(std::move(text));
  // Damage is known when a file has been read.
  if (!stream.damaged().empty())
    throw core::DataError(
        fmt::format("{}: the text is not UTF-8 throughout. Name another.", stream.damaged().front().path));
  std::vector<std::string> documents;
  const auto most = static_cast<size_t>(options.document);
  for (const std::string& text : texts) {
    for (std::string_view rest = text; !rest.empty();) {
      const size_t bytes = rest.size() <= most ? rest.size() : core::utf8_cut(rest, most, true);
      documents.emplace_back(rest.substr(0, bytes));
      rest.remove_prefix(bytes);
    }
  }
  return documents;
}

}  // namespace

TokenizerBench bench_tokenizer(const TokenizerBenchOptions& options, const Progress& progress) {
  const auto tokenizer = data::make_tokenizer(options.tokenizer, options.eod);
  const std::vector<std::string> documents = read_documents(options);
  TokenizerBench bench;
  bench.documents = static_cast<int64_t>(documents.size());
  for (const std::string& document : documents) bench.bytes += static_cast<int64_t>(document.size());
  std::vector<double> rates;
  for (int round = 0; round <= options.rounds; ++round) {
    if (progress) progress(fmt::format("round {} of {}", round, options.rounds));
    std::atomic<size_t> next{0};
    std::atomic<int64_t> tokens{0};
    const double seconds = time_ranks(options.threads, 1, [&](int) {
      std::vector<int32_t> ids;
      int64_t count = 0;
      for (size_t at = next++; at < documents.size(); at = next++) {
        ids.clear();
        tokenizer->encode(documents[at], ids);
        count += static_cast<int64_t>(ids.size());
      }
      tokens += count;
    });
    if (round > 0) rates.push_back(static_cast<double>(bench.bytes) / seconds);
    bench.tokens = tokens;
  }
  bench.bytes_per_second = spread(std::move(rates));
  return bench;
}

}  // namespace zrt::runtime
