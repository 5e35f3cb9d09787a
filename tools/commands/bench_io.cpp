// `zrt bench io`: the disk of the NVMe tier.
#include <fmt/format.h>

#include <iostream>

#include "core/error.h"
#include "core/ledger.h"
#include "offload/block_file.h"
#include "runtime/bench/io.h"
#include "tools/commands/arguments.h"
#include "tools/commands/bench.h"

namespace zrt::tools {
namespace {

runtime::IoBenchOptions io_options(const po::variables_map& values) {
  if (!values.count("path")) throw core::UsageError("--path is missing: a folder on the disk that is to be measured");
  runtime::IoBenchOptions options;
  options.folder = values["path"].as<std::string>();
  for (auto [name, target] :
       {std::pair{"bytes", &options.bytes}, {"extent", &options.extent}, {"block", &options.block}}) {
    const int64_t bytes = values[name].as<int64_t>();
    const int64_t most = std::string_view(name) == "block" ? int64_t{1} << 30 : int64_t{1} << 44;
    if (bytes < 4096 || bytes % 4096 != 0 || bytes > most) {
      throw core::UsageError(fmt::format("--{} is {}; legal are multiples of 4096 up to {}", name, bytes, most));
    }
    *target = static_cast<uint64_t>(bytes);
  }
  const int depth = values["depth"].as<int>();
  options.rounds = values["rounds"].as<int>();
  if (depth < 1 || depth > 4096 || options.rounds < 1) {
    throw core::UsageError("--depth must lie between 1 and 4096, --rounds be positive");
  }
  options.depth = static_cast<unsigned>(depth);
  options.fio = values.count("fio") > 0;
  return options;
}

}  // namespace

int bench_io(const Args& args) {
  po::options_description options("options");
  options.add_options()("path", po::value<std::string>(), "folder on the disk to measure")(
      "bytes", po::value<int64_t>()->default_value(1 << 30), "of the file")(
      "extent", po::value<int64_t>()->default_value(64 << 20), "read or written by one call: memory.unit_bytes")(
      "block", po::value<int64_t>()->default_value(offload::piece_bytes), "of one transfer and one hash")(
      "depth", po::value<int>()->default_value(32), "transfers in flight")(
      "rounds", po::value<int>()->default_value(5), "counted rounds")("fio", "compare with fio, in pairs")(
      "json", "print JSON");
  po::variables_map values;
  if (!parse(args, "zrt bench io --path DIR [--bytes N] [--block N] [--depth N] [--fio]", options, {}, values))
    return 0;
  const runtime::IoBenchOptions chosen = io_options(values);
  const runtime::IoBench bench = runtime::bench_io(chosen, bench_progress());
  end_bench_progress();
  for (const std::string& warning : bench.warnings) std::cerr << "warning: " << warning << "\n";
  Json rows = Json::array();
  std::string text = fmt::format("{:>9}  {:>26}", "operation", "GB/s");
  if (chosen.fio) text += fmt::format("  {:>26}  {:>20}", "fio GB/s", "of fio");
  for (const runtime::IoBenchRow& row : bench.rows) {
    const char* operation = row.writes ? "write" : "read";
    Json json{{"operation", operation}, {"bytes_per_second", spread_json(row.bytes_per_second)}};
    text += fmt::format("\n{:>9}  {:>26}", operation, spread_text(row.bytes_per_second, 1e9));
    if (row.of_fio) {
      json["fio_bytes_per_second"] = spread_json(*row.fio_bytes_per_second);
      json["of_fio"] = spread_json(*row.of_fio);
      text += fmt::format("  {:>26}  {:>20}", spread_text(*row.fio_bytes_per_second, 1e9), spread_text(*row.of_fio, 1));
    }
    rows.push_back(json);
  }
  if (values.count("json")) {
    std::cout << Json{{"bytes", chosen.bytes}, {"extent", chosen.extent},    {"block", chosen.block},
                      {"depth", chosen.depth}, {"warnings", bench.warnings}, {"rows", rows}}
                     .dump(1)
              << "\n";
    return 0;
  }
  std::cout << fmt::format("{} in calls of {}, {} transfers of {} in flight, hashes included\n{}\n",
                           core::format_bytes(chosen.bytes), core::format_bytes(chosen.extent), chosen.depth,
                           core::format_bytes(chosen.block), text);
  return 0;
}

}  // namespace zrt::tools
