// The time that a plan gives for a delink follows from what it moves and from the cluster's rates.
#include "runtime/plan/delink_time.h"

#include <nlohmann/json.hpp>

#include "catch.h"
#include "runtime/train/lives.h"
#include "tests/runtime/plan/planned.h"

namespace zrt::delink_time_test {

using namespace zrt;
using namespace zrt::runtime;
using Catch::Matchers::Contains;

namespace {

constexpr double disk = 2e6, disk_reads = 5e6, memory = 1e9, host_memory = 4e8, link = 5e7;

// Rates that nobody confuses, and no latency.
Cluster plain_cluster(int ranks_per_host) {
  Cluster cluster = find_cluster("dgx-a100");
  cluster.ranks_per_host = ranks_per_host;
  cluster.op_seconds = 0;
  cluster.disk = {0, disk}, cluster.disk_read_bytes_per_second = disk_reads;
  cluster.memory_bytes_per_second = memory, cluster.host_memory_bytes_per_second = host_memory;
  cluster.host_link = {0, link};
  return cluster;
}

// Both lives of a run, as `zrt plan` makes them.
struct Lives {
  std::unique_ptr<Plan> shared, real;
  models::Sharing sharing;
  Lives(std::vector<std::string> sets, int ranks, const std::optional<Cluster>& cluster) {
    for (const char* set : {"pseudo_to_real.groups=1", "pseudo_to_real.delink.at_step=4", "run.out=nowhere"})
      sets.emplace_back(set);
    const Config config = parse_config(testing::plan_base, "plan.json", sets, ranks);
    const models::Model model = config.model.make();
    sharing = config.pseudo_to_real->sharing;
    shared = std::make_unique<Plan>(make_plan(config, models::share(model, config.pseudo_to_real->sharing),
                                              training_phases(config, "init"), cluster));
    const Config later = after_delink(config);
    real = std::make_unique<Plan>(make_plan(later, model, training_phases(later, "load"), cluster));
  }
  DelinkTime time() const { return delink_time(*shared, *real, sharing); }
};

uint64_t parameters(const Plan& plan) {
  return static_cast<uint64_t>(plan.parameters);
}

uint64_t elements(const Plan& plan, bool shards) {
  uint64_t all = 0;
  for (const optimizer::Unit& unit : plan.layout().units.units)
    all += static_cast<uint64_t>(shards ? unit.shard : unit.elements);
  return all;
}

}  // namespace

TEST_CASE("A delink moves fp32 weights and states of shared layers to the disk, and to each rank what it will hold") {
  for (int stage = 0; stage < 4; ++stage) {
    INFO("stage " << stage);
    const std::string zero = "zero_optimization.stage=" + std::to_string(stage);
    const Lives lives({zero}, 4, {});
    const DelinkTime time = lives.time();
    CHECK(time.checkpoint_bytes == 3 * 4 * parameters(*lives.shared));
    CHECK(parameters(*lives.shared) < parameters(*lives.real));
    const uint64_t whole = elements(*lives.real, false), shard = elements(*lives.real, true);
    // A rank has bf16 weights, masters and two moments; weights and masters are read once where they are cut alike.
    const uint64_t states = stage == 0 ? whole : shard;
    CHECK(time.loaded_bytes == 4 * (2 * states + (stage == 1 || stage == 2 ? whole + shard : states)));
    CHECK(time.placed_bytes[0] >= 12 * states + 2 * (stage == 3 ? shard : whole));
    CHECK(time.placed_bytes[0] < 12 * states + 2 * (stage == 3 ? shard : whole) + 4096);  // the control block
    CHECK(time.placed_bytes[1] == 0);
    CHECK(!time.seconds);
    CHECK(delink_json(time)["seconds"].is_null());
    CHECK_THAT(delink_text(time, {}), Contains("no time is predicted without --cluster"));
  }
}

TEST_CASE("The seconds of a delink are its bytes by the rates of disk, memory and link of the tiers they go to") {
  for (const int on_host : {2, 8}) {
    for (const char* where : {"device", "host", "nvme"}) {
      INFO(where << ", " << on_host << " ranks on a host");
      const Cluster cluster = plain_cluster(on_host);
      const Lives lives({std::string("memory.placement=") + where, "memory.nvme_path=scratch"}, 8, cluster);
      const DelinkTime time = lives.time();
      const auto of = [](uint64_t bytes) { return static_cast<double>(bytes); };
      const double checkpoint = of(time.checkpoint_bytes), loaded = of(time.loaded_bytes);
      const double check = checkpoint / disk_reads;
      REQUIRE(time.seconds);
      CHECK(time.seconds->save == Approx(checkpoint * on_host / 8 / disk + check));
      // A host reads all of the checkpoint from its disk at most, and the rest, again, from its memory.
      const double first = std::min(checkpoint, loaded * on_host);
      const double place = of(time.placed_bytes[0]) / memory + of(time.placed_bytes[1]) / host_memory +
                           of(time.placed_bytes[2]) * on_host / disk;
      CHECK(time.seconds->load ==
            Approx(check + first / disk_reads + (loaded - first / on_host) / host_memory + place));
      CHECK((time.placed_bytes[2] > 0) == (std::string(where) == "nvme"));
      CHECK((time.placed_bytes[1] > 0) == (std::string(where) != "device"));
      const auto json = delink_json(time);
      CHECK(json["seconds"] == time.seconds->save + time.seconds->load);
      CHECK(json["placed_bytes"]["nvme"] == time.placed_bytes[2]);
      CHECK_THAT(delink_text(time, cluster), Contains("to save and") && !Contains("as fast as it is written"));
    }
  }
}

TEST_CASE("What goes to a GPU crosses the link from the host, and stages write a checkpoint together") {
  const Cluster cluster = plain_cluster(4);
  const Lives lives({"parallel.pipeline=2"}, 4, cluster);
  const DelinkTime on_cpu = lives.time();
  REQUIRE(lives.real->stages.size() == 2);
  CHECK(on_cpu.checkpoint_bytes == 3 * 4 * parameters(*lives.shared));
  for (StagePlan& stage : lives.real->stages) stage.compiled.layout.device = core::DeviceKind::cuda;
  const DelinkTime on_gpu = lives.time();
  const double placed = static_cast<double>(on_gpu.placed_bytes[0]);
  CHECK(on_gpu.placed_bytes == on_cpu.placed_bytes);
  CHECK(on_gpu.seconds->load - on_cpu.seconds->load == Approx(placed / link - placed / memory));
}

TEST_CASE(
    "Where a cluster does not say how fast its disk reads, a delink is taken to read as fast as it writes, and says "
    "so") {
  Cluster cluster = plain_cluster(4);
  cluster.disk_read_bytes_per_second.reset();
  const Lives lives({}, 4, cluster);
  const DelinkTime time = lives.time();
  const double checkpoint = static_cast<double>(time.checkpoint_bytes);
  CHECK(time.seconds->save == Approx(2 * checkpoint / disk));
  CHECK_THAT(delink_text(time, cluster), Contains("and as fast as it is written"));
}

}  // namespace zrt::delink_time_test
