#include "tools/commands/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <sstream>

#include "core/error.h"
#include "core/ledger.h"
#include "tools/commands/ranks.h"

namespace zrt::tools {

Json spread_json(const runtime::Spread& s) {
  return {{"median", s.median}, {"low", s.low}, {"high", s.high}};
}

std::string spread_text(const runtime::Spread& s, double unit, int digits) {
  return fmt::format("{:.{}f} ({:.{}f} – {:.{}f})", s.median / unit, digits, s.low / unit, digits, s.high / unit,
                     digits);
}

runtime::Progress bench_progress(bool shown) {
  if (!shown || !isatty(STDERR_FILENO)) return [](const std::string&) {};
  return [](const std::string& what) { std::cerr << "\r\033[K" << what << std::flush; };
}

void end_bench_progress() {
  if (isatty(STDERR_FILENO)) std::cerr << "\r\033[K";
}

namespace {

int bench_save(const Args& args) {
  po::options_description options("options");
  options.add_options()("model", po::value<std::string>()->default_value("gpt2-124m"), "model.preset")(
      "ranks", po::value<int>()->default_value(2), "ranks, one thread each")(
      "stage", po::value<int>()->default_value(3), "zero_optimization.stage")(
      "rounds", po::value<int>()->default_value(3), "saves")("interval", po::value<int>()->default_value(50),
                                                             "steps between saves that the share is stated for")(
      "set", po::value<std::vector<std::string>>()->composing(), "a.b.c=value: override a key")(
      "folder", po::value<std::string>()->default_value("runs/bench_save"), "where checkpoints are written")(
      "json", "print JSON");
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt bench save [--model PRESET] [--ranks N] [--folder DIR]", options, {}, values)) return 0;
  const int ranks = values["ranks"].as<int>(), rounds = values["rounds"].as<int>();
  const int interval = values["interval"].as<int>();
  if (rounds < 1 || interval < 1) throw core::UsageError("--rounds and --interval must be positive");
  const Json file{{"train_micro_batch_size_per_gpu", 1},
                  {"gradient_accumulation_steps", 1},
                  {"bf16", {{"enabled", true}}},
                  {"optimizer", {{"type", "AdamW"}}}};
  const runtime::Settings sets =
      config_settings(values, {{"model", "model.preset"}, {"stage", "zero_optimization.stage"}});
  const runtime::Config config = runtime::parse_config(file.dump(), "bench", sets, ranks);
  const runtime::SaveBench bench =
      runtime::bench_save(config, rounds, values["folder"].as<std::string>(), bench_progress());
  end_bench_progress();
  const double share = bench.extra_seconds.median / (interval * bench.step_seconds.median);
  if (values.count("json")) {
    std::cout << Json{{"bytes", bench.bytes},
                      {"step_seconds", spread_json(bench.step_seconds)},
                      {"stall_seconds", spread_json(bench.stall_seconds)},
                      {"write_seconds", spread_json(bench.write_seconds)},
                      {"extra_seconds", spread_json(bench.extra_seconds)},
                      {"interval", interval},
                      {"share_of_training", share},
                      {"disk_bytes_per_second", bench.disk_bytes_per_second},
                      {"write_bytes_per_second", bench.write_bytes_per_second},
                      {"verify_seconds", bench.verify_seconds},
                      {"load_seconds", bench.load_seconds},
                      {"host_planned_bytes", bench.host_planned},
                      {"host_measured_bytes", bench.host_measured}}
                     .dump(1)
              << "\n";
    return 0;
  }
  std::cout << fmt::format(
      "checkpoint of {} by {} ranks\nstep without a save   {} s\ntraining stands still {} s\nwritten beside it in  {} "
      "s, "
      "{:.2f} GB/s, {:.2f} of {:.2f} GB/s for one file written and synced alone\na save costs          {} s, {:.2f} % "
      "of "
      "training at one in {} steps\nto resume             {:.2f} s to verify, {:.2f} s to load\nhost memory of a rank  "
      " {} "
      "bytes planned, {} measured\n",
      core::format_bytes(bench.bytes), ranks, spread_text(bench.step_seconds, 1), spread_text(bench.stall_seconds, 1),
      spread_text(bench.write_seconds, 1), bench.write_bytes_per_second / 1e9,
      bench.write_bytes_per_second / bench.disk_bytes_per_second, bench.disk_bytes_per_second / 1e9,
      spread_text(bench.extra_seconds, 1), 100 * share, interval, bench.verify_seconds, bench.load_seconds,
      bench.host_planned, bench.host_measured);
  return 0;
}

int bench_comm(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  options.add_options()("bytes", po::value<int64_t>()->default_value(256 << 20), "buffer of each rank")(
      "rounds", po::value<int>()->default_value(15), "counted rounds")("json", "print JSON");
  po::variables_map values;
  if (!parse(args, "zrt bench comm [--bytes N] [--ranks N]", options, {}, values)) return 0;
  const auto transport = start_ranks(values, 2);
  return run_ranks(*transport, [&] {
    const int64_t bytes = values["bytes"].as<int64_t>();
    const int ranks = transport->world(), rounds = values["rounds"].as<int>();
    if (ranks > 1024 || rounds < 1 || bytes < 4 * ranks || bytes > (int64_t{1} << 40)) {
      throw core::UsageError(
          "--ranks must lie between 1 and 1024, --rounds be positive, --bytes at least 4 for each rank and at most "
          "2^40");
    }
    const auto measured = runtime::bench_comm(bytes, *transport, rounds, bench_progress(transport->leads()));
    if (!transport->leads()) return 0;
    Json rows = Json::array();
    std::string text = fmt::format("{:>20}  {:>26}  {:>20}\n", "operation", "GB/s", "of copy");
    for (const auto& row : measured) {
      rows.push_back({{"operation", row.operation},
                      {"bytes_per_second", spread_json(row.bytes_per_second)},
                      {"of_copy", spread_json(row.of_copy)}});
      text += fmt::format("{:>20}  {:>26}  {:>20}\n", row.operation, spread_text(row.bytes_per_second, 1e9),
                          spread_text(row.of_copy, 1));
    }
    end_bench_progress();
    const std::string head = fmt::format("{} bytes on each of {} ranks ({}); copy: every rank copies as much at once\n",
                                         bytes, ranks, transport->name());
    std::cout << (values.count("json")
                      ? Json{{"bytes", bytes}, {"ranks", ranks}, {"transport", transport->name()}, {"rows", rows}}.dump(
                            1) +
                            "\n"
                      : head + text);
    return 0;
  });
}

}  // namespace

int bench_command(const Args& args) {
  const std::string what = args.empty() ? "" : args[0];
  const Args rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (what == "comm") return bench_comm(rest);
  if (what == "overlap") return bench_overlap(rest);
  if (what == "traffic") return bench_traffic(rest);
  if (what == "calibrate") return bench_calibrate(rest);
  if (what == "predict") return bench_predict(rest);
  constexpr const char* legal =
      "train, save, adam, comm, overlap, traffic, calibrate, predict, tune, io, tokenizer and offload";
  if (what == "--help" || what == "-h") {
    std::cout << "usage: zrt bench WHAT [options]; WHAT is one of " << legal << "; each takes --help and --json\n";
    return 0;
  }
  need_single_process("bench " + what);
  if (what == "train") return bench_train(rest);
  if (what == "save") return bench_save(rest);
  if (what == "adam") return bench_adam(rest);
  if (what == "tune") return bench_tune(rest);
  if (what == "offload") return bench_offload(rest);
  if (what == "io") return bench_io(rest);
  if (what == "tokenizer") return bench_tokenizer(rest);
  throw core::UsageError(fmt::format("zrt bench '{}': legal are {}", what, legal));
}

}  // namespace zrt::tools
