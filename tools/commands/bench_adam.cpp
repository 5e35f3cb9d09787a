// `zrt bench adam`: the optimizer's kernels against the bandwidth of the memory they work in.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "core/error.h"
#include "core/isa.h"
#include "tools/commands/arguments.h"
#include "tools/commands/bench.h"

namespace zrt::tools {
namespace {

runtime::AdamBenchSetting setting_of(const po::variables_map& values) {
  runtime::AdamBenchSetting setting;
  const std::string tier = values["tier"].as<std::string>();
  const std::string device = values.count("device") ? values["device"].as<std::string>() : "cpu";
  if (tier != "device" && tier != "host") {
    throw core::UsageError(fmt::format("--tier is '{}'; legal are device and host", tier));
  }
  const auto kind = core::parse_device(device);
  if (!kind) throw core::UsageError(fmt::format("--device is '{}'; legal are cpu and cuda", device));
  if (*kind == core::DeviceKind::cuda && tier == "device") {
    throw core::UsageError(
        "--device cuda with --tier device: only the host's kernels are measured here; legal is --tier host, pinned "
        "memory. `zrt bench train --device cuda` times whole steps");
  }
  setting.tier = tier == "host" ? core::Tier::host : core::Tier::device;
  setting.device = *kind;
  setting.parameters = values["parameters"].as<int64_t>();
  setting.ranks = values["ranks"].as<int>(), setting.rounds = values["rounds"].as<int>();
  if (setting.parameters < core::form_block || setting.parameters % core::form_block != 0 ||
      setting.parameters > (int64_t{1} << 36) || setting.ranks < 1 || setting.ranks > 1024 || setting.rounds < 1) {
    throw core::UsageError(
        fmt::format("--parameters must be a multiple of {} up to 2^36, --ranks between 1 and 1024, --rounds positive",
                    core::form_block));
  }
  core::require_device(setting.device);
  return setting;
}

}  // namespace

int bench_adam(const Args& args) {
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 1024);
  po::options_description options("options");
  options.add_options()("tier", po::value<std::string>()->default_value("device"),
                        "device or host: whose arena is worked on; both are the host's memory where --device is cpu")(
      "parameters", po::value<int64_t>()->default_value(1 << 27), "per rank, a multiple of 2048")(
      "ranks", po::value<int>()->default_value(cores), "ranks, one thread each; by default one per core")(
      "rounds", po::value<int>()->default_value(9), "counted rounds")("json", "print JSON");
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt bench adam [--tier host] [--parameters N] [--ranks N]", options, {}, values)) return 0;
  runtime::AdamBenchSetting setting = setting_of(values);
  using optimizer::Moments;
  struct Row {
    bool bf16;
    Moments moments;
    const char* name;
  };
  constexpr Row shown[] = {{false, Moments::f32, "fp32"},
                           {true, Moments::f32, "fp32"},
                           {true, Moments::bf16, "bf16"},
                           {true, Moments::int8, "int8"}};
  Json rows = Json::array();
  std::string text = fmt::format("{:>9}  {:>7}  {:>22}  {:>22}  {:>20}  {:>12}\n", "gradients", "moments", "AdamW GB/s",
                                 "triad GB/s", "ratio", "parameters/s");
  for (const Row& row : shown) {
    setting.bf16 = row.bf16, setting.moments = row.moments;
    const runtime::AdamBench bench = runtime::bench_adam(setting, bench_progress());
    const double rate = bench.adam_bytes_per_second.median / bench.bytes_per_parameter;
    rows.push_back({{"gradients", bench.grad_type},
                    {"moments", row.name},
                    {"parameters_per_rank", setting.parameters},
                    {"bytes_per_parameter", bench.bytes_per_parameter},
                    {"parameters_per_second", rate},
                    {"adam_bytes_per_second", spread_json(bench.adam_bytes_per_second)},
                    {"triad_bytes_per_second", spread_json(bench.triad_bytes_per_second)},
                    {"of_triad", spread_json(bench.ratio)}});
    text += fmt::format("{:>9}  {:>7}  {:>22}  {:>22}  {:>20}  {:>12.3e}\n", bench.grad_type, row.name,
                        spread_text(bench.adam_bytes_per_second, 1e9), spread_text(bench.triad_bytes_per_second, 1e9),
                        spread_text(bench.ratio, 1), rate);
  }
  end_bench_progress();
  const std::string isa(core::isa_name(core::best_isa()));
  const std::string tier = values["tier"].as<std::string>();
  const std::string head = fmt::format("{} tier, {} parameters on each of {} ranks of one thread, {} kernels\n", tier,
                                       setting.parameters, setting.ranks, isa);
  std::cout << (values.count("json")
                    ? Json{{"ranks", setting.ranks}, {"tier", tier}, {"isa", isa}, {"rows", rows}}.dump(1) + "\n"
                    : head + text);
  return 0;
}

}  // namespace zrt::tools
