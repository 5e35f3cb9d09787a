#include "tools/commands/plan_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/report/search_page.h"
#include "runtime/search/search.h"
#include "runtime/train/telemetry/metrics.h"
#include "tools/commands/plan_answers.h"

namespace zrt::tools {
int search_command(const po::variables_map& values) {
  for (const char* option : {"program", "model"}) {
    if (!values.count(option)) continue;
    throw core::UsageError(
        fmt::format("--{} and --search are both given, but --search compares many plans of one file: "
                    "leave one of them out",
                    option));
  }
  if (!values.count("CONFIG")) throw core::UsageError("CONFIG is missing; usage: zrt plan CONFIG --search");
  const std::string file = values["CONFIG"].as<std::string>();
  runtime::search::Task task = runtime::search::load_task(file, config_settings(values), values["ranks"].as<int>());
  const std::string name = values.count("cluster") ? values["cluster"].as<std::string>() : task.config.parallel.cluster;
  if (name.empty()) {
    throw core::UsageError("--search ranks ways by seconds, which needs --cluster FILE or NAME, such as dgx-a100");
  }
  const runtime::Cluster cluster = runtime::find_cluster(name);
  if (task.config.parallel.cluster.empty()) task.cluster = name;
  const int most = values["most"].as<int>();
  const runtime::Price price = price_of(values, true);
  if (most < 1) throw core::UsageError(fmt::format("--most is {}; legal is a number of at least 1", most));
  const bool shown = isatty(STDERR_FILENO) != 0;
  auto last = std::chrono::steady_clock::now();
  const runtime::search::Result result = runtime::search::search(
      task, cluster, static_cast<size_t>(most), [&](const std::string& what, size_t done, size_t all) {
        const auto now = std::chrono::steady_clock::now();
        if (!shown || now - last < std::chrono::milliseconds(200)) return;
        last = now;
        std::cerr << fmt::format("\r\033[K{} {} of {} ways", what, done, all) << std::flush;
      });
  if (shown) std::cerr << "\r\033[K";
  std::string command = fmt::format("zrt train {} --ranks {}", core::in_shell(file), task.ranks);
  for (const std::string& other : task.others) command += " --set " + core::in_shell(other);
  std::cout << (values.count("json") ? search_json(result, task, cluster, price) + "\n"
                                     : search_text(result, task, cluster, price, command));
  if (values.count("draw")) {
    runtime::write_file(values["draw"].as<std::string>(), runtime::search_page(result, task, cluster, price, command));
  }
  return result.found.empty() ? 1 : 0;
}

}  // namespace zrt::tools
