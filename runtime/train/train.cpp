#include <fmt/format.h>

#include <chrono>

#include "core/error.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/length.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/training.h"

namespace zrt::runtime {
namespace {

// Before anything looks into the folder: a run that is about to end may still save.
void lock_folder(RunFolder& folder, const TrainHooks& hooks, const comm::Transport& transport) {
  if (!transport.leads()) return;
  folder.lock.emplace(folder.path, hooks.launched ? core::Entry::launched : core::Entry::own);
  hold_run_folder(folder.path);
  if (folder.lock->held() || !hooks.warn) return;
  hooks.warn(
      fmt::format("{}: this file system knows no locks, so nothing keeps a second run out of this folder; see to it "
                  "that there is none",
                  folder.path.string()));
}

// The second life's faults show before the first one is lived: its configuration, and whether the real model fits.
void check_second_life(const Config& config, const models::Model& model, comm::Transport& transport) {
  Config later;
  try {
    later = after_delink(config);
  } catch (const core::ConfigError& error) {
    const auto& batch = config.pseudo_to_real->batch_after;
    throw core::ConfigError(fmt::format("once layers are delinked{}: {}",
                                        batch ? fmt::format(", with pseudo_to_real.batch_after = {}", *batch) : "",
                                        error.what()));
  }
  transport.require_device(later.run.device);
  const RunPlace place = run_place(transport, later.run.device, later.run.share_gpu, session_options(later).timeout);
  compile_within_budget(later, model, training_phases(later, "load"), place);
}

}  // namespace

TrainResult train(const Config& asked, const models::Model& model, const TrainHooks& hooks,
                  comm::Transport& transport) {
  check_run(asked);
  comm::require_equal(transport, "the configuration", resolved_json(asked), session_options(asked).timeout);
  RunFolder folder{core::HeldFolder(asked.run.out), {}};
  lock_folder(folder, hooks, transport);
  const auto warn = [&](const std::string& text) {
    if (hooks.warn) hooks.warn(text);
  };
  std::unique_ptr<checkpoint::Reader> resumed = open_resume(asked, transport, warn);
  const Config config = resumed ? rest_of_run(asked, resumed->manifest(), warn) : asked;
  if (config.run.steps != asked.run.steps && hooks.steps) hooks.steps(config.run.steps);
  const std::string resolved = resolved_json(config);
  RunLife life = life_of(config, model, resumed.get());
  Summary so_far;
  if (life.sharing) {
    const PseudoToReal& rules = *config.pseudo_to_real;
    if (rules.plateau || (rules.at_step && *rules.at_step < config.run.steps))
      check_second_life(config, model, transport);
    TrainResult result = Training(config, life, resolved, folder, hooks, transport).run(resumed.get());
    if (result.summary.exit_reason != delinked) return result;
    so_far.saves = result.summary.saves, so_far.failed_saves = result.summary.failed_saves;
    so_far.save_stall_seconds = result.summary.save_stall_seconds, so_far.delink = result.summary.delink;
  }
  const Config later = config.pseudo_to_real && (life.sharing || life.delinked_at) ? after_delink(config) : config;
  if (life.sharing) {
    const auto begin = std::chrono::steady_clock::now();
    resumed = open_resume(later, transport, warn);
    so_far.delink->load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    life = life_of(later, model, resumed.get());
    if (hooks.delinked) hooks.delinked(*life.delinked_at, resumed->sharing()->groups);
  }
  return Training(later, life, resolved, folder, hooks, transport).run(resumed.get(), so_far);
}

TrainResult train(const Config& config, const TrainHooks& hooks, comm::Transport& transport) {
  return train(config, config.model.make(), hooks, transport);
}

}  // namespace zrt::runtime
