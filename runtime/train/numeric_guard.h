// Keeps a run from going on, and from saving, with numbers that are not finite. All processes of a run call it alike.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/held_folder.h"
#include "runtime/train/checkpointer.h"
#include "runtime/train/skip_watch.h"

namespace zrt::runtime {

class NumericGuard {
 public:
  // Session, checkpointer and the run's folder `out` must outlive it. `warn` hears of skipped steps.
  NumericGuard(Session& session, Checkpointer& checkpointer, const core::HeldFolder& out, SkipWatch skips,
               std::function<void(const std::string&)> warn);

  // The members below end the run when they must: they name the first value that is not finite, leave
  // RUN/failure.json, and throw core::NumericError in every process.
  void take_step(int64_t step, const std::function<void()>& run);  // runs it; what it throws as NumericError
  void stepped(const StepMetrics& step);                           // too many were skipped in a row
  void require_finite_saves();          // behind Checkpointer::save: of an earlier save, or this one where it waits
  void over(int64_t step, bool saved);  // the run's last step; `saved`: its states have been looked at

  // Takes note of an outcome. Processes hear of it behind different steps, so that it ends nothing yet.
  void saved(const SaveOutcome& outcome);
  // True where steps are being skipped: the weights at hand may spoil them, and older checkpoints have others.
  bool skipping() const { return skips_.keeps_skipping(); }

 private:
  [[noreturn]] void fail(int64_t step, const std::string& kind, const std::string& why, std::string value = "");
  Session& session_;
  Checkpointer& checkpointer_;
  const core::HeldFolder& out_;
  SkipWatch skips_;
  std::function<void(const std::string&)> warn_;
  SaveOutcome bad_save_;  // the first whose values were not finite
};

// Throws core::DataError, with the first weight or state that is not finite, in every process. Collective, between
// programs. `folder`: that they were loaded from.
void require_finite_weights(Session& session, const std::filesystem::path& folder);

}  // namespace zrt::runtime
