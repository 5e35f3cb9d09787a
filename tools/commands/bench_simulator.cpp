// `zrt bench calibrate` and `zrt bench predict`: the simulator's constants, and how well it does with them.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/gpu.h"
#include "runtime/bench/calibrate.h"
#include "runtime/bench/predict.h"
#include "tools/commands/bench.h"
#include "tools/commands/ranks.h"
#include "tools/commands/user_file.h"

namespace zrt::tools {

namespace {

void need(const po::variables_map& values, const char* option) {
  if (!values.count(option)) throw core::UsageError(fmt::format("--{} is missing (see --help)", option));
}

}  // namespace

int bench_calibrate(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  options.add_options()("out", po::value<std::string>(), "the cluster's file")(
      "threads", po::value<int>()->default_value(1), "threads of a rank")(
      "path", po::value<std::string>(), "folder on the drive to measure; by default that of the file")(
      "quick", "show that all works, in seconds, with figures of no use")("json", "print the file")(
      "device", po::value<std::string>()->default_value("cpu"), "cpu or cuda: what computes")(
      "share-gpu", "ranks take turns on a GPU where there are more of them than GPUs");
  add_force_option(options);
  po::variables_map values;
  if (!parse(args, "zrt bench calibrate --out FILE [--ranks N] [--force]", options, {}, values)) return 0;
  need(values, "out");
  const int threads = values["threads"].as<int>();
  if (threads < 1 || threads > 1024) throw core::UsageError("--threads must lie between 1 and 1024");
  require_replaceable({values["out"].as<std::string>(), "--out", runtime::calibration_mark, ""}, values);
  const std::optional<core::DeviceKind> device = core::parse_device(values["device"].as<std::string>());
  if (!device) {
    throw core::UsageError(fmt::format("--device is '{}'; legal are cpu and cuda", values["device"].as<std::string>()));
  }
  core::require_device(*device);
  const bool quick = values.count("quick") > 0, gpu = *device == core::DeviceKind::cuda;
  const auto transport = start_ranks(values, 2);
  return run_ranks(*transport, [&] {
    const std::filesystem::path out = values["out"].as<std::string>();
    const std::filesystem::path folder = out.has_parent_path() ? out.parent_path() : ".";
    core::make_folder(folder);
    const std::filesystem::path drive = values.count("path") ? values["path"].as<std::string>() : folder.string();
    core::make_folder(drive);
    const runtime::Effort effort = quick ? runtime::quick_effort : gpu ? runtime::gpu_effort : runtime::Effort{};
    const std::string text =
        runtime::calibrate(*transport, {*device, values.count("share-gpu") > 0, threads, effort, drive},
                           bench_progress(transport->leads()));
    if (!transport->leads()) return 0;
    end_bench_progress();
    core::write_durably(out, text);
    const runtime::Cluster cluster = runtime::load_cluster(out);
    std::cout << fmt::format("{}: {} {} per host, fp32 {:.1f} and bf16 {:.1f} GFLOP/s per rank, memory {:.1f} GB/s\n",
                             out.string(), cluster.ranks_per_host, cluster.ranks_per_host == 1 ? "rank" : "ranks",
                             cluster.rates(core::DType::f32).peak_flops_per_second / 1e9,
                             cluster.rates(core::DType::bf16).peak_flops_per_second / 1e9,
                             cluster.memory_bytes_per_second / 1e9);
    return 0;
  });
}

int bench_predict(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  options.add_options()("cluster", po::value<std::string>(), "a cluster's file or name")(
      "set", po::value<std::vector<std::string>>()->composing(), "a.b.c=value: override a key")(
      "rounds", po::value<int>()->default_value(7), "counted steps")("json", "print JSON");
  po::variables_map values;
  if (!parse(args, "zrt bench predict CONFIG --cluster FILE [--ranks N] [--set key=value …]", options, {"config"},
             values)) {
    return 0;
  }
  need(values, "cluster");
  const int rounds = values["rounds"].as<int>();
  if (rounds < 1) throw core::UsageError("--rounds must be positive");
  const auto transport = start_ranks(values, 2);
  return run_ranks(*transport, [&] {
    const runtime::Config config =
        runtime::load_config(values["config"].as<std::string>(), config_settings(values), transport->world());
    const runtime::Cluster cluster = runtime::find_cluster(values["cluster"].as<std::string>());
    const runtime::PredictBench bench = runtime::bench_predict(config, config.model.make(), cluster, *transport, rounds,
                                                               bench_progress(transport->leads()));
    if (!transport->leads()) return 0;
    end_bench_progress();
    if (values.count("json")) {
      std::cout << Json{{"predicted_seconds", bench.predicted.seconds},
                        {"measured_seconds", spread_json(bench.step_seconds)},
                        {"error", bench.error()},
                        {"predicted_exposed_comm_seconds", bench.predicted.exposed_comm_seconds},
                        {"exposed_comm_seconds", spread_json(bench.exposed_comm_seconds)}}
                       .dump()
                << "\n";
    } else {
      const runtime::Spread& step = bench.step_seconds;
      std::cout << fmt::format(
          "a step: predicted {:.4f} s, measured {:.4f} ({:.4f} – {:.4f}) s, error {:+.1f} %\n"
          "communication exposed: predicted {:.4f} s, measured {:.4f} s\n",
          bench.predicted.seconds, step.median, step.low, step.high, 100 * bench.error(),
          bench.predicted.exposed_comm_seconds, bench.exposed_comm_seconds.median);
    }
    return 0;
  });
}

}  // namespace zrt::tools
