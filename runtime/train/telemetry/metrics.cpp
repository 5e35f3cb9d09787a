#include "runtime/train/telemetry/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/isa.h"
#include "runtime/ops/spec.h"
#include "runtime/program/memory_json.h"

namespace zrt::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json evaluation_json(const Evaluation& e) {
  Json json;
  if (!e.prefix.empty()) json["data"] = e.prefix;
  if (!e.language.empty()) json["language"] = e.language;
  json["loss"] = e.loss;
  json["perplexity"] = e.perplexity();
  json["tokens"] = e.tokens;
  if (e.bytes) json["bytes"] = *e.bytes;
  if (e.bits_per_byte) json["bits_per_byte"] = *e.bits_per_byte;
  if (e.unigram_entropy) json["unigram_entropy"] = *e.unigram_entropy;
  for (const Evaluation& set : e.sets) json["sets"].push_back(evaluation_json(set));
  return json;
}

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(loss);
}

std::string to_json(const Evaluation& evaluation) {
  return evaluation_json(evaluation).dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json_line(int64_t step, const Evaluation& evaluation) {
  Json json{{"step", step}};
  json.update(evaluation_json(evaluation));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StepMetrics read_metrics(Session& session, int64_t step, double seconds) {
  const Layout& layout = session.stages().front().layout;
  Executor& executor = session.executor(0);
  const Control& control = executor.control();
  StepMetrics m;
  m.step = step;
  // A NaN's sign means nothing, and would be printed.
  m.loss = std::isnan(control.mean_loss) || control.mean_tokens == 0 ? NAN : control.mean_loss;
  m.grad_norm = std::isnan(control.grad_norm) ? NAN : control.grad_norm;
  // Adafactor may choose its own.
  m.lr = control.decision[0].skip ? control.inputs.rates.lr : control.decision[0].lr;
  m.loss_scale = control.loss_scale;
  m.skipped = control.decision[0].skip != 0;
  m.tokens = layout.micro_batch * layout.sequence * layout.mesh.data() * static_cast<int64_t>(layout.microbatches);
  m.counted_tokens = static_cast<int64_t>(control.mean_tokens);
  m.router = control.all_routers;
  m.step_seconds = seconds;
  m.exposed_comm_seconds = executor.exposed_comm_seconds();
  m.exposed_io_seconds = executor.exposed_io_seconds();
  return m;
}

namespace {

Json gpu_json(const std::optional<GpuMemory>& gpu) {
  if (!gpu) return nullptr;
  Json json{{"used_bytes", gpu->used_bytes},
            {"arena_bytes", gpu->arena_bytes},
            {"outside_arena_bytes", gpu->outside_arena_bytes()},
            {"context_bytes", gpu->context_bytes},
            {"library_bytes", gpu->library_bytes()},
            {"nvml_process_bytes", nullptr}};
  if (gpu->nvml_process_bytes) json["nvml_process_bytes"] = *gpu->nvml_process_bytes;
  return json;
}

}  // namespace

MemoryReport measure_memory(Session& session) {
  MemoryReport report;
  for (const Compiled& stage : session.stages()) report.plans.push_back(stage.plan);
  const Mesh& mesh = session.stages().front().layout.mesh;
  std::vector<const core::Arena*> arenas;
  Json own{{"first", session.first_local()}, {"measured", Json::array()}};
  for (int local = 0; local < session.local_count(); ++local) {
    Json measured = Json::array();
    for (size_t t = 0; t < core::tier_count; ++t) {
      const core::Arena* arena = session.arena(local, static_cast<core::Tier>(t));
      if (arena) arenas.push_back(arena);
      measured.push_back(arena ? arena->highest_touched() : 0);
    }
    if (const offload::BlockFile* file = session.file(local)) {
      measured[static_cast<size_t>(core::Tier::nvme)] = file->highest_written();
    }
    own["measured"].push_back(measured);
  }
  const ProcessMemory memory = read_process_memory(arenas);
  own["rss_peak"] = memory.rss_peak_bytes;
  own["outside_arena"] = memory.outside_arena_bytes;
  own["gpu"] = gpu_json(memory.gpu);
  for (const std::string& text : session.transport().exchange(own.dump(), session.timeout())) {
    const Json json = Json::parse(text);
    ProcessReport process;
    process.memory = {json.at("rss_peak").get<uint64_t>(), json.at("outside_arena").get<uint64_t>(), {}};
    process.gpu = json.at("gpu").dump();
    for (const Json& measured : json.at("measured")) {
      const int rank = json.at("first").get<int>() + static_cast<int>(process.ranks.size());
      process.ranks.push_back(rank);
      report.ranks.push_back(
          {rank, static_cast<size_t>(mesh.stage(rank)), measured.get<std::array<uint64_t, core::tier_count>>()});
    }
    report.processes.push_back(std::move(process));
  }
  return report;
}

std::string to_json(const StepMetrics& m) {
  // %.9g keeps every bit of an fp32 value. JSON has no NaN: a norm that overflowed is null.
  const auto number = [](double x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : std::string("null"); };
  std::string line = fmt::format(
      R"({{"step":{},"loss":{},"grad_norm":{},"lr":{:.9g},"loss_scale":{:.9g},"skipped":{},"tokens":{},"counted_tokens":{},)"
      R"("step_seconds":{:.6g},"tokens_per_second":{:.6g},"exposed_comm_seconds":{:.6g},"exposed_io_seconds":{:.6g})",
      m.step, number(m.loss), number(m.grad_norm), m.lr, m.loss_scale, m.skipped, m.tokens, m.counted_tokens,
      m.step_seconds, m.tokens_per_second(), m.exposed_comm_seconds, m.exposed_io_seconds);
  if (m.router.layers > 0) {
    line += fmt::format(R"(,"router_balance":{},"router_z":{},"dropped_choices":{},"expert_peak":{:.6g})",
                        number(m.router_balance()), number(m.router_z()), m.router.dropped, m.router.peak);
  }
  return line + "}";
}

std::string to_json(const MemoryReport& report) {
  Json ranks = Json::array(), processes = Json::array();
  for (const RankMemory& rank : report.ranks) {
    const MemoryPlan& plan = report.plans[rank.stage];
    Json tiers;
    for (size_t t = 0; t < core::tier_count; ++t) {
      tiers[std::string(core::tier_names[t])] = tier_json(plan.tiers[t], rank.measured_peak_bytes[t]);
    }
    ranks.push_back({{"rank", rank.rank}, {"stage", rank.stage}, {"tiers", tiers}});
  }
  for (const ProcessReport& process : report.processes) {
    Json entry{{"ranks", process.ranks},
               {"rss_peak_bytes", process.memory.rss_peak_bytes},
               {"outside_arena_bytes", process.memory.outside_arena_bytes}};
    if (process.gpu != "null") entry["gpu"] = Json::parse(process.gpu);
    processes.push_back(std::move(entry));
  }
  return Json{{"ranks", ranks}, {"processes", processes}}.dump(1);
}

std::string to_json(const Summary& s) {
  Json comm;
  for (const auto& [kind, volume] : s.comm) comm[std::string(op_kind_name(kind))] = volume.bytes;
  Json json{{"exit_reason", s.exit_reason},
            {"steps", s.steps},
            {"skipped", s.skipped},
            {"final_loss", s.final_loss},
            {"state_xxh3", s.state_xxh3},
            {"kernel_table_xxh3", s.kernel_table_xxh3},
            {"isa", core::isa_name(core::best_isa())},
            {"tokens_per_second", s.tokens_per_second},
            {"step_seconds", s.step_seconds},
            {"model_flops_per_second", s.model_flops_per_second},
            {"comm_bytes", comm},
            {"sums", s.fast_sums ? "fast" : "ordered"},
            {"moved_bytes",
             {{"to_device", s.moved.to_device},
              {"to_host", s.moved.to_host},
              {"nvme_read", s.moved.read},
              {"nvme_written", s.moved.written}}},
            {"verify_seconds", s.verify_seconds},
            {"packing_overhead", s.packing_overhead},
            {"saves", s.saves},
            {"failed_saves", s.failed_saves},
            {"save_stall_seconds", s.save_stall_seconds}};
  if (const auto cap = core::isa_cap()) json["max_isa"] = core::isa_name(*cap);
  if (s.delink) {
    json["delink"] = {{"seconds", s.delink->seconds},
                      {"save_seconds", s.delink->save_seconds},
                      {"load_seconds", s.delink->load_seconds}};
  }
  if (s.validation) json["validation"] = evaluation_json(*s.validation);
  return json.dump(1);
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  // A device, a pipe or a link stays what it is.
  using std::filesystem::file_type;
  const file_type type = std::filesystem::symlink_status(file).type();
  if (type != file_type::character && type != file_type::fifo && type != file_type::symlink) {
    core::write_durably(file, text + "\n");
    return;
  }
  std::ofstream out(file);
  out << text << "\n" << std::flush;
  if (!out) throw core::DataError(fmt::format("{}: cannot be written", file.string()));
}

}  // namespace zrt::runtime
