#include "runtime/bench/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/gpu.h"
#include "core/isa.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

double rounded(double value) {
  return std::stod(fmt::format("{:.4g}", value));
}

// Everything measured becomes a figure with what was measured as its source.
class Sheet {
 public:
  explicit Sheet(std::string setting) : setting_(std::move(setting)) {}
  Json figure(double value, const std::string& what) const {
    return {{"value", rounded(value)}, {"source", "measured: " + what + setting_}};
  }
  Json whole(uint64_t value, const std::string& what) const { return {{"value", value}, {"source", what}}; }
  Json curve(const std::vector<Curve::Point>& points, double peak, const std::string& what) const {
    Json pairs = Json::array();
    for (const Curve::Point& point : points) pairs.push_back({point.at, rounded(std::min(1.0, point.value / peak))});
    return {{"points", pairs}, {"source", "measured: " + what + setting_}};
  }
  Json link(const Link& link, const std::string& what) const {
    return {{"latency_seconds", figure(link.latency_seconds, "gathers of 64 bytes per rank" + what)},
            {"bytes_per_second", figure(link.bytes_per_second, "large gathers" + what)}};
  }
  Json overlap(const Overlap& overlap, const char* key, const std::string& other) const {
    return {{"compute", figure(overlap.compute, "products beside " + other + ", relative to alone")},
            {key, figure(overlap.comm, other + " beside products, relative to alone")}};
  }

 private:
  std::string setting_;
};

Json compute_json(const Sheet& sheet, const MeasuredCompute& measured, double sum_rate) {
  const auto faster = [](const Curve::Point& a, const Curve::Point& b) { return a.value < b.value; };
  const double peak = std::max_element(measured.gemm.begin(), measured.gemm.end(), faster)->value;
  return {
      {"peak_flops_per_second", sheet.figure(peak, "the fastest of the products below")},
      {"gemm_efficiency", sheet.curve(measured.gemm, peak, "products of a layer and its gradients by width")},
      {"attention_forward_efficiency", sheet.curve(measured.attention_forward, peak, "causal attention, heads of 64")},
      {"attention_backward_efficiency",
       sheet.curve(measured.attention_backward, peak, "causal attention, heads of 64")},
      {"pass_bytes_per_second",
       sheet.figure(measured.pass_bytes_per_second, "norms, GELU, residual sums and bias gradients of a layer")},
      {"sum_bytes_per_second", sheet.figure(sum_rate, "large reduce-scatters less what gathers cost")}};
}

// The memory of the GPU that has least, and what a process takes of it: before it does anything, and for kernels and
// libraries once it has computed.
struct GpuMemory {
  uint64_t bytes = UINT64_MAX, context = 0, modules = 0;
};
GpuMemory gpu_memory(const std::vector<int>& gpus) {
  GpuMemory memory;
  for (const int gpu : gpus) {
    memory.bytes = std::min(memory.bytes, core::total_gpu_bytes(gpu));
    memory.context = std::max(memory.context, core::total_gpu_bytes(gpu) - core::free_gpu_bytes(gpu));
  }
  return memory;
}

Json device_json(const Sheet& sheet, const GpuMemory& memory) {
  return {{"device_bytes", sheet.whole(memory.bytes, "CUDA, of the GPU that has least")},
          {"reserved_bytes",
           {{"context", sheet.whole(memory.context, "CUDA, in use before anything was computed")},
            {"modules", sheet.whole(memory.modules, "CUDA, in use beside that once all had been measured")}}}};
}

}  // namespace

std::string calibrate(comm::Transport& transport, const Calibration& what, const Progress& progress) {
  const Effort& effort = what.effort;
  const std::string& folder = what.folder;
  Rig rig(transport, what.device, what.share_gpu, what.threads, effort, progress);
  GpuMemory gpu = gpu_memory(rig.gpus());
  const Sheet sheet(fmt::format("; median of rounds with all {} ranks running, {} thread{} each, transport {}, {}",
                                rig.world(), what.threads, what.threads == 1 ? "" : "s", transport.name(),
                                rig.on_gpu() ? "on " + core::device_description(what.device)
                                             : fmt::format("at {}", core::isa_name(core::best_isa()))));
  const MeasuredLanes lanes = measure_lanes(rig);
  Json compute;
  for (const core::DType type : {core::DType::f32, core::DType::bf16, core::DType::f16}) {
    compute[std::string(core::dtype_name(type))] =
        compute_json(sheet, measure_compute(rig, type), lanes.sum_bytes_per_second[static_cast<size_t>(type)]);
  }
  const MeasuredTiers tiers = measure_tiers(rig, folder);
  if (rig.on_gpu()) {
    const uint64_t used = gpu_memory(rig.gpus()).context;
    gpu.modules = used - std::min(used, gpu.context);
  }

  const auto ranks = static_cast<uint64_t>(rig.on_host());
  const auto memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Json file;
  file["ranks_per_host"] = sheet.whole(ranks, calibration_mark);
  file["compute"] = compute;
  file["memory"] =
      rig.on_gpu() ? device_json(sheet, gpu)
                   : Json{{"device_bytes", sheet.whole(memory / ranks, "this machine's memory, shared by its ranks")}};
  file["memory"]["host_bytes"] = sheet.whole(memory, "this machine's memory");
  file["memory"]["nvme_bytes"] = sheet.whole(fs::space(folder).available, "free space beside this file");
  const std::string beside = rig.on_gpu()
                                 ? fmt::format("copies ran at {:.4g}", 2 * lanes.copy_bytes_per_second)
                                 : fmt::format("STREAM's triad, reads of what it writes included, ran at {:.4g}",
                                               lanes.triad_bytes_per_second);
  file["memory"]["bytes_per_second"] = sheet.figure(
      lanes.update_bytes_per_second, fmt::format("AdamW of {} parameters per rank; {}", effort.parameters, beside));
  file["op_seconds"] =
      sheet.figure(lanes.op_seconds, fmt::format("{} on two lanes that wait for each other every other op",
                                                 rig.on_gpu() ? "kernels that fill a byte" : "empty ops"));
  file["inside_host"] = sheet.link(lanes.inside.value_or(Link{0, lanes.copy_bytes_per_second}),
                                   lanes.inside ? "" : ": none possible with one rank per machine, so copies");
  if (lanes.between) {
    file["between_hosts"] = sheet.link(*lanes.between, "");
    file["between_hosts"]["exchange"] = {{"value", "once_per_rank"}, {"source", "zrt's mpi transport"}};
  }
  file["overlap"]["inside_host"] = sheet.overlap(lanes.overlap_inside, "comm", "gathers");
  if (lanes.between) file["overlap"]["between_hosts"] = sheet.overlap(lanes.overlap_between, "comm", "gathers");
  if (!rig.on_gpu()) file["overlap"]["host_lane"] = sheet.overlap(tiers.beside_host, "host", "AdamW");
  file["host_link"] = {{"latency_seconds", sheet.figure(lanes.op_seconds, "see op_seconds")},
                       {"bytes_per_second",
                        sheet.figure(lanes.link_bytes_per_second,
                                     rig.on_gpu() ? "large copies in the slower direction, pinned" : "large copies")}};
  const std::string files = fmt::format(", a file per rank past the page cache, in {}", folder);
  file["disk"] = {{"latency_seconds", sheet.figure(tiers.disk.latency_seconds, "reads of 4 KiB" + files)},
                  {"bytes_per_second", sheet.figure(tiers.disk.bytes_per_second, "writes of all ranks" + files)},
                  {"read_bytes_per_second", sheet.figure(tiers.disk_read_bytes_per_second, "reads" + files)}};
  return file.dump(1) + "\n";
}

}  // namespace zrt::runtime
