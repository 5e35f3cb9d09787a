#include "tools/commands/checkpoint_delink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>

#include "core/error.h"
#include "core/ledger.h"
#include "core/printable.h"
#include "runtime/config/config.h"
#include "runtime/train/checkpoint/carried.h"
#include "runtime/train/delink.h"
#include "runtime/train/resume.h"

namespace zrt::tools {
namespace {

namespace fs = std::filesystem;

// A live line on a terminal, cleared at the end.
class Copied {
 public:
  ~Copied() { end(); }
  void end() {
    if (shown_) std::cerr << "\r\033[K" << std::flush;
    shown_ = false;
  }
  void show(uint64_t done, uint64_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (!isatty(STDERR_FILENO) || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now, shown_ = true;
    std::cerr << fmt::format("\r\033[K{} of {}", core::format_bytes(done), core::format_bytes(bytes)) << std::flush;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

}  // namespace

int checkpoint_delink(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(),
                        "folder of a new run, to go on from, evaluate or generate from")(
      "optimizer", po::value<std::string>()->default_value("copy"),
      "what layers get of the optimizer's states: copy, reset or rescale, as pseudo_to_real.optimizer has them");
  po::variables_map values;
  if (!parse(args, "zrt checkpoint delink RUN|CHECKPOINT --out RUN [--optimizer copy|reset|rescale]", options, {"PATH"},
             values)) {
    return 0;
  }
  if (!values.count("out")) throw core::UsageError("--out is missing; it names the folder of the new run");
  const std::string how = values["optimizer"].as<std::string>();
  runtime::Delink to;
  const auto states = runtime::states_at_delink(how);
  if (!states) throw core::UsageError(fmt::format("--optimizer is '{}'; legal are copy, reset and rescale", how));
  to.states = *states;
  const fs::path path = values["PATH"].as<std::string>(), out = values["out"].as<std::string>();
  const runtime::checkpoint::Reader shared = runtime::checkpoint::open_checkpoint(path);
  runtime::require_delinkable(shared, out);
  if (const auto config = runtime::find_run_config(path, shared.folder())) {
    const runtime::Config own = runtime::without_sharing(runtime::load_resolved(*config));
    to.resolved = runtime::resolved_json(runtime::into_folder(own, out.string()));
  }
  const runtime::checkpoint::CopyPlan plan = runtime::checkpoint::plan_copy(shared);
  const auto& groups = shared.sharing()->groups;
  std::cerr << fmt::format("delinking {} layers in {} {}: {} on disk, at most {} of host memory at once\n",
                           shared.sharing()->layers(), groups.size(), groups.size() == 1 ? "group" : "groups",
                           core::format_bytes(plan.disk_bytes), core::format_bytes(plan.host_bytes));
  Copied copied;
  to.progress = [&](uint64_t done, uint64_t bytes) { copied.show(done, bytes); };
  const fs::path made = runtime::delink_checkpoint(shared, to, out);
  copied.end();
  runtime::checkpoint::write_carried(out / runtime::checkpoint::carried_name,
                                     runtime::checkpoint::carried_by_run(shared.folder()));
  std::cout << core::printable(made.string()) << "\n";
  return 0;
}

}  // namespace zrt::tools
