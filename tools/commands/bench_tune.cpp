// `zrt bench tune`: a kernel file for run.kernel_table.
#include <fmt/format.h>

#include <iostream>

#include "core/error.h"
#include "core/file.h"
#include "runtime/bench/tune.h"
#include "tools/commands/arguments.h"
#include "tools/commands/bench.h"
#include "tools/commands/user_file.h"

namespace zrt::tools {

int bench_tune(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "the file for run.kernel_table")(
      "rounds", po::value<int>()->default_value(5), "times the fastest are compared")(
      "set", po::value<std::vector<std::string>>()->composing(), "a.b.c=value: override a key")("json", "print JSON");
  add_force_option(options);
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt bench tune CONFIG --out FILE [--rounds N] [--force] [--device cuda]", options, {"CONFIG"},
             values)) {
    return 0;
  }
  if (!values.count("out")) throw core::UsageError("--out is missing (see --help)");
  const int rounds = values["rounds"].as<int>();
  if (rounds < 1) throw core::UsageError("--rounds must be positive");
  const std::string out = values["out"].as<std::string>();
  require_replaceable({out, "--out", models::kernel_file_mark, values["CONFIG"].as<std::string>()}, values);
  const runtime::Config config = runtime::load_config(values["CONFIG"].as<std::string>(), config_settings(values), 1);
  const runtime::Tuning tuning = runtime::tune_products(config, rounds, bench_progress());
  end_bench_progress();
  core::write_durably(out, models::kernel_file_text(tuning.file));
  Json rows = Json::array();
  for (const runtime::TunedProduct& p : tuning.products) {
    rows.push_back({{"product", p.product},
                    {"candidates", p.candidates},
                    {"first_seconds", p.first_seconds},
                    {"best_seconds", p.best_seconds}});
    if (!values.count("json")) {
      std::cout << fmt::format("{:9.3f} ms, was {:9.3f} ms, of {:2}: {}\n", p.best_seconds * 1e3, p.first_seconds * 1e3,
                               p.candidates, p.product);
    }
  }
  if (values.count("json")) {
    std::cout << Json{{"chip", tuning.file.chip}, {"library", tuning.file.library}, {"products", rows}}.dump(1) << "\n";
  }
  return 0;
}

}  // namespace zrt::tools
