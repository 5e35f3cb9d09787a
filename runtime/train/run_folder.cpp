#include "runtime/train/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;

// All that a run and its supervisor write. Where they lead elsewhere, whoever may write into the folder chooses files
// of this user's that the run overwrites.
constexpr const char* written[] = {
    "config.resolved.json", "metrics.jsonl", "evaluations.jsonl", "samples.jsonl", "expert_loads.jsonl", "memory.json",
    "summary.json",         "trace.json",    "heartbeat",         "events.jsonl",  "failure.json",       "checkpoints"};

// "" or why this process cannot make a file in `folder`.
std::string probe(const fs::path& folder, int rank) {
  const fs::path file = folder / fmt::format(".probe-{}.tmp", rank);
  ::unlink(file.c_str());  // of a process that died here
  try {
    core::NewFile made(file);  // removed, as it is not kept
    return "";
  } catch (const core::DataError& error) {
    return error.what();
  }
}

}  // namespace

void hold_run_folder(core::HeldFolder& out) {
  out.hold();
  for (const char* name : written) core::refuse_special(out / name);
}

void require_savable(const core::HeldFolder& out, const Config& config, comm::Transport& transport) {
  if (config.run.checkpoint_interval == 0 && !config.run.save_weights) return;
  const auto timeout = std::chrono::seconds(config.run.timeout_seconds);
  std::string folder;
  if (transport.leads()) {
    const fs::path store = out / "checkpoints";
    std::error_code error;
    folder = fs::exists(store, error) || error ? store : store.parent_path();  // the first save makes it
  }
  folder = transport.exchange(folder, timeout).front();
  for (const std::string& why : transport.exchange(probe(folder, transport.first_local()), timeout)) {
    if (why.empty()) continue;
    throw core::DataError(
        fmt::format("checkpoints cannot be saved: {}. Every process of the run must be able to write there: make it "
                    "so, or choose another folder with run.out",
                    why));
  }
}

}  // namespace zrt::runtime
