#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "runtime/bench/bench.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/checkpoint/reader.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/checkpointer.h"
#include "runtime/train/run_manifest.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& work) {
  return time_ranks(1, 1, [&](int) { work(); });
}

// One file of `bytes`, written and synced.
double disk_bytes_per_second(const fs::path& folder, uint64_t bytes) {
  const fs::path path = folder / "ceiling";
  const std::vector<char> piece(8u << 20, 'x');
  const double seconds = seconds_of([&] {
    core::NewFile file(path);
    for (uint64_t done = 0; done < bytes; done += piece.size()) file.write(piece.data(), piece.size());
    file.keep();
  });
  fs::remove(path);
  return static_cast<double>(bytes) / seconds;
}

}  // namespace

SaveBench bench_save(const Config& config, int rounds, const std::string& folder, const Progress& progress) {
  const models::Model model = config.model.make();
  const fs::path store = fs::path(folder) / "checkpoints";
  core::make_folder(store);
  uint32_t step = 0;
  SaveBench bench;
  std::vector<double> quiet, stall, write, extra;
  {
    std::vector<Compiled> compiled = compile_within_budget(config, model, {"init", "step", "save"});
    const Layout layout = compiled.front().layout;
    Session session(std::move(compiled), session_options(config), SessionHooks{random_batches(layout, step), {}});
    session.run("init", {});
    SaveOutcome outcome;
    Checkpointer checkpointer(session, {[&] { return store; }, 2, 0, session.stage(0).set.has("save")},
                              [&](const SaveOutcome& o) { outcome = o; });
    const auto one_step = [&] {
      StepInputs inputs;
      inputs.seed = 1;
      inputs.step = step++;
      inputs.rates.lr = 1e-4;
      session.run("step", inputs);
    };
    progress("the first step");
    one_step();
    for (int round = 0; round < rounds; ++round) {
      progress(fmt::format("round {} of {}: a step without a save", round + 1, rounds));
      quiet.push_back(seconds_of(one_step));
      progress(fmt::format("round {} of {}: steps beside a save", round + 1, rounds));
      checkpoint::Manifest manifest =
          run_manifest(config, std::span(&layout, 1), session.executor(0).control().persistent);
      manifest.step = step;
      int steps = 0;
      const double beside = seconds_of([&] {
        checkpointer.save(manifest);
        do one_step(), ++steps;
        while (checkpointer.busy());
      });
      checkpointer.wait();
      if (!outcome.error.empty()) throw core::DataError(outcome.error);
      quiet.push_back(seconds_of(one_step));
      stall.push_back(outcome.stall_seconds);
      write.push_back(outcome.write_seconds);
      extra.push_back(beside - steps * (quiet.back() + quiet[quiet.size() - 2]) / 2);
      bench.bytes = outcome.bytes;
    }
    bench.host_planned = session.stage(0).plan.host().peak_bytes;
    const core::Arena* host = session.arena(0, core::Tier::host);
    bench.host_measured = host ? host->highest_touched() : 0;
    progress("the disk alone");
    bench.disk_bytes_per_second = disk_bytes_per_second(folder, bench.bytes);
  }
  progress("resuming");
  fs::path found;
  bench.verify_seconds = seconds_of([&] { found = checkpoint::find_checkpoint(store); });
  bench.load_seconds = seconds_of([&] {
    const checkpoint::Reader reader(found, false);
    std::vector<Compiled> compiled = compile_within_budget(config, model, {"load", "step"});
    SessionHooks hooks{random_batches(compiled.front().layout, step), {}};
    hooks.load = [&](const std::string& name, int64_t begin, std::span<float> out) { reader.read(name, begin, out); };
    hooks.loads_states = true;
    Session session(std::move(compiled), session_options(config), hooks);
    session.run("load", {});
  });
  fs::remove_all(store);
  bench.step_seconds = spread(quiet);
  bench.stall_seconds = spread(stall);
  bench.write_seconds = spread(write);
  bench.extra_seconds = spread(extra);
  bench.write_bytes_per_second = static_cast<double>(bench.bytes) / bench.write_seconds.median;
  return bench;
}

}  // namespace zrt::runtime
