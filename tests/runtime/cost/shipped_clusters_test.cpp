// The files of share/clusters are found by name and hold what plans depend on.
#include <map>

#include "catch.h"
#include "core/error.h"
#include "runtime/cost/cluster.h"
#include "tests/runtime/plan/planned.h"

namespace zrt::shipped_clusters_test {

using namespace zrt;
using runtime::Cluster;
using runtime::find_cluster;

namespace {

// Drivers report so many MiB.
const std::map<std::string, uint64_t> device_mib{{"dgx-a100", 81920},  {"dgx-h100", 81559}, {"dgx-h200", 143771},
                                                 {"dgx2-v100", 32510}, {"gb200", 189471},   {"rtx3090x2", 24576},
                                                 {"rtx4090", 24564}};

// Each of the ranks may use so many bytes of a tier.
uint64_t limit(const Cluster& cluster, int ranks, core::Tier tier) {
  const auto config = runtime::parse_config(testing::plan_base, "plan.json", {"train_batch_size=null"}, ranks);
  return runtime::memory_limits(config, &cluster).of(tier)->bytes;
}

std::string refusal(const std::string& cluster, int ranks) {
  try {
    testing::planned({"train_batch_size=null"}, ranks, find_cluster(cluster));
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("The clusters that are shipped can be found by name and have sources for all figures") {
  std::vector<std::string> names;
  names.reserve(device_mib.size());
  for (const auto& [name, unused] : device_mib) names.push_back(name);
  CHECK(runtime::cluster_names() == names);
  for (const std::string& name : names) {
    const Cluster cluster = find_cluster(name);
    INFO(name);
    CHECK(cluster.name == name);
    CHECK(cluster.between_hosts.has_value() == (name != "rtx3090x2"));
    CHECK(cluster.rates(core::DType::f16).peak_flops_per_second > 5e13);
    for (const uint64_t bytes : cluster.tier_bytes) CHECK(bytes > 0);
  }
  const Cluster a100 = find_cluster("dgx-a100");
  CHECK(a100.ranks_per_host == 8);
  CHECK(a100.rates(core::DType::bf16).peak_flops_per_second == 312e12);
  CHECK(a100.inside_host.bytes_per_second == 2.32e11);
  CHECK(a100.between_hosts->latency_seconds == 1.4e-5);
  CHECK(a100.exchange == runtime::Exchange::once_per_host);
  CHECK(a100.reserved.bytes() == 2'459'048'192);
  CHECK(a100.overlap_between.comm == 0.95);
  CHECK(a100.host_memory_bytes_per_second == 3.1e10);
  CHECK(!a100.disk_read_bytes_per_second);
  CHECK(!a100.most_hosts);
  CHECK(a100.beside_host(core::DeviceKind::cuda).compute == 1);
}

TEST_CASE("Shipped devices have the bytes that their driver reports, less all parts that no rank may use") {
  for (const auto& [name, mib] : device_mib) {
    INFO(name);
    const Cluster cluster = find_cluster(name);
    CHECK(cluster.tier_bytes[0] == mib << 20);
    CHECK(limit(cluster, 2, core::Tier::device) == (mib << 20) - cluster.reserved.bytes());
    std::vector<std::string> parts;
    for (const auto& part : cluster.reserved.parts) parts.push_back(part.name);
    CHECK(parts == std::vector<std::string>{"driver", "context", "modules", "libraries", "nccl"});
    // A run that has asked the driver reserves as much as its plan.
    CHECK(cluster.reserved.after_context().less() == runtime::usual_reserved().less());
  }
}

TEST_CASE("What is reserved is listed by its parts, and a process with a context has the others yet to take") {
  const runtime::Reserved reserved{{{"driver", 1 << 20}, {"context", 2 << 20}, {"modules", 0}, {"nccl", 3 << 20}}};
  CHECK(reserved.bytes() == 6 << 20);
  CHECK(reserved.less() == ", less 6.00 MiB (driver 1.00 MiB, context 2.00 MiB, nccl 3.00 MiB)");
  CHECK(reserved.after_context().less() == ", less 3.00 MiB (nccl 3.00 MiB)");
  CHECK(runtime::Reserved{}.less().empty());
  CHECK(runtime::Reserved{{{"modules", 0}}}.less().empty());
}

TEST_CASE("Four GB200s share a host's memory, and the hosts of a rack are as near as the GPUs of one") {
  const Cluster cluster = find_cluster("gb200");
  for (const int ranks : {4, 8, 72}) CHECK(limit(cluster, ranks, core::Tier::host) == 240'000'000'000);
  CHECK(limit(cluster, 2, core::Tier::host) == 480'000'000'000);
  CHECK(cluster.between_hosts->bytes_per_second == 4 * cluster.inside_host.bytes_per_second);
  const auto rack = testing::planned({"train_batch_size=null", "zero_optimization.stage=3"}, 72, cluster);
  CHECK_THAT(plan_text(rack->plan), Catch::Contains("groups between hosts, by NCCL: dp (72 ranks on 18 hosts"));
}

TEST_CASE("More ranks than a cluster's links connect are refused with the most that they do") {
  CHECK(refusal("gb200", 72).empty());
  CHECK_THAT(refusal("gb200", 76), Catch::Contains("76 ranks take 19 hosts of 4 each") &&
                                       Catch::Contains("cluster gb200 connects 18") &&
                                       Catch::Contains("at most 72 ranks"));
  CHECK(refusal("rtx3090x2", 2).empty());
  CHECK_THAT(refusal("rtx3090x2", 4), Catch::Contains("no link between_hosts") && Catch::Contains("at most 2 ranks"));
}

}  // namespace zrt::shipped_clusters_test
