#include "runtime/cost/cluster.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "temporary_folder.h"

namespace zrt::cluster_test {

using namespace zrt;
using nlohmann::json;
using runtime::Cluster;

namespace {

const std::string good_file = ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json";

json good() {
  std::ifstream in(good_file);
  return json::parse(in);
}

// The message of the ConfigError that `text` as a cluster's file gives; "" when it is accepted.
std::string refusal(const std::string& text) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path / "mine.json";
  std::ofstream(file) << text;
  try {
    runtime::load_cluster(file);
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "";
}

void contains(const std::string& message, const std::vector<std::string>& parts) {
  INFO("message: " << message);
  for (const std::string& part : parts) {
    INFO("expected: " << part);
    CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace

namespace {

std::string refusal_of(const std::string& cluster) {
  try {
    runtime::find_cluster(cluster);
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A cluster is also found as a file, and a name that is neither brings the nearest one") {
  CHECK(runtime::find_cluster(good_file).ranks_per_host == 8);
  for (const auto& [name, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"dgx-a10", {"'dgx-a10'", "did you mean 'dgx-a100'", "dgx2-v100", "calibrate"}},
           {"no/such/file.json", {"no/such/file.json", "Known clusters are dgx-a100"}}}) {
    contains(refusal_of(name), parts);
  }
}

TEST_CASE("A curve follows powers between its points and stays beyond them") {
  const runtime::Curve curve{{{10, 1}, {1000, 100}, {2000, 50}}};
  CHECK(curve(5) == 1);
  CHECK(curve(10) == 1);
  CHECK(curve(100) == Approx(10));
  CHECK(curve(1000) == Approx(100));
  CHECK(curve(std::sqrt(2.0) * 1000) == Approx(100 / std::sqrt(2.0)));
  CHECK(curve(1e9) == 50);
}

TEST_CASE("A type that a cluster cannot compute in is refused with those it can") {
  const Cluster cluster = runtime::find_cluster("dgx2-v100");
  std::string message;
  try {
    cluster.rates(core::DType::bf16);
  } catch (const core::ConfigError& error) {
    message = error.what();
  }
  contains(message, {"dgx2-v100", "bf16", "fp32, fp16"});
}

TEST_CASE("What is wrong with a cluster's file is said with the key, its value and what is legal") {
  struct Bad {
    std::string pointer;
    json value;
    std::vector<std::string> expected;
  };
  const json source = "somebody";
  const std::vector<Bad> cases{
      {"/op_seconds/value", -1, {"op_seconds is '-1'", "a number from 0 on"}},
      {"/memory/bytes_per_second/value", 0, {"memory.bytes_per_second is '0'", "a positive number"}},
      {"/memory/bytes_per_second/value", "fast", {"memory.bytes_per_second is '\"fast\"'", "a positive number"}},
      {"/memory/reserved_bytes/context/value", -1, {"reserved_bytes.context is '-1'", "whole number from 0"}},
      {"/memory/reserved_bytes/nccl/value", 1e11, {"reserved_bytes.nccl is '100000000000.0'", "to 84010723071"}},
      {"/memory/reserved_bytes/nccl/value", 84'010'723'072, {"reserved_bytes.nccl is '84010723072'", "to 84010723071"}},
      {"/memory/reserved_bytes/cuda", 1, {"no key 'cuda'", "legal are driver, context, modules, libraries, nccl"}},
      {"/memory/reserved_bytes/context", {{"value", 1}}, {"memory.reserved_bytes.context lacks the key 'source'"}},
      {"/memory/reserved_bytes", 1'650'000'000, {"memory.reserved_bytes is '1650000000'", "an object"}},
      {"/memory/reserved_bytes", {{"value", -1}, {"source", source}}, {"memory.reserved_bytes is '-1'"}},
      {"/memory/reserved_bytes/value", 1, {"memory.reserved_bytes has no key 'context'", "value, source"}},
      {"/memory/host_bytes/value",
       uint64_t{1} << 61,
       {"host_bytes is '2305843009213693952'", "to 1152921504606846976"}},
      {"/between_hosts/hosts", {{"value", 1}, {"source", source}}, {"between_hosts.hosts is '1'", "from 2 to 1048576"}},
      {"/between_hosts/exchange/value", 3, {"between_hosts.exchange is '3'", "once_per_host, once_per_rank"}},
      {"/ranks_per_host/value", "8", {"ranks_per_host is '\"8\"'", "from 1 to 1024"}},
      {"/ranks_per_host/value", 1025, {"ranks_per_host is '1025'", "from 1 to 1024"}},
      {"/ranks_per_host/source", 5, {"ranks_per_host.source is '5'", "where the figure is from"}},
      {"/compute/fp32/gemm_efficiency/points", "all", {"gemm_efficiency.points is '\"all\"'", "pairs"}},
      {"/memory/device_bytes/value", 1.5, {"memory.device_bytes is '1.5'", "whole number from 1"}},
      {"/ranks_per_host/value", 0, {"ranks_per_host is '0'", "from 1 to 1024"}},
      {"/distribution", {{"value", "diagonal"}, {"source", "us"}}, {"distribution is '\"diagonal\"'", "block, cyclic"}},
      {"/ranks_per_host/value", true, {"ranks_per_host is 'true'"}},
      {"/overlap/inside_host/compute/value", 1.5, {"overlap.inside_host.compute is '1.5'", "at most 1"}},
      {"/between_hosts/exchange/value", "twice", {"between_hosts.exchange", "once_per_host, once_per_rank"}},
      {"/between_hosts/bandwidth", 1, {"between_hosts has no key 'bandwidth'"}},
      {"/inside_host/latency_second", 1, {"did you mean 'latency_seconds'"}},
      {"/disc", 1, {"the file has no key 'disc', did you mean 'disk'?"}},
      {"/disk", 3, {"disk is '3'", "an object"}},
      {"/op_seconds", {{"value", 1}}, {"op_seconds lacks the key 'source'"}},
      {"/op_seconds", {{"source", source}}, {"op_seconds lacks the key 'value'"}},
      {"/op_seconds/source", "", {"op_seconds.source is '\"\"'", "where the figure is from"}},
      {"/compute/bf8", 1, {"compute has no key 'bf8'", "fp32, bf16, fp16"}},
      {"/compute/fp32/gemm_efficiency/points", json::array(), {"compute.fp32.gemm_efficiency.points is '[]'", "pairs"}},
      {"/compute/fp32/gemm_efficiency/points", {{64, 0.5}, {64, 0.6}}, {"the size 64 after 64", "rise"}},
      {"/compute/fp32/gemm_efficiency/points", {{64, 0.5, 1}}, {"holds '[64,0.5,1]'", "pairs"}},
      {"/compute/fp32/gemm_efficiency/points", {{64, 2}}, {"gemm_efficiency is '2'", "at most 1"}},
      {"/compute/bf16/gemm_efficiency", 1, {"compute.bf16 has both 'gemm_efficiency' and 'tiles'"}},
      {"/compute/bf16/tiles/multiprocessors/value", 0, {"tiles.multiprocessors is '0'", "from 1 to 4096"}},
      {"/inside_host/base_seconds/value", -1, {"inside_host.base_seconds is '-1'", "from 0 on"}},
      {"/software/megatron-2021/exchanges/value", "slow", {"exchanges is '\"slow\"'", "overlapped, blocking"}},
      {"/software/megatron-2021/score_bytes_forward/value", 0, {"score_bytes_forward is '0'", "a positive number"}},
      {"/software/megatron-2021", 1, {"software.megatron-2021 is '1'", "an object"}},
  };
  for (const Bad& bad : cases) {
    json changed = good();
    changed[json::json_pointer(bad.pointer)] = bad.value;
    INFO(bad.pointer << " = " << bad.value);
    const std::string message = refusal(changed.dump(1));
    contains(message, bad.expected);
    contains(message, {"mine.json:"});  // the line follows
  }
}

TEST_CASE("A key that an object of a cluster's file does not have is refused wherever it stands") {
  const json whole = good();
  std::vector<json::json_pointer> objects{json::json_pointer("")};
  const json flat = whole.flatten();
  for (const auto& [pointer, unused] : flat.items()) {
    for (json::json_pointer at = json::json_pointer(pointer).parent_pointer(); !at.empty(); at = at.parent_pointer()) {
      if (whole[at].is_object()) objects.push_back(at);
    }
  }
  CHECK(objects.size() > 50);
  for (const json::json_pointer& object : objects) {
    if (object.to_string() == "/software") continue;  // names that anybody may add
    json changed = whole;
    changed[object]["xyzzy"] = 1;
    INFO(object.to_string());
    contains(refusal(changed.dump()), {"has no key 'xyzzy'"});
  }
}

TEST_CASE("Every key of a cluster's file but software, power and the link between hosts must be there") {
  const json whole = good();
  CHECK(refusal(whole.dump()).empty());
  const json flat = whole.flatten();
  for (const auto& [pointer, unused] : flat.items()) {
    if (pointer.find("/points/") != std::string::npos) continue;
    json changed = whole;
    const json::json_pointer path(pointer);
    changed[path.parent_pointer()].erase(path.back());
    INFO(pointer);
    contains(refusal(changed.dump()), {"lacks the key '" + path.back() + "'"});
  }
  for (const auto& [key, unused] : whole.items()) {
    json changed = whole;
    changed.erase(key);
    INFO(key);
    if (key == "between_hosts" || key == "software" || key == "host_watts") {
      CHECK(refusal(changed.dump()).empty());
    } else {
      contains(refusal(changed.dump()), {"the file lacks the key '" + key + "'"});
    }
  }
}

TEST_CASE("Text that is no JSON, or holds numbers that are none, is refused with its line") {
  contains(refusal("ranks_per_host = 8"), {"mine.json:1"});
  contains(refusal("[]"), {"mine.json", "an object"});
  contains(refusal(""), {"mine.json"});
  std::string text = good().dump(1);
  const size_t at = text.find("2e-05");
  REQUIRE(at != std::string::npos);
  contains(refusal(text.replace(at, 5, "NaN")), {"mine.json:"});
  contains(refusal(text.replace(at, 3, "1e999")), {"mine.json:"});
  contains(refusal(R"({"disk": 1, "disk": 2})"), {"disk"});
  std::string message;
  try {
    runtime::load_cluster("no/such/cluster.json");
  } catch (const core::ConfigError& error) {
    message = error.what();
  }
  contains(message, {"no/such/cluster.json"});
}

TEST_CASE("A cluster's file may say how fast the host computes, what that costs beside, and how fast a disk reads") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path / "mine.json";
  json document = good();
  const auto figure = [](double value) { return json{{"value", value}, {"source", "somebody"}}; };
  document["disk"]["read_bytes_per_second"] = figure(5e9);
  document["disk"]["endurance_bytes"] = figure(7e15);
  document["host_watts"] = figure(900);
  document["overlap"]["host_lane"] = {{"compute", figure(0.7)}, {"host", figure(0.6)}};
  document["memory"].erase("host_bytes_per_second");
  std::ofstream(file) << document.dump();
  const Cluster cluster = runtime::load_cluster(file);
  CHECK(cluster.disk_read_bytes_per_second == 5e9);
  CHECK(cluster.drive_endurance_bytes == 7e15);
  CHECK(cluster.host_watts == 900);
  CHECK(cluster.beside_host(core::DeviceKind::cuda).compute == 0.7);
  CHECK(cluster.beside_host(core::DeviceKind::cpu).comm == 0.6);
  CHECK(!cluster.host_memory_bytes_per_second);
  document["overlap"]["host_lane"]["comm"] = figure(1);
  contains(refusal(document.dump()), {"overlap.host_lane has no key 'comm'"});
  document["overlap"].erase("host_lane");
  document["disk"]["read_bytes_per_second"] = figure(0);
  contains(refusal(document.dump()), {"disk.read_bytes_per_second is '0"});
  document["disk"].erase("read_bytes_per_second");
  document["host_watts"] = figure(-1);
  contains(refusal(document.dump()), {"host_watts is '-1"});
}

TEST_CASE("A single figure of reserved bytes is one part that is assumed, and a file may have no such figure") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path / "mine.json";
  const auto reserved = [&](const json& document) {
    std::ofstream(file) << document.dump();
    return runtime::load_cluster(file).reserved;
  };
  json document = good();
  document["memory"]["reserved_bytes"] = {{"value", 1'650'000'000}, {"source", "somebody"}};
  CHECK(reserved(document).less() == ", less 1.54 GiB (assumed 1.54 GiB)");
  CHECK(reserved(document).bytes() == 1'650'000'000);
  document["memory"]["reserved_bytes"] = {{"nccl", {{"value", 5}, {"source", "somebody"}}}};
  CHECK(reserved(document).less() == ", less 5 B (nccl 5 B)");
  document["memory"].erase("reserved_bytes");
  CHECK(reserved(document).parts.empty());
}

TEST_CASE("Software stands behind a cluster's name; it sums along NCCL's rings, and its forms are the file's") {
  const Cluster plain = runtime::find_cluster("dgx-a100"), megatron = runtime::find_cluster("dgx-a100:megatron-2021");
  CHECK(megatron.name == "dgx-a100:megatron-2021");
  CHECK(megatron.software.score_bytes_forward == 12);
  CHECK(megatron.software.score_bytes_backward == 17);
  CHECK(megatron.software.whole_recompute);
  CHECK(megatron.software.blocking_exchanges);
  CHECK(!megatron.software.blocking_gathers);
  CHECK(megatron.software.between_hosts_share == 1);
  CHECK(megatron.fast_sums);
  CHECK(megatron.nccl_inside_hosts);
  CHECK(!plain.fast_sums);
  CHECK(plain.software.score_bytes_forward == 0);
  const Cluster zero = runtime::find_cluster(good_file + ":deepspeed-zero3-2021");
  CHECK(zero.software.blocking_gathers);
  CHECK(zero.software.blocking_reductions);
  CHECK(zero.software.call_per_tensor);
  for (const auto& [name, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"dgx-a100:megatron", {"software", "megatron"}}, {"rtx4090:megatron-2021", {"rtx4090", "'software'"}}}) {
    contains(refusal_of(name), parts);
  }
}

TEST_CASE("A GPU makes a product in squares, as many at a time as it has multiprocessors, and starts each anew") {
  runtime::ComputeRates rates;
  rates.peak_flops_per_second = 1e12;
  rates.tiles = runtime::Tiles{0.8, 108, 128, 64};
  // M, N, K, products at once, and the efficiency by hand.
  const std::vector<std::array<double, 5>> table{
      {108 * 128, 128, 64, 1, 0.8 * 64 / 128.0},                               // each multiprocessor has one square
      {109 * 128, 128, 192, 1, 0.8 * 109 / 216.0 * 192 / 256.0},               // one square more: a second turn
      {128, 128, 64, 1, 0.8 / 108 * 0.5},                                      // one works
      {100, 64, 64, 108, 0.8 * (100 * 64) / (128 * 128.0) * 0.5},              // squares that are not full
      {2048, 96, 2048, 96, 0.8 * 96 / 128.0 * 1536 / 1620.0 * 2048 / 2112.0},  // heads of 96 elements
  };
  for (const auto& [M, N, K, count, efficiency] : table) {
    CAPTURE(M, N, K, count);
    CHECK(rates.gemm_efficiency(M, N, K, count) == Approx(efficiency));
    CHECK(rates.gemm_seconds(M, N, K, count) == Approx(2 * count * M * N * K / (efficiency * 1e12)));
  }
  rates.tiles.reset();
  rates.gemm = {{{64, 0.25}, {256, 0.5}}};  // by the smallest dimension
  CHECK(rates.gemm_efficiency(1000, 64, 500) == Approx(0.25));
}

}  // namespace zrt::cluster_test
