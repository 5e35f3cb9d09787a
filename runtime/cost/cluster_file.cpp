#include "runtime/cost/cluster.h"
#include "runtime/cost/file_section.h"

namespace zrt::runtime {
namespace {

Tiles read_tiles(const FileSection& section) {
  section.keys({"efficiency", "multiprocessors", "side", "half_depth"});
  return {section.number("efficiency", Range::share), section.whole("multiprocessors", 1, 4096),
          section.whole("side", 1, 4096), section.number("half_depth", Range::not_negative)};
}

ComputeRates read_rates(const FileSection& section) {
  section.keys({"peak_flops_per_second", "gemm_efficiency", "tiles", "attention_forward_efficiency",
                "attention_backward_efficiency", "pass_bytes_per_second", "sum_bytes_per_second"});
  ComputeRates rates;
  rates.peak_flops_per_second = section.number("peak_flops_per_second", Range::positive);
  if (section.has("tiles")) {
    section.needs_no("gemm_efficiency", "tiles");
    rates.tiles = read_tiles(section.section("tiles"));
  } else {
    rates.gemm = section.curve("gemm_efficiency", Range::share);
  }
  rates.attention_forward = section.curve("attention_forward_efficiency", Range::share);
  rates.attention_backward = section.curve("attention_backward_efficiency", Range::share);
  rates.pass_bytes_per_second = section.number("pass_bytes_per_second", Range::positive);
  rates.sum_bytes_per_second = section.number("sum_bytes_per_second", Range::positive);
  return rates;
}

Software read_software(const FileSection& section) {
  section.keys({"score_bytes_forward", "score_bytes_backward", "recompute", "exchanges", "gathers", "reductions",
                "calls", "between_hosts_share"});
  const auto is = [&](const char* key, const char* usual, const char* other) {
    return section.has(key) && section.word(key, {usual, other}) == other;
  };
  Software software;
  if (section.has("score_bytes_forward") || section.has("score_bytes_backward")) {
    software.score_bytes_forward = section.number("score_bytes_forward", Range::positive);
    software.score_bytes_backward = section.number("score_bytes_backward", Range::positive);
  }
  software.whole_recompute = is("recompute", "what_backward_reads", "whole_layers");
  software.blocking_exchanges = is("exchanges", "overlapped", "blocking");
  software.blocking_gathers = is("gathers", "overlapped", "blocking");
  software.blocking_reductions = is("reductions", "overlapped", "blocking");
  software.call_per_tensor = is("calls", "per_op", "per_tensor");
  if (section.has("between_hosts_share")) {
    software.between_hosts_share = section.number("between_hosts_share", Range::share);
  }
  return software;
}

// All parts together leave at least a byte of the device.
Reserved read_reserved(const FileSection& memory, uint64_t device_bytes) {
  Reserved reserved;
  auto most = static_cast<int64_t>(device_bytes) - 1;
  const auto take = [&](const FileSection& from, const char* key, const char* name) {
    const int64_t bytes = from.whole(key, 0, most);
    most -= bytes;
    reserved.parts.push_back({name, static_cast<uint64_t>(bytes)});
  };
  if (!memory.has("reserved_bytes")) return reserved;
  const FileSection parts = memory.section("reserved_bytes");
  if (parts.has("value") || parts.has("source")) {
    take(memory, "reserved_bytes", "assumed");
    return reserved;
  }
  parts.keys({reserved_names.begin(), reserved_names.end()});
  for (const char* name : reserved_names) {
    if (parts.has(name)) take(parts, name, name);
  }
  return reserved;
}

Overlap read_overlap(const FileSection& section, const char* other) {
  section.keys({"compute", other});
  return {section.number("compute", Range::share), section.number(other, Range::share)};
}

}  // namespace

Cluster load_cluster(const std::filesystem::path& file, const std::string& software) {
  const configuration::Document document =
      configuration::parse_config_text(configuration::read_config_file(file), file.string());
  const FileSection root(document, document.root, "");
  root.keys({"ranks_per_host", "distribution", "compute", "memory", "op_seconds", "inside_host", "between_hosts",
             "overlap", "host_link", "disk", "host_watts", "software"});
  Cluster cluster;
  cluster.name = file.stem().string();
  cluster.ranks_per_host = static_cast<int>(root.whole("ranks_per_host", 1, 1024));
  if (root.has("distribution") && root.word("distribution", {"block", "cyclic"}) == "cyclic") {
    cluster.distribution = Distribution::cyclic;
  }
  const FileSection compute = root.section("compute");
  std::vector<std::string> types;
  for (size_t i = 0; i < cluster.compute.size(); ++i) {
    types.emplace_back(core::dtype_name(static_cast<core::DType>(i)));
    if (compute.has(types[i].c_str())) cluster.compute[i] = read_rates(compute.section(types[i].c_str()));
  }
  compute.keys(types);
  const FileSection memory = root.section("memory");
  memory.keys(
      {"device_bytes", "reserved_bytes", "host_bytes", "nvme_bytes", "bytes_per_second", "host_bytes_per_second"});
  cluster.memory_bytes_per_second = memory.number("bytes_per_second", Range::positive);
  cluster.host_memory_bytes_per_second = memory.optional_rate("host_bytes_per_second");
  const char* const tiers[] = {"device_bytes", "host_bytes", "nvme_bytes"};
  for (size_t t = 0; t < core::tier_count; ++t) {
    cluster.tier_bytes[t] = static_cast<uint64_t>(memory.whole(tiers[t], t == 0 ? 1 : 0, int64_t{1} << 60));
  }
  cluster.reserved = read_reserved(memory, cluster.tier_bytes[static_cast<size_t>(core::Tier::device)]);
  cluster.op_seconds = root.number("op_seconds", Range::not_negative);
  cluster.inside_host = root.link_of_ranks("inside_host");
  const FileSection overlap = root.section("overlap");
  overlap.keys({"inside_host", "between_hosts", "host_lane"});
  cluster.overlap_inside = read_overlap(overlap.section("inside_host"), "comm");
  if (overlap.has("host_lane")) cluster.overlap_host = read_overlap(overlap.section("host_lane"), "host");
  if (root.has("between_hosts")) {
    cluster.between_hosts = root.link("between_hosts", {"exchange", "hosts"});
    const FileSection between = root.section("between_hosts");
    cluster.exchange = between.word("exchange", {"once_per_host", "once_per_rank"}) == "once_per_host"
                           ? Exchange::once_per_host
                           : Exchange::once_per_rank;
    if (between.has("hosts")) cluster.most_hosts = static_cast<int>(between.whole("hosts", 2, 1 << 20));
    cluster.overlap_between = read_overlap(overlap.section("between_hosts"), "comm");
  }
  cluster.host_link = root.link("host_link");
  cluster.disk = root.link("disk", {"read_bytes_per_second", "endurance_bytes"});
  cluster.disk_read_bytes_per_second = root.section("disk").optional_rate("read_bytes_per_second");
  cluster.drive_endurance_bytes = root.section("disk").optional_rate("endurance_bytes");
  cluster.host_watts = root.optional_rate("host_watts");
  if (root.has("software")) {
    const FileSection all = root.section("software");
    for (const std::string& name : all.names()) {
      const Software read = read_software(all.section(name.c_str()));
      if (name == software) cluster.software = read;
    }
    if (!software.empty()) all.at(software.c_str());
  } else if (!software.empty()) {
    root.at("software");
  }
  if (!software.empty()) {
    cluster.name += ":" + software;
    cluster.fast_sums = cluster.nccl_inside_hosts = true;
  }
  return cluster;
}

}  // namespace zrt::runtime
