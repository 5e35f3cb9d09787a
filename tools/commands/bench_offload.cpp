// `zrt bench offload`: what a budget for the device tier costs a step.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/ledger.h"
#include "runtime/bench/offload.h"
#include "runtime/report/draw/figure.h"
#include "tools/commands/arguments.h"
#include "tools/commands/bench.h"
#include "tools/commands/user_file.h"

namespace zrt::tools {
namespace {

runtime::Config offload_config(const po::variables_map& values) {
  const int ranks = values["ranks"].as<int>();
  std::vector<KeyOption> options{{"nvme", "memory.nvme_path"}};
  for (const KeyOption& option : {KeyOption{"model", "model.preset"},
                                  {"stage", "zero_optimization.stage"},
                                  {"micro-batch", "train_micro_batch_size_per_gpu"},
                                  {"accumulation", "gradient_accumulation_steps"}}) {
    // A file's values stand against defaults.
    if (!values.count("config") || !values[option.option].defaulted()) options.push_back(option);
  }
  const runtime::Settings sets = config_settings(values, options);
  if (values.count("config")) return runtime::load_config(values["config"].as<std::string>(), sets, ranks);
  const Json file{{"bf16", {{"enabled", true}}},
                  {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-4}, {"weight_decay", 0.1}}}}}};
  return runtime::parse_config(file.dump(), "bench offload", sets, ranks);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::stringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

// One number up to 100: so many budgets; else a list of bytes.
void read_budgets(const std::string& text, runtime::OffloadOptions& options) {
  const std::vector<std::string> words = words_of(text);
  for (const std::string& word : words) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != 0 || !(value >= 1 && value < 1e18)) {
      throw core::UsageError(
          fmt::format("--budgets holds '{}'; legal are one number of budgets, or bytes with commas between", word));
    }
    options.budgets.push_back(static_cast<uint64_t>(value));
  }
  if (words.empty()) throw core::UsageError("--budgets is empty");
  if (options.budgets.size() > 1 || options.budgets[0] > 100) return;
  options.count = static_cast<int>(options.budgets[0]);
  options.budgets.clear();
}

Json run_json(const runtime::OffloadRun& run) {
  Json json{{"placement", run.placement},
            {"sets", run.sets},
            {"device_bytes", run.device_bytes},
            {"host_bytes", run.host_bytes},
            {"nvme_bytes", run.nvme_bytes},
            {"moved_bytes",
             {{"to_device", run.moved.to_device},
              {"to_host", run.moved.to_host},
              {"read", run.moved.read},
              {"written", run.moved.written}}},
            {"link_seconds", run.link_seconds},
            {"disk_seconds", run.disk_seconds},
            {"step_seconds", spread_json(run.step_seconds)},
            {"exposed_io_seconds", spread_json(run.exposed_io_seconds)}};
  json["predicted_seconds"] = run.predicted ? Json(run.predicted->seconds) : Json();
  json["predicted_exposed_io_seconds"] = run.predicted ? Json(run.predicted->exposed_io_seconds) : Json();
  return json;
}

Json offload_json(const runtime::OffloadBench& bench) {
  Json points = Json::array();
  for (const auto& point : bench.points) {
    Json json{{"budget_bytes", point.budget}};
    for (size_t p = 0; p < point.runs.size(); ++p) {
      Json& entry = json[bench.placements[p]];
      if (!point.runs[p]) continue;
      entry = run_json(bench.runs[*point.runs[p]]);
      entry["of_" + bench.placements[0]] = point.of_first[p] ? spread_json(*point.of_first[p]) : Json();
    }
    points.push_back(std::move(json));
  }
  return {{"least_bytes", bench.least_bytes},
          {"all_bytes", bench.all_bytes},
          {"tokens_per_step", bench.tokens_per_step},
          {"flops_per_step", bench.flops_per_step},
          {"gemm_ceiling_flops_per_second", spread_json(bench.ceiling)},
          {"compute_seconds", bench.compute_seconds()},
          {"points", points}};
}

std::string offload_text(const runtime::OffloadBench& bench) {
  const auto gib = [](uint64_t bytes) { return fmt::format("{:.3f}", static_cast<double>(bytes) / (1 << 30)); };
  std::string text = fmt::format(
      "{} tokens per step; FLOPs ÷ rate of its matrix products: {:.3f} s\n{:>10}  {:>10}  {:>10}  {:>22}  {:>20}  "
      "{:>22}  {:>11}  {:>7}  {:>9}  {:>9}  {:>24}\n",
      bench.tokens_per_step, bench.compute_seconds(), "budget GiB", "placement", "device GiB", "step s",
      "÷ " + bench.placements[0], "exposed I/O s", "predicted s", "I/O s", "÷ link s", "÷ disk s",
      "GiB up, down, read, write");
  for (const auto& point : bench.points) {
    for (size_t p = 0; p < point.runs.size(); ++p) {
      text += fmt::format("{:>10}  {:>10}  ", gib(point.budget), bench.placements[p]);
      if (!point.runs[p]) {
        text += "does not fit\n";
        continue;
      }
      const runtime::OffloadRun& run = bench.runs[*point.runs[p]];
      const auto& predicted = run.predicted;
      text += fmt::format(
          "{:>10}  {:>22}  {:>20}  {:>22}  {:>11}  {:>7}  {:>9.3f}  {:>9.3f}  {} {} {} {}\n", gib(run.device_bytes),
          spread_text(run.step_seconds, 1), point.of_first[p] ? spread_text(*point.of_first[p], 1) : "",
          spread_text(run.exposed_io_seconds, 1), predicted ? fmt::format("{:.3f}", predicted->seconds) : "",
          predicted ? fmt::format("{:.3f}", predicted->exposed_io_seconds) : "", run.link_seconds, run.disk_seconds,
          gib(run.moved.to_device), gib(run.moved.to_host), gib(run.moved.read), gib(run.moved.written));
    }
  }
  return text;
}

std::string bench_figure(const runtime::OffloadBench& bench, const std::string& title) {
  runtime::draw::Figure figure{
      title, "device memory of a rank", "a step", runtime::draw::Unit::bytes, runtime::draw::Unit::seconds, {}, {}};
  for (const auto& point : bench.points) figure.x.push_back(static_cast<double>(point.budget));
  for (size_t p = 0; p < bench.placements.size(); ++p) {
    runtime::draw::FigureLine line{bench.placements[p], {}, {}, {}};
    for (const auto& point : bench.points) {
      const runtime::Spread step =
          point.runs[p] ? bench.runs[*point.runs[p]].step_seconds : runtime::Spread{NAN, NAN, NAN};
      line.y.push_back(step.median), line.low.push_back(step.low), line.high.push_back(step.high);
    }
    figure.lines.push_back(std::move(line));
  }
  return runtime::draw::draw_figure(figure);
}

}  // namespace

int bench_offload(const Args& args) {
  po::options_description options("options");
  options.add_options()("config", po::value<std::string>(),
                        "a configuration's file, in place of the defaults of the next five")(
      "model", po::value<std::string>()->default_value("gpt2-10m"), "model.preset")(
      "ranks", po::value<int>()->default_value(1), "ranks, as threads")("stage", po::value<int>()->default_value(3),
                                                                        "zero_optimization.stage")(
      "micro-batch", po::value<int64_t>()->default_value(4), "samples per rank")(
      "accumulation", po::value<int64_t>()->default_value(1), "microbatches of a step")(
      "nvme", po::value<std::string>(), "memory.nvme_path: a folder on the drive")(
      "budgets", po::value<std::string>()->default_value("6"),
      "how many device budgets, from the least to all, or bytes with commas between")(
      "placements", po::value<std::string>()->default_value("auto,host,deepspeed,device"),
      "what to compare, of these; ratios are to the first")(
      "rounds", po::value<int>()->default_value(5), "counted rounds")("steps", po::value<int>()->default_value(2),
                                                                      "counted steps of each run in a round")(
      "svg", po::value<std::string>(), "file for a figure: step time over budget")(
      "set", po::value<std::vector<std::string>>()->composing(), "a.b.c=value: set any key")("json", "print JSON");
  add_force_option(options);
  po::variables_map values;
  if (!parse(args, "zrt bench offload [--model PRESET] [--budgets N] [--placements LIST] …", options, {}, values)) {
    return 0;
  }
  runtime::OffloadOptions wanted;
  wanted.rounds = values["rounds"].as<int>(), wanted.steps = values["steps"].as<int>();
  if (wanted.rounds < 1 || wanted.steps < 1) throw core::UsageError("--rounds and --steps must be positive");
  read_budgets(values["budgets"].as<std::string>(), wanted);
  wanted.placements = words_of(values["placements"].as<std::string>());
  if (wanted.placements.empty()) throw core::UsageError("--placements is empty");
  if (values.count("svg")) {
    const std::string input = values.count("config") ? values["config"].as<std::string>() : "";
    require_replaceable({values["svg"].as<std::string>(), "--svg", runtime::draw::figure_mark, input}, values);
  }
  const runtime::Config config = offload_config(values);
  for (const std::string& name : wanted.placements) runtime::offload_placement(name, config.zero.stage, false);
  const runtime::OffloadBench bench = runtime::bench_offload(config, wanted, bench_progress());
  end_bench_progress();
  const std::string title =
      fmt::format("{}, {} rank{}, stage {}, {} × {} tokens × {} microbatches", config.model.preset, config.ranks,
                  config.ranks == 1 ? "" : "s", config.zero.stage, config.batch.micro, config.model.sequence,
                  config.batch.accumulation);
  if (values.count("svg")) core::write_durably(values["svg"].as<std::string>(), bench_figure(bench, title));
  if (values.count("json")) {
    Json json{{"title", title}, {"rounds", wanted.rounds}};
    json.update(offload_json(bench));
    std::cout << json.dump(1) << "\n";
  } else {
    std::cout << title << "\n" << offload_text(bench);
  }
  return 0;
}

}  // namespace zrt::tools
