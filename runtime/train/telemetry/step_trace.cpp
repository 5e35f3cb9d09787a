#include "runtime/train/telemetry/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/error.h"
#include "runtime/train/telemetry/chrome_trace.h"

namespace zrt::runtime {
namespace {

// Returns by how many seconds the wall clock is ahead of the steady clock of this machine. Processes of one machine
// agree on it to a few microseconds, those of several as well as their wall clocks do.
double wall_offset() {
  const std::chrono::duration<double> wall = std::chrono::system_clock::now().time_since_epoch();
  const std::chrono::duration<double> steady = std::chrono::steady_clock::now().time_since_epoch();
  return (wall - steady).count();
}

uint64_t executions(const Program& program) {
  uint64_t count = 0;
  for (const Segment& segment : program.segments) count += uint64_t{segment.count} * segment.repeat;
  return count;
}

}  // namespace

StepTrace::StepTrace(Session& session, const core::HeldFolder& out, StepRange range)
    : session_(session), out_(out), range_(range) {
  uint64_t per_step = 0;
  for (const Compiled& stage : session.stages()) {
    per_step += executions(stage.set.program("step")) * static_cast<uint64_t>(stage.layout.mesh.stage_ranks());
  }
  const auto fit = static_cast<int64_t>(std::max<uint64_t>(1, most_events / std::max<uint64_t>(1, per_step)));
  const int64_t asked = range.last - range.first + 1;
  if (asked <= fit) return;
  range_.last = range_.first + fit - 1;
  note_ =
      fmt::format("a step of all ranks is {} ops: the trace holds {} of the {} steps asked for", per_step, fit, asked);
}

void StepTrace::before_step(int64_t step) {
  if (tracing_ || step < range_.first || step > range_.last) return;
  tracing_ = true;
  for (int local = 0; local < session_.local_count(); ++local) session_.executor(local).set_tracing(true);
}

std::string StepTrace::after_step(int64_t step, bool stopping) {
  if (!tracing_ || (step < range_.last && !stopping)) return "";
  tracing_ = false;
  range_.last = 0;
  return write();
}

std::string StepTrace::write() {
  std::vector<std::vector<TimedRun>> runs;
  double first = std::numeric_limits<double>::infinity();
  for (int local = 0; local < session_.local_count(); ++local) {
    Executor& executor = session_.executor(local);
    executor.set_tracing(false);
    for (const TraceEvent& event : executor.trace()) first = std::min(first, event.start_seconds);
    runs.push_back(timed_runs(executor.trace()));
    executor.clear_trace();
  }
  const double offset = wall_offset();
  double origin = first + offset;
  for (const std::string& text : session_.transport().exchange(fmt::format("{:.9f}", origin), session_.timeout())) {
    origin = std::min(origin, std::stod(text));
  }
  std::string own;
  for (int local = 0; local < session_.local_count(); ++local) {
    if (!own.empty()) own += ",\n";
    const Compiled& stage = session_.stage(local);
    own += chrome_events(stage.set, *stage.layout.model, session_.first_local() + local,
                         runs[static_cast<size_t>(local)], origin - offset);
  }
  const std::vector<std::string> all = session_.transport().exchange(own, session_.timeout());
  if (!session_.transport().leads()) return "";
  try {
    out_.write("trace.json", chrome_trace(all));
  } catch (const core::DataError& error) {
    return fmt::format("the trace is lost: {}", error.what());
  }
  return "";
}

}  // namespace zrt::runtime
