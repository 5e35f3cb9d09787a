// Tests what `zrt bench offload` runs, and what it says of it.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "runtime/bench/offload_ways.h"
#include "runtime/report/draw/figure.h"
#include "temporary_folder.h"

namespace zrt::bench_offload_test {

using namespace zrt;
using runtime::OffloadBench;
using runtime::OffloadRun;

namespace {

runtime::Config config_of(int stage, const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"zero_optimization.stage=" + std::to_string(stage)};
  sets.insert(sets.end(), more.begin(), more.end());
  return runtime::parse_config(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
                                   "bf16": {"enabled": true}, "model": {"preset": "gpt2-tiny", "sequence": 16},
                                   "zero_optimization": {"reduce_bucket_size": 10000, "allgather_bucket_size": 10000},
                                   "memory": {"unit_bytes": 16384}})",
                               "test", sets, 2);
}

OffloadBench bench_of(const runtime::Config& config, std::vector<std::string> placements, int count = 3) {
  runtime::OffloadOptions options;
  options.placements = std::move(placements);
  options.count = count, options.rounds = 1, options.steps = 1;
  return runtime::bench_offload(config, options, [](const std::string&) {});
}

}  // namespace

TEST_CASE("A row of budgets goes from the least to all in equal steps") {
  CHECK(runtime::budget_row(100, 400, 4) == std::vector<uint64_t>{100, 200, 300, 400});
  CHECK(runtime::budget_row(100, 400, 1) == std::vector<uint64_t>{400});
  CHECK(runtime::budget_row(400, 400, 3) == std::vector<uint64_t>{400});
}

TEST_CASE("DeepSpeed's placement takes the weights only where it has to, and only at stage 3") {
  CHECK(runtime::offload_placement("deepspeed", 0, false).sets.empty());
  CHECK(runtime::offload_placement("deepspeed", 2, false).sets.size() == 1);
  const auto three = runtime::offload_placement("deepspeed", 3, true).sets;
  REQUIRE(three.size() == 2);
  CHECK(three[0].size() + 1 == three[1].size());
  CHECK(three[0][0] == "zero_optimization.offload_optimizer.device=nvme");
  CHECK(three[1].back() == "zero_optimization.offload_param.device=nvme");
  CHECK_THROWS_AS(runtime::offload_placement("zero", 3, false), core::UsageError);
}

TEST_CASE("Steps run at budgets from the least to all, every placement where it fits") {
  const OffloadBench bench = bench_of(config_of(3), {"auto", "host", "deepspeed", "device"});
  REQUIRE(bench.points.size() == 3);
  CHECK(bench.least_bytes < bench.all_bytes);
  CHECK(bench.points.front().budget == bench.least_bytes);
  CHECK(bench.points.back().budget == bench.all_bytes);
  for (const auto& point : bench.points) {
    for (size_t p = 0; p < bench.placements.size(); ++p) {
      if (!point.runs[p]) continue;
      const OffloadRun& run = bench.runs[*point.runs[p]];
      INFO(run.placement << " at " << point.budget << ": " << run.sets);
      CHECK(run.placement == bench.placements[p]);
      CHECK(run.device_bytes <= point.budget);
      CHECK(run.step_seconds.median > 0);
      CHECK(point.of_first[p]->median > 0);
    }
    REQUIRE(point.runs[0]);
  }
  CHECK(!bench.points.front().runs[3]);
  const auto& all = bench.points.back().runs;
  CHECK(bench.runs[*all[0]].moved == runtime::Moved{});
  CHECK(bench.runs[*all[3]].moved == runtime::Moved{});
  CHECK(bench.runs[*all[1]].moved.to_device > 0);
  CHECK(bench.runs[*all[1]].host_bytes > 0);
  CHECK(bench.flops_per_step > 0);
  CHECK(bench.compute_seconds() > 0);
}

TEST_CASE("With a drive its tier is used, and what moves takes its bytes over the rates of the cluster") {
  const testing::TemporaryFolder folder;
  const runtime::Config config =
      config_of(3, {"memory.nvme_path=" + folder.path.string(), "parallel.cluster=dgx-a100"});
  const OffloadBench bench = bench_of(config, {"auto", "host"}, 2);
  const OffloadRun& all = bench.runs[*bench.points.back().runs[1]];
  CHECK(all.moved.read > 0);
  CHECK(all.nvme_bytes > 0);
  CHECK(all.disk_seconds == Approx(2 * static_cast<double>(all.moved.read + all.moved.written) / 2.5e10));
  CHECK(all.link_seconds == Approx(static_cast<double>(std::max(all.moved.to_device, all.moved.to_host)) / 1.25e10));
  CHECK(all.predicted->seconds > 0);
  const OffloadRun& least = bench.runs[*bench.points.front().runs[0]];
  CHECK(least.host_bytes <= all.host_bytes);
  CHECK(least.nvme_bytes > 0);
}

TEST_CASE("A drive that reads at another rate than it writes takes its time for each") {
  const testing::TemporaryFolder folder;
  std::ifstream shipped(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  nlohmann::json cluster = nlohmann::json::parse(shipped);
  const double writes = 2e9;
  cluster["disk"]["bytes_per_second"]["value"] = writes;
  for (const double reads : {5e8, 2e9, 8e9}) {
    cluster["disk"]["read_bytes_per_second"] = {{"value", reads}, {"source", "a test"}};
    const std::string file = folder.path / "mine.json";
    std::ofstream(file) << cluster.dump();
    const runtime::Config config =
        config_of(3, {"memory.nvme_path=" + folder.path.string(), "parallel.cluster=" + file});
    const auto sets = runtime::offload_placement("host", 3, true).sets.front();
    const OffloadRun run = runtime::describe(runtime::compile_way(config, config.model.make(), sets));
    CAPTURE(reads, run.moved.read, run.moved.written);
    REQUIRE((run.moved.read > 0 && run.moved.written > 0));
    // Two ranks share the drive.
    const auto read = static_cast<double>(run.moved.read), written = static_cast<double>(run.moved.written);
    CHECK(run.disk_seconds == Approx(2 * (read / reads + written / writes)));
  }
}

TEST_CASE("A figure has a line for every placement, with gaps where it does not fit") {
  runtime::draw::Figure figure{
      "a < b", "memory", "a step", runtime::draw::Unit::bytes, runtime::draw::Unit::seconds, {1024, 2048, 3072}, {}};
  figure.lines = {{"one", {3, 2, 1}, {2.9, 1.9, 0.9}, {3.1, 2.1, 1.1}}, {"other", {NAN, 2, 2}, {}, {}}};
  const std::string svg = runtime::draw::draw_figure(figure);
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count("<circle") == 5);
  CHECK(count("stroke-width=\"2\"") == 2);
  CHECK(svg.find("a &lt; b") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("other") != std::string::npos);
}

}  // namespace zrt::bench_offload_test
