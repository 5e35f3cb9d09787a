#include "runtime/bench/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "core/error.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"

namespace zrt::runtime {
namespace {

constexpr size_t listed_gaps = 8;
constexpr auto settling = std::chrono::milliseconds(100);  // until traffic flows evenly, or rests

// Measurements of one way of running, a value for each round.
struct OverlapSeries {
  std::vector<double> seconds, cpu, exposed;
  OverlapRow row() const { return {spread(seconds), spread(cpu), spread(exposed)}; }
};

Spread ratios(const OverlapSeries& a, const OverlapSeries& b) {
  std::vector<double> values;
  for (size_t i = 0; i < a.seconds.size(); ++i) values.push_back(a.seconds[i] / b.seconds[i]);
  return spread(values);
}

// One compiled step, with or without overlap.
class OverlapMeasurement {
 public:
  OverlapMeasurement(const Config& config, const models::Model& model, bool overlap, comm::Transport& transport)
      : config_(reconfigured(config,
                             {overlap ? "zero_optimization.overlap_comm=true" : "zero_optimization.overlap_comm=false"},
                             config.ranks)),
        transport_(transport) {
    const SessionOptions options = session_options(config_);
    std::vector<Compiled> compiled =
        compile_within_budget(config_, model, {"init", "step"},
                              run_place(transport, config_.run.device, config_.run.share_gpu, options.timeout));
    const Layout layout = compiled.front().layout;
    session_ = std::make_unique<Session>(std::move(compiled), options, SessionHooks{random_batches(layout, step_), {}},
                                         transport);
    session_->run("init", {});
  }

  // Seconds of the slowest rank; all start together. Collective over processes.
  double measure(Only only, OverlapSeries& series, bool counted) {
    if (only != Only::everything) clear_transients();
    ++step_;
    StepInputs inputs;
    inputs.seed = 1;
    inputs.step = step_;
    inputs.rates.lr = 1e-4;
    session_->executor(0).clear_trace();
    session_->executor(0).set_tracing(only == Only::everything);
    transport_.exchange("start", session_->timeout());
    const double cpu = cpu_seconds();
    const double own = time_ranks(1, 1, [&](int) {
      session_->on_all_ranks([&](size_t r) {
        Executor& executor = session_->executor(static_cast<int>(r));
        executor.control().inputs = inputs;
        executor.run(session_->stage(static_cast<int>(r)).set.program("step"), only);
      });
    });
    const double own_cpu = cpu_seconds() - cpu;
    if (only != Only::communication && session_->executor(0).control().decision[0].skip) {
      throw core::ProgramError("a measured step skipped its update, so its time means nothing");
    }
    double slowest = 0, all_cpu = 0;
    for (const std::string& text : transport_.exchange(fmt::format("{} {}", own, own_cpu), session_->timeout())) {
      char* rest = nullptr;
      slowest = std::max(slowest, std::strtod(text.c_str(), &rest));
      all_cpu += std::strtod(rest, nullptr);
    }
    if (!counted) return slowest;
    series.seconds.push_back(slowest);
    series.cpu.push_back(all_cpu);
    series.exposed.push_back(session_->executor(0).exposed_comm_seconds());
    return slowest;
  }

  // Finds where the compute lane of the first local rank stood still in the last step.
  std::vector<OverlapGap> gaps() {
    const ProgramSet& set = session_->stage(0).set;
    const Program& program = set.program("step");
    const auto& lanes = set.lanes;
    auto lane = [&](const TraceEvent& event) { return program.ops[event.op].lane; };
    std::vector<TraceEvent> events = session_->executor(0).trace();
    std::sort(events.begin(), events.end(), [](auto& a, auto& b) { return a.start_seconds < b.start_seconds; });
    std::vector<OverlapGap> gaps;
    double free_since = 0;
    for (const TraceEvent& event : events) {
      if (lanes[lane(event)].kind != LaneKind::compute) continue;
      if (free_since > 0 && event.start_seconds > free_since) {
        const TraceEvent* last = nullptr;  // the last to end before the op began
        for (const TraceEvent& other : events) {
          const bool ended_inside = other.end_seconds > free_since && other.end_seconds <= event.start_seconds;
          if (lane(other) == lane(event) || !ended_inside) continue;
          if (!last || other.end_seconds > last->end_seconds) last = &other;
        }
        gaps.push_back(
            {program.ops[event.op].name, last ? program.ops[last->op].name : "", event.start_seconds - free_since});
      }
      free_since = event.end_seconds;
    }
    std::sort(gaps.begin(), gaps.end(), [](auto& a, auto& b) { return a.seconds > b.seconds; });
    gaps.resize(std::min(gaps.size(), listed_gaps));
    return gaps;
  }

  uint64_t received_bytes() const {
    uint64_t bytes = 0;
    for (const auto& [kind, volume] : session_->executor(0).comm_volume()) bytes += volume.bytes;
    return bytes;
  }
  uint64_t rank_bytes() const { return session_->stage(0).plan.device().peak_bytes; }

 private:
  // Ops that are left out leave their results as they were: zeros cannot grow beyond all measure, as other contents
  // would.
  void clear_transients() {
    session_->on_all_ranks([&](size_t r) {
      for (const Buffer& buffer : session_->stage(static_cast<int>(r)).set.buffers) {
        if (buffer.life != Life::transient) continue;
        std::memset(session_->arena(static_cast<int>(r), buffer.tier)->data() + buffer.offset, 0, buffer.extent());
      }
    });
  }

  const Config config_;
  comm::Transport& transport_;
  uint32_t step_ = 0;
  std::unique_ptr<Session> session_;
};

// Returns when traffic flows evenly, with what has flowed by then.
TrafficFile::Moved start_traffic(const TrafficFile& file, double pace) {
  const uint64_t idle = file.moved().bytes;
  file.ask(pace);
  for (int i = 0; i < 100 && file.moved().bytes == idle; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (file.moved().bytes == idle) {
    throw core::DataError(
        fmt::format("no traffic flows; start `zrt bench traffic --pace {}` on as many ranks beside this", file.name()));
  }
  std::this_thread::sleep_for(settling);
  return file.moved();
}

}  // namespace

OverlapBench bench_overlap(const Config& config, comm::Transport& transport, int rounds,
                           const std::optional<std::filesystem::path>& traffic, const Progress& progress) {
  const models::Model model = config.model.make();
  std::optional<TrafficFile> file;
  if (traffic && transport.leads()) file.emplace(*traffic);
  if (file) file->ask(0);
  progress("setting up");
  OverlapMeasurement with(config, model, true, transport), without(config, model, false, transport);
  OverlapBench result;
  OverlapSeries comm, compute, beside, overlapped, plain;
  std::vector<double> asked, moved, traffic_cpu;
  for (int round = 0; round <= rounds; ++round) {
    auto run = [&](const char* what, OverlapMeasurement& bench, Only only, OverlapSeries& series) {
      progress(fmt::format("round {} of {}, {}", round, rounds, what));
      return bench.measure(only, series, round > 0);
    };
    const uint64_t before = with.received_bytes();
    const double step = run("step with overlap", with, Only::everything, overlapped);
    result.step_bytes = with.received_bytes() - before;
    if (round > 0) result.gaps = with.gaps();
    run("step without overlap", without, Only::everything, plain);
    run("computation alone", with, Only::compute, compute);
    if (traffic) {
      const double pace = static_cast<double>(result.step_bytes) / step;
      const TrafficFile::Moved first = file ? start_traffic(*file, pace) : TrafficFile::Moved{};
      const double seconds = run("computation beside traffic", with, Only::compute, beside);
      if (file && round > 0) {
        asked.push_back(pace);
        const TrafficFile::Moved last = file->moved();
        moved.push_back(static_cast<double>(last.bytes - first.bytes) / seconds);
        traffic_cpu.push_back(last.cpu_seconds - first.cpu_seconds);
      }
      if (file) {
        file->ask(0);
        std::this_thread::sleep_for(settling);
      }
    }
    run("communication alone", with, Only::communication, comm);
  }
  if (file) file->ask(TrafficFile::stop);
  result.comm = comm.row(), result.compute = compute.row();
  result.with_overlap = overlapped.row(), result.without_overlap = plain.row();
  if (traffic) result.compute_beside_traffic = beside.row();
  const OverlapSeries& base = traffic ? beside : compute;
  result.comm_of_compute = ratios(comm, compute);
  result.with_of_compute = ratios(overlapped, base);
  result.without_of_compute = ratios(plain, base);
  result.traffic_asked = spread(asked), result.traffic_moved = spread(moved);
  result.traffic_cpu_seconds = spread(traffic_cpu);
  result.rank_bytes = with.rank_bytes();
  return result;
}

}  // namespace zrt::runtime
