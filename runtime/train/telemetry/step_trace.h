// trace.json of a run: which steps are traced, and the file of all ranks. All processes of a run call it alike.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/held_folder.h"
#include "runtime/engine/session.h"

namespace zrt::runtime {

// Steps from 1, both included.
struct StepRange {
  int64_t first = 1, last = 0;
};

class StepTrace {
 public:
  // A trace may hold this many events of all ranks: beyond it no further step is traced, so that the file stays below
  // some 100 MB. A single step is always traced whole.
  static constexpr uint64_t most_events = 200000;

  // `session` and the run's folder `out` must outlive it. `range` is cut to what may be traced.
  StepTrace(Session& session, const core::HeldFolder& out, StepRange range);
  // Says that the range was cut, or "".
  const std::string& note() const { return note_; }

  void before_step(int64_t step);  // turns tracing on for the first
  // After the last step of the range, or when `stopping` after it: brings the ranks' events together and writes the
  // file. Returns what went wrong with it, which ends nothing, or "". Collective then.
  std::string after_step(int64_t step, bool stopping);

 private:
  std::string write();
  Session& session_;
  const core::HeldFolder& out_;
  StepRange range_;
  std::string note_;
  bool tracing_ = false;
};

}  // namespace zrt::runtime
