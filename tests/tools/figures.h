// Runs whose printed figures are compared with the files that they leave and with their configuration.
#pragma once
#include <algorithm>
#include <cmath>
#include <regex>

#include "program.h"

namespace zrt::testing {

using nlohmann::json;

constexpr double batch = 8, sequence = 32, layers = 4, hidden = 64, vocabulary = 257;

struct FiguresRun : Folder {
  std::string printed;
  FiguresRun(const std::string& name, const std::string& options) : Folder("figures_" + name) {
    build_data(*this);
    write("c.json", R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
  "gradient_clipping": 1, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.003, "warmup_num_steps": 4}},
  "model": {"preset": "gpt2-tiny", "layers": 4}, "data": {"train": ")" +
                        (*this / "corpus/train") + R"(", "validation": ")" + (*this / "corpus/validation") +
                        R"("}, "run": {"steps": 6, "out": ")" + (*this / "run") +
                        R"(", "log_interval": 1, "eval_interval": 4, "checkpoint_interval": 3, "trace": true,
                        "trace_steps": [5, 5]}})");
    const Result result = run_zrt("train " + (*this / "c.json") + " " + options);
    INFO(result.text);
    REQUIRE(result.code == 0);
    printed = result.text;
  }
  json file(const std::string& name) const { return read_json(*this / ("run/" + name)); }
  std::vector<json> lines(const std::string& name) const {
    std::ifstream in(*this / ("run/" + name));
    std::vector<json> all;
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }
  json plan(const std::string& options) const {
    return json::parse(
        run_command(ZRT_BINARY_DIR "/zrt plan " + (*this / "c.json") + " --json " + options + " 2>/dev/null").text);
  }
};

inline std::string in_units(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit < 3) bytes /= 1024, ++unit;
  char text[64];
  snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return text;
}
inline std::string in_units(const json& bytes) {
  return in_units(bytes.get<double>());
}

// All matches of a line's pattern, each with its groups.
using Match = std::vector<std::string>;
inline std::vector<Match> found_in(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<Match> all;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    all.emplace_back(at->begin(), at->end());
  return all;
}
inline Match only(const std::string& text, const std::string& pattern) {
  const auto all = found_in(text, pattern);
  INFO(pattern << " in\n" << text);
  REQUIRE(all.size() == 1);
  return all[0];
}
inline double real(const std::string& text) {
  return std::stod(text);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

inline double parameters(bool tied) {
  const double layer = 12 * hidden * hidden + 13 * hidden;
  return vocabulary * hidden * (tied ? 1 : 2) + sequence * hidden + layers * layer + 2 * hidden;
}

inline const json& largest(const json& plan) {
  const auto peak = [](const json& rank) { return rank["tiers"]["device"]["planned_peak_bytes"].get<uint64_t>(); };
  return *std::max_element(plan["ranks"].begin(), plan["ranks"].end(),
                           [&](const json& a, const json& b) { return peak(a) < peak(b); });
}

struct FiguresCase {
  const char* name;
  int ranks, stages, microbatches;
  bool tied;
  std::string sets;
  std::string options() const { return "--ranks " + std::to_string(ranks) + " " + sets; }
};
inline const std::vector<FiguresCase> figures_cases{
    {"plain", 2, 1, 4, true, "--set zero_optimization.stage=3"},
    {"tied_stages", 4, 2, 4, true, "--set parallel.pipeline=2 --set zero_optimization.stage=1"},
    {"untied_uneven", 2, 2, 8, false,
     "--set parallel.pipeline=2 --set parallel.partition=[5,1] --set model.tied=false --set memory.placement=host"},
    {"interleaved", 2, 2, 8, true, "--set parallel.pipeline=2 --set parallel.virtual_pipeline=3"},
    {"tensor", 2, 1, 8, true, "--set parallel.tensor=2"}};

}  // namespace zrt::testing
