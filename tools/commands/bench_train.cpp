// `zrt bench train`: whole training steps on random tokens.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "core/error.h"
#include "core/isa.h"
#include "core/ledger.h"
#include "runtime/bench/train.h"
#include "tools/commands/arguments.h"
#include "tools/commands/bench.h"

namespace zrt::tools {
namespace {

Json tiers_json(const runtime::TrainBenchStage& stage) {
  Json tiers;
  for (size_t t = 0; t < core::tier_count; ++t) {
    tiers[std::string(core::tier_names[t])] = {{"planned_bytes", stage.planned_bytes[t]},
                                               {"measured_bytes", stage.measured_bytes[t]}};
  }
  return tiers;
}

Json ceiling_json(const runtime::GemmCeiling& ceiling) {
  Json libraries = Json::array();
  for (const runtime::GemmLibrary& library : ceiling.libraries) {
    libraries.push_back({{"name", library.name},
                         {"flops_per_second", library.flops_per_second > 0 ? Json(library.flops_per_second) : Json()},
                         {"fastest_of", library.fastest_of}});
  }
  Json rates = Json::array();
  for (const runtime::ProductRate& rate : ceiling.rates) {
    rates.push_back({{"product", rate.spec.text()},
                     {"M", rate.spec.M},
                     {"N", rate.spec.N},
                     {"K", rate.spec.K},
                     {"times", rate.times},
                     {"share", rate.share},
                     {"flops_per_second", rate.flops_per_second}});
  }
  return {{"flops_per_second", ceiling.flops_per_second.median},
          {"products", ceiling.products},
          {"libraries", libraries},
          {"rates", rates}};
}

void print_products(const runtime::GemmCeiling& ceiling) {
  std::string libraries;
  for (const runtime::GemmLibrary& library : ceiling.libraries) libraries += fmt::format("  {:>24}", library.name);
  std::cout << fmt::format("{:>6}  {:>5}{}  product (GFLOP/s of each library)\n", "share", "times", libraries);
  for (const runtime::ProductRate& rate : ceiling.rates) {
    std::string speeds;
    for (const double speed : rate.flops_per_second) {
      speeds += fmt::format("  {:>24}", speed > 0 ? fmt::format("{:.1f}", speed / 1e9) : "–");
    }
    std::cout << fmt::format("{:>5.1f}%  {:>5.0f}{}  {}\n", 100 * rate.share, rate.times, speeds, rate.spec.text());
  }
}

// "zrt 213.0 (fastest of 9 of 15 products), oneDNN 2.6.3 has not all (0)".
std::string libraries_text(const runtime::GemmCeiling& ceiling) {
  std::string text;
  for (const runtime::GemmLibrary& library : ceiling.libraries) {
    const bool has_all = library.flops_per_second > 0;
    text += fmt::format("{}{} {} (fastest at {} of {})", text.empty() ? "" : ", ", library.name,
                        has_all ? fmt::format("{:.1f}", library.flops_per_second / 1e9) : "has not all",
                        library.fastest_of, ceiling.products);
  }
  return text;
}

void print_cpu_ceilings(const runtime::TrainBench& bench, bool fp32) {
  std::cout << fmt::format("  of the fastest library at each product: {}\n", libraries_text(bench.ceiling));
  if (!fp32) {
    std::cout << fmt::format("  the same products in fp32: {} GFLOP/s, of which the first stage reaches {}; {}\n",
                             spread_text(bench.fp32_ceiling.flops_per_second, 1e9),
                             spread_text(bench.stages.front().of_fp32_ceiling, 1, 3),
                             libraries_text(bench.fp32_ceiling));
  }
  std::cout << fmt::format("  fp32 multiply-adds in registers at {}: {} GFLOP/s\n", core::isa_name(core::best_isa()),
                           spread_text(bench.fma_peak, 1e9));
}

}  // namespace

int bench_train(const Args& args) {
  po::options_description options("options");
  options.add_options()("model", po::value<std::string>()->default_value("gpt2-124m"), "model.preset")(
      "ranks", po::value<int>()->default_value(2), "ranks, one thread each")(
      "stages", po::value<std::string>()->default_value("0,3"), "ZeRO stages, all set up at once and run in turn")(
      "dtype", po::value<std::string>()->default_value("bf16"), "bf16 or fp32")(
      "micro-batch", po::value<int64_t>()->default_value(4), "samples per rank")(
      "rounds", po::value<int>()->default_value(5), "counted steps of each stage")(
      "set", po::value<std::vector<std::string>>()->composing(), "a.b.c=value: set any key")(
      "python", po::value<std::string>()->default_value(""),
      "a Python with PyTorch, whose products then count for the ceiling too")(
      "products", "also print how fast each of the model's matrix products is alone")("json", "print JSON");
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt bench train [--model PRESET] [--ranks N] …", options, {}, values)) return 0;
  const std::string dtype = values["dtype"].as<std::string>();
  if (dtype != "bf16" && dtype != "fp32") {
    throw core::UsageError(fmt::format("--dtype is '{}'; legal are bf16 and fp32", dtype));
  }
  std::vector<int> stages;
  std::stringstream list(values["stages"].as<std::string>());
  for (std::string item; std::getline(list, item, ',');) {
    if (item.size() != 1 || item[0] < '0' || item[0] > '3') {
      throw core::UsageError(fmt::format("--stages holds '{}'; legal are 0, 1, 2 and 3 with commas between", item));
    }
    stages.push_back(item[0] - '0');
  }
  const int rounds = values["rounds"].as<int>();
  if (stages.empty() || rounds < 1) throw core::UsageError("--stages and --rounds must not be empty or below 1");
  const Json file{{"gradient_accumulation_steps", 1},
                  {"gradient_clipping", 1.0},
                  {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-4}, {"weight_decay", 0.1}}}}}};
  const runtime::Settings sets = config_settings(
      values, {{"model", "model.preset"}, {"micro-batch", "train_micro_batch_size_per_gpu"}, dtype_option});
  const runtime::Config config = runtime::parse_config(file.dump(), "bench train", sets, values["ranks"].as<int>());
  if (core::dtype_name(config.precision.compute) != dtype) {
    throw core::UsageError(fmt::format("--dtype {} and --set contradict each other: the run would compute in {}", dtype,
                                       core::dtype_name(config.precision.compute)));
  }
  for (const runtime::ResolvedKey& key : config.keys) {
    if (key.path != "zero_optimization.stage" || key.from != "command line") continue;
    throw core::UsageError(fmt::format(
        "--set sets {} = {}, but --stages names the stages that run; give --stages alone", key.path, key.value));
  }
  const bool gpu = config.run.device == core::DeviceKind::cuda;
  const std::string python = values["python"].as<std::string>();
  if (gpu && !python.empty()) {
    throw core::UsageError("--python competes with the products of a CPU; leave it out with --device cuda");
  }
  const runtime::TrainBench bench = runtime::bench_train(config, stages, rounds, python, bench_progress());
  end_bench_progress();
  Json rows = Json::array();
  for (const auto& s : bench.stages) {
    rows.push_back({{"stage", s.stage},
                    {"step_seconds", spread_json(s.step_seconds)},
                    {"tokens_per_second", s.tokens_per_second},
                    {"model_flops_per_second", s.model_flops_per_second},
                    {"of_gemm_ceiling", spread_json(s.of_ceiling)},
                    {"of_fp32_gemm_ceiling", gpu ? Json() : spread_json(s.of_fp32_ceiling)},
                    {"of_matrix_rate", gpu ? spread_json(s.of_matrix_rate) : Json()},
                    {"speed_of_first_stage", spread_json(s.of_first)},
                    {"setup_seconds", s.setup_seconds},
                    {"exposed_comm_seconds", s.exposed_comm_seconds},
                    {"exposed_io_seconds", s.exposed_io_seconds},
                    {"moved_bytes",
                     {{"to_device", s.moved.to_device},
                      {"to_host", s.moved.to_host},
                      {"read", s.moved.read},
                      {"written", s.moved.written}}},
                    {"copy_bytes_per_second",
                     {{"to_device", s.to_device_bytes_per_second}, {"to_host", s.to_host_bytes_per_second}}},
                    {"tiers", tiers_json(s)}});
  }
  if (values.count("json")) {
    std::cout << Json{{"model", config.model.preset},
                      {"parameters", bench.parameters},
                      {"ranks", config.mesh.world()},
                      {"dtype", dtype},
                      {"tokens_per_step", bench.tokens_per_step},
                      {"flops_per_token", bench.flops_per_token},
                      {"gemm_ceiling_flops_per_second", spread_json(bench.ceiling.flops_per_second)},
                      {"gemm_ceiling", ceiling_json(bench.ceiling)},
                      {"fp32_gemm_ceiling", gpu ? Json() : ceiling_json(bench.fp32_ceiling)},
                      {"fma_peak_flops_per_second", gpu ? Json() : spread_json(bench.fma_peak)},
                      {"isa", core::isa_name(core::best_isa())},
                      {"device", core::device_description(config.run.device)},
                      {"matrix_flops_per_second", gpu ? spread_json(bench.matrix_rate) : Json()},
                      {"stages", rows}}
                     .dump(1)
              << "\n";
    return 0;
  }
  std::cout << fmt::format("{} {} on {} ranks, {} tokens per step, {:.0f} MFLOP per token\n", config.model.preset,
                           dtype, config.mesh.world(), bench.tokens_per_step, bench.flops_per_token / 1e6);
  std::cout << fmt::format("GEMM ceiling, all ranks running: {} GFLOP/s\n",
                           spread_text(bench.ceiling.flops_per_second, 1e9));
  if (!gpu) print_cpu_ceilings(bench, dtype == "fp32");
  if (values.count("products")) print_products(bench.ceiling);
  if (gpu) {
    std::cout << fmt::format("{}; one large bf16 product: {} TFLOP/s, of which the first stage reaches {:.3f}\n",
                             core::device_description(config.run.device), spread_text(bench.matrix_rate, 1e12),
                             bench.stages.front().of_matrix_rate.median);
  }
  std::cout << fmt::format("{:>5}  {:>22}  {:>9}  {:>13}  {:>21}  {:>20}  {:>12}  {:>12}  {:>10}\n", "stage", "step s",
                           "tokens/s", "model GFLOP/s", "of ceiling", "of first stage", "exposed comm", "exposed io",
                           "per rank");
  for (const auto& s : bench.stages) {
    std::cout << fmt::format("{:>5}  {:>22}  {:>9.1f}  {:>13.1f}  {:>21}  {:>20}  {:>10.3f} s  {:>10.3f} s  {:>10}\n",
                             s.stage, spread_text(s.step_seconds, 1, s.step_seconds.median < 0.1 ? 4 : 2),
                             s.tokens_per_second, s.model_flops_per_second / 1e9, spread_text(s.of_ceiling, 1, 3),
                             spread_text(s.of_first, 1), s.exposed_comm_seconds, s.exposed_io_seconds,
                             core::format_bytes(s.planned_bytes[static_cast<size_t>(core::Tier::device)]));
  }
  if (std::any_of(bench.stages.begin(), bench.stages.end(), [](const auto& s) { return s.of_ceiling.high > 1; })) {
    std::cout << "A ratio above 1: something else slowed the products down while they were measured, or sped the steps "
                 "up. Repeat it on a quiet machine, with more --rounds.\n";
  }
  return 0;
}

}  // namespace zrt::tools
