#include "runtime/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace zrt::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json categories_json(const core::CategoryBytes& categories) {
  Json json;
  for (size_t c = 0; c < categories.size(); ++c) json[std::string(core::category_names[c])] = categories[c];
  return json;
}

Json empty_tier() {
  return {{"planned_peak_bytes", 0}, {"measured_peak_bytes", 0}};
}

Json evaluation_json(const Evaluation& e) {
  Json json{{"loss", e.loss}, {"perplexity", e.perplexity()}, {"tokens", e.tokens}};
  if (e.bits_per_byte) json["bits_per_byte"] = *e.bits_per_byte;
  if (e.unigram_entropy) json["unigram_entropy"] = *e.unigram_entropy;
  return json;
}

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(loss);
}

MemoryReport measure_memory(Session& session) {
  MemoryReport report;
  report.plan = session.compiled().plan;
  std::vector<const core::Arena*> arenas;
  for (int r = 0; r < session.ranks(); ++r) {
    arenas.push_back(&session.arena(r));
    report.ranks.push_back({r, report.plan.peak_bytes, session.arena(r).highest_touched()});
  }
  report.process = read_process_memory(arenas);
  return report;
}

std::string to_json(const StepMetrics& m) {
  // %.9g keeps every bit of an fp32 value. JSON has no NaN: a norm that overflowed is null.
  const auto number = [](double x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : std::string("null"); };
  return fmt::format(
      R"({{"step":{},"loss":{},"grad_norm":{},"lr":{:.9g},"loss_scale":{:.9g},"tokens":{},"step_seconds":{:.6g},)"
      R"("tokens_per_second":{:.6g},"exposed_comm_seconds":{:.6g},"exposed_io_seconds":{:.6g}}})",
      m.step, number(m.loss), number(m.grad_norm), m.lr, m.loss_scale, m.tokens, m.step_seconds, m.tokens_per_second(),
      m.exposed_comm_seconds, m.exposed_io_seconds);
}

std::string to_json(const MemoryReport& report) {
  const MemoryPlan& plan = report.plan;
  Json ranks = Json::array(), numbers = Json::array();
  for (const RankMemory& rank : report.ranks) {
    const Json device{{"planned_peak_bytes", rank.planned_peak_bytes},
                      {"measured_peak_bytes", rank.measured_peak_bytes},
                      {"peak_op", plan.peak_op},
                      {"peak_phase", plan.peak_phase},
                      {"live_peak_bytes", plan.live_peak_bytes},
                      {"categories", categories_json(plan.categories)}};
    ranks.push_back(
        {{"rank", rank.rank}, {"tiers", {{"device", device}, {"host", empty_tier()}, {"nvme", empty_tier()}}}});
    numbers.push_back(rank.rank);
  }
  const Json process{{"ranks", numbers},
                     {"rss_peak_bytes", report.process.rss_peak_bytes},
                     {"outside_arena_bytes", report.process.outside_arena_bytes}};
  return Json{{"ranks", ranks}, {"processes", Json::array({process})}}.dump(1);
}

std::string to_json(const Summary& s) {
  Json comm;
  for (const auto& [kind, volume] : s.comm) comm[std::string(op_kind_name(kind))] = volume.bytes;
  Json json{{"exit_reason", s.exit_reason},
            {"steps", s.steps},
            {"final_loss", s.final_loss},
            {"state_xxh3", s.state_xxh3},
            {"kernel_table_xxh3", s.kernel_table_xxh3},
            {"tokens_per_second", s.tokens_per_second},
            {"step_seconds", s.step_seconds},
            {"model_flops_per_second", s.model_flops_per_second},
            {"comm_bytes", comm},
            {"verify_seconds", s.verify_seconds},
            {"packing_overhead", s.packing_overhead}};
  if (s.validation) json["validation"] = evaluation_json(*s.validation);
  return json.dump(1);
}

std::string trace_json(Session& session, std::string_view phase) {
  const Program& program = session.compiled().set.program(phase);
  Json events = Json::array();
  for (int r = 0; r < session.ranks(); ++r) {
    const auto& lanes = session.compiled().set.lanes;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      events.push_back(
          {{"name", "thread_name"}, {"ph", "M"}, {"pid", r}, {"tid", lane}, {"args", {{"name", lanes[lane].name()}}}});
    }
    for (const TraceEvent& event : session.executor(r).trace()) {
      if (event.program != &program) continue;
      events.push_back({{"name", program.ops[event.op].name},
                        {"cat", op_kind_name(program.ops[event.op].kind)},
                        {"ph", "X"},
                        {"pid", r},
                        {"tid", event.lane},
                        {"ts", event.start_seconds * 1e6},
                        {"dur", (event.end_seconds - event.start_seconds) * 1e6},
                        {"args", {{"step", event.step}}}});
    }
  }
  return Json{{"traceEvents", events}}.dump();
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path temporary = file.string() + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << text << '\n';
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, file, error);
  if (!out || error) throw core::DataError(fmt::format("{} cannot be written; is the disk full?", file.string()));
}

}  // namespace zrt::runtime
