#include "runtime/train/numeric_guard.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "runtime/train/launch/failure.h"
#include "runtime/train/not_finite.h"

namespace zrt::runtime {

NumericGuard::NumericGuard(Session& session, Checkpointer& checkpointer, const core::HeldFolder& out, SkipWatch skips,
                           std::function<void(const std::string&)> warn)
    : session_(session), checkpointer_(checkpointer), out_(out), skips_(skips), warn_(std::move(warn)) {}

void NumericGuard::take_step(int64_t step, const std::function<void()>& run) {
  std::string error;
  try {
    return run();
  } catch (const core::NumericError& caught) {  // by all ranks alike
    error = caught.what();
  }
  fail(step, "step", error);
}

void NumericGuard::stepped(const StepMetrics& step) {
  if (const std::string text = skips_.after(step); !text.empty()) warn_(text);
  if (!skips_.too_many()) return;
  fail(step.step, "skipped steps", fmt::format("{} steps in a row were skipped (run.skip_limit)", skips_.in_row()));
}

void NumericGuard::saved(const SaveOutcome& outcome) {
  if (bad_save_.not_finite.empty() && !outcome.not_finite.empty()) bad_save_ = outcome;
}

void NumericGuard::require_finite_saves() {
  if (bad_save_.not_finite.empty()) return;
  fail(bad_save_.step, "checkpoint", "no checkpoint is made of values that are not finite", bad_save_.not_finite);
}

void NumericGuard::over(int64_t step, bool saved) {
  require_finite_saves();
  session_.finish_updates();
  if (!saved && find_not_finite(session_, LookAt::states)) fail(step, "end", "the weights at the end are not finite");
  if (skips_.in_row() == 0) {
    // A dynamic loss scale that never came down far enough.
    if (session_.executor(0).control().persistent.progress[0].updates == 0) {
      const bool scaled = session_.stage(0).layout.compute == core::DType::f16;
      warn_(
          fmt::format("the run ends without an update: every step was skipped, and its weights are those of the "
                      "start. {}",
                      scaled ? "Lower fp16.initial_scale_power, take more steps, or look at which tokens of the data "
                               "count"
                             : "Look at which tokens of the data count (`zrt data show PREFIX --document 0`)"));
    }
    return;
  }
  warn_(fmt::format("the run ends with {} skipped step(s): its weights are those of step {}", skips_.in_row(),
                    step - skips_.in_row()));
}

void NumericGuard::fail(int64_t step, const std::string& kind, const std::string& why, std::string value) {
  // A save under way is of earlier steps, and worth its end. If it fails, that came first, whatever the disk's speed.
  checkpointer_.wait();
  if (step > bad_save_.step) require_finite_saves();
  if (value.empty()) {
    if (const auto found = find_not_finite(session_, LookAt::training)) value = found->text;
  }
  const std::string what = value.empty()
                               ? "Weights, states and gradients are finite where ranks keep them: the loss is not"
                               : "The first value that is not finite: " + value;
  std::string text = fmt::format(
      "step {}: {}. {}. {} "
      "lower optimizer.params.lr, lengthen the warm-up, set gradient_clipping, or look at the data of these steps",
      step, why, what,
      std::filesystem::exists(out_ / "checkpoints")
          ? "Checkpoints hold finite values alone, and the newest stays. Before the run goes on from it,"
          : "No checkpoint has been saved. Before the run starts again,");
  if (session_.transport().leads()) {
    try {
      write_failure(out_, {step, kind, text});
    } catch (const core::DataError& error) {
      text += fmt::format(". {}", error.what());
    }
  }
  session_.transport().exchange("", session_.timeout());  // the first process that ends may end the one that writes
  throw core::NumericError(text);
}

void require_finite_weights(Session& session, const std::filesystem::path& folder) {
  const auto found = find_not_finite(session, LookAt::states);
  if (!found) return;
  throw core::DataError(fmt::format(
      "{}: {}: the run that made it has diverged, or the file was made so. Take an earlier checkpoint, or train again "
      "with a lower optimizer.params.lr or with gradient_clipping",
      folder.string(), found->text));
}

}  // namespace zrt::runtime
