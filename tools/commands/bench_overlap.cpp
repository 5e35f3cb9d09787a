// `zrt bench overlap`: a step and its parts; `zrt bench traffic`: the traffic that the parts are measured beside.
#include <fmt/format.h>

#include <iostream>

#include "core/error.h"
#include "core/ledger.h"
#include "runtime/bench/overlap.h"
#include "tools/commands/arguments.h"
#include "tools/commands/bench.h"
#include "tools/commands/ranks.h"

namespace zrt::tools {
namespace {

runtime::Config overlap_config(const po::variables_map& values, int ranks) {
  const std::string dtype = values["dtype"].as<std::string>();
  if (dtype != "bf16" && dtype != "fp32") {
    throw core::UsageError(fmt::format("--dtype is '{}'; legal are bf16 and fp32", dtype));
  }
  const Json file{{"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-4}, {"weight_decay", 0.1}}}}},
                  {"zero_optimization", {{"stage", 3}}}};
  const runtime::Settings sets = config_settings(values, {{"model", "model.preset"},
                                                          {"layers", "model.layers"},
                                                          {"hidden", "model.hidden"},
                                                          {"heads", "model.heads"},
                                                          {"sequence", "model.sequence"},
                                                          {"micro-batch", "train_micro_batch_size_per_gpu"},
                                                          {"accumulation", "gradient_accumulation_steps"},
                                                          dtype_option});
  const runtime::Config config = runtime::parse_config(file.dump(), "bench overlap", sets, ranks);
  if (config.zero.stage != 3) {
    throw core::UsageError(
        fmt::format("zero_optimization.stage is {}; bench overlap measures stage 3 only", config.zero.stage));
  }
  return config;
}

Json row_json(const runtime::OverlapRow& row) {
  return {{"seconds", spread_json(row.seconds)},
          {"cpu_seconds", spread_json(row.cpu_seconds)},
          {"exposed_comm_seconds", spread_json(row.exposed_comm_seconds)}};
}

Json overlap_json(const runtime::OverlapBench& bench) {
  Json gaps = Json::array();
  for (const auto& gap : bench.gaps)
    gaps.push_back({{"op", gap.op}, {"awaited", gap.awaited}, {"seconds", gap.seconds}});
  Json json{{"step_bytes_per_rank", bench.step_bytes},
            {"rank_bytes", bench.rank_bytes},
            {"communication", row_json(bench.comm)},
            {"computation", row_json(bench.compute)},
            {"step_with_overlap", row_json(bench.with_overlap)},
            {"step_without_overlap", row_json(bench.without_overlap)},
            {"communication_of_computation", spread_json(bench.comm_of_compute)},
            {"with_overlap_of_computation", spread_json(bench.with_of_compute)},
            {"without_overlap_of_computation", spread_json(bench.without_of_compute)},
            {"beside_traffic", bench.compute_beside_traffic.has_value()}};
  if (bench.compute_beside_traffic) {
    json["computation_beside_traffic"] = row_json(*bench.compute_beside_traffic);
    json["traffic_asked_bytes_per_second"] = spread_json(bench.traffic_asked);
    json["traffic_cpu_seconds_per_process"] = spread_json(bench.traffic_cpu_seconds);
    json["traffic_moved_bytes_per_second"] = spread_json(bench.traffic_moved);
  }
  json["gaps"] = gaps;
  return json;
}

std::string seconds(const runtime::Spread& s) {
  return fmt::format("{:.3f} ({:.3f} – {:.3f})", s.median, s.low, s.high);
}

std::string overlap_text(const runtime::OverlapBench& bench) {
  std::string text = fmt::format("{:>28}  {:>24}  {:>24}  {:>24}\n", "", "s", "CPU s of all ranks", "exposed comm s");
  auto line = [&](const char* name, const runtime::OverlapRow& row) {
    text += fmt::format("{:>28}  {:>24}  {:>24}  {:>24}\n", name, seconds(row.seconds), seconds(row.cpu_seconds),
                        seconds(row.exposed_comm_seconds));
  };
  line("communication alone", bench.comm);
  line("computation alone", bench.compute);
  if (bench.compute_beside_traffic) line("computation beside traffic", *bench.compute_beside_traffic);
  line("step with overlap", bench.with_overlap);
  line("step without overlap", bench.without_overlap);
  const char* base = bench.compute_beside_traffic ? "computation beside traffic" : "computation alone";
  text += fmt::format("communication ÷ computation, each alone: {}\n", spread_text(bench.comm_of_compute, 1));
  text += fmt::format("step with overlap ÷ {}: {}\n", base, spread_text(bench.with_of_compute, 1));
  text += fmt::format("step without overlap ÷ {}: {}\n", base, spread_text(bench.without_of_compute, 1));
  text += fmt::format("a rank receives {} in a step", core::format_bytes(bench.step_bytes));
  if (bench.compute_beside_traffic) {
    text += fmt::format("; beside, {} MB/s flowed of {} asked for, {} CPU s of each process",
                        spread_text(bench.traffic_moved, 1e6), spread_text(bench.traffic_asked, 1e6),
                        seconds(bench.traffic_cpu_seconds));
  }
  text += "\nwhere rank 0's computation stood still in the last step with overlap:\n";
  for (const auto& gap : bench.gaps) {
    text += fmt::format("  {:>8.4f} s before '{}', after '{}'\n", gap.seconds, gap.op, gap.awaited);
  }
  return text;
}

}  // namespace

int bench_overlap(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  options.add_options()("model", po::value<std::string>()->default_value("llama-10m"), "model.preset")(
      "layers", po::value<int64_t>(), "model.layers")("hidden", po::value<int64_t>(), "model.hidden")(
      "heads", po::value<int64_t>(), "model.heads")("sequence", po::value<int64_t>(), "model.sequence")(
      "dtype", po::value<std::string>()->default_value("bf16"), "bf16 or fp32")(
      "micro-batch", po::value<int64_t>()->default_value(1), "samples per rank")(
      "accumulation", po::value<int64_t>()->default_value(1), "microbatches of a step")(
      "rounds", po::value<int>()->default_value(5), "counted rounds")(
      "traffic", po::value<std::string>(), "pace file of a `zrt bench traffic` that runs beside")(
      "set", po::value<std::vector<std::string>>()->composing(), "a.b.c=value: set any key")("json", "print JSON");
  po::variables_map values;
  if (!parse(args, "zrt bench overlap [--model PRESET] [--traffic FILE] …", options, {}, values)) return 0;
  const int rounds = values["rounds"].as<int>();
  if (rounds < 1) throw core::UsageError(fmt::format("--rounds is {}; legal is 1 or more", rounds));
  const auto transport = start_ranks(values, 2);
  return run_ranks(*transport, [&] {
    const runtime::Config config = overlap_config(values, transport->world());
    std::optional<std::filesystem::path> traffic;
    if (values.count("traffic")) traffic = values["traffic"].as<std::string>();
    const runtime::Progress watched = bench_progress(), unwatched = [](const std::string&) {};
    const runtime::OverlapBench bench =
        runtime::bench_overlap(config, *transport, rounds, traffic, transport->leads() ? watched : unwatched);
    if (!transport->leads()) return 0;
    end_bench_progress();
    if (values.count("json")) {
      Json json{{"model", config.model.preset},
                {"layers", config.model.layers},
                {"hidden", config.model.hidden},
                {"micro_batch", config.batch.micro},
                {"accumulation", config.batch.accumulation},
                {"dtype", values["dtype"].as<std::string>()},
                {"ranks", transport->world()},
                {"transport", transport->name()},
                {"rounds", rounds}};
      json.update(overlap_json(bench));
      std::cout << json.dump(1) << "\n";
      return 0;
    }
    std::cout << fmt::format(
                     "{}: {} layers of {}, {} samples of {} tokens × {} microbatches, {}, {} ranks ({}), {} rounds\n",
                     config.model.preset, config.model.layers, config.model.hidden, config.batch.micro,
                     config.model.sequence, config.batch.accumulation, values["dtype"].as<std::string>(),
                     transport->world(), transport->name(), rounds)
              << overlap_text(bench);
    return 0;
  });
}

int bench_traffic(const Args& args) {
  po::options_description options("options");
  add_rank_options(options);
  options.add_options()("pace", po::value<std::string>(),
                        "file that holds bytes per second, 0 for none, or \"stop\" to end");
  po::variables_map values;
  if (!parse(args, "zrt bench traffic --pace FILE", options, {}, values)) return 0;
  if (!values.count("pace")) throw core::UsageError("--pace is missing; usage: zrt bench traffic --pace FILE");
  const auto transport = start_ranks(values, 2);
  return run_ranks(*transport, [&] {
    runtime::make_traffic(*transport, runtime::TrafficFile(values["pace"].as<std::string>()));
    return 0;
  });
}

}  // namespace zrt::tools
