// `zrt bench tokenizer`: text to ids.
#include <fmt/format.h>

#include <iostream>

#include "core/error.h"
#include "runtime/bench/tokenizer.h"
#include "tools/commands/arguments.h"
#include "tools/commands/bench.h"

namespace zrt::tools {

int bench_tokenizer(const Args& args) {
  po::options_description options("options");
  options.add_options()("tokenizer", po::value<std::string>()->default_value("bytes"), "as for zrt data build")(
      "eod", po::value<std::string>()->default_value(""), "as for zrt data build")(
      "document", po::value<int64_t>()->default_value(8192), "bytes of a document, at most")(
      "threads", po::value<int>()->default_value(1), "that share the documents")(
      "rounds", po::value<int>()->default_value(5), "counted rounds")("json", "print JSON");
  po::variables_map values;
  if (!parse(args, "zrt bench tokenizer --tokenizer FILE [--threads N] TEXT…", options, {"TEXT"}, values, true))
    return 0;
  runtime::TokenizerBenchOptions chosen;
  chosen.tokenizer = values["tokenizer"].as<std::string>();
  chosen.eod = values["eod"].as<std::string>();
  chosen.files = values["TEXT"].as<std::vector<std::string>>();
  chosen.document = values["document"].as<int64_t>();
  chosen.threads = values["threads"].as<int>();
  chosen.rounds = values["rounds"].as<int>();
  if (chosen.document < 4 || chosen.threads < 1 || chosen.threads > 1024 || chosen.rounds < 1)
    throw core::UsageError("--document must be 4 or more, --threads between 1 and 1024, --rounds positive");
  const runtime::TokenizerBench bench = runtime::bench_tokenizer(chosen, bench_progress());
  end_bench_progress();
  if (values.count("json")) {
    std::cout << Json{{"bytes", bench.bytes},
                      {"documents", bench.documents},
                      {"tokens", bench.tokens},
                      {"threads", chosen.threads},
                      {"bytes_per_second", spread_json(bench.bytes_per_second)}}
                     .dump(1)
              << "\n";
    return 0;
  }
  std::cout << fmt::format("{} bytes in {} documents are {} tokens; {} MB/s on {} thread(s)\n", bench.bytes,
                           bench.documents, bench.tokens, spread_text(bench.bytes_per_second, 1e6), chosen.threads);
  return 0;
}

}  // namespace zrt::tools
