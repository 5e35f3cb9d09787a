#include "runtime/report/report.h"

#include <filesystem>
#include <iostream>

#include "core/file.h"
#include "core/printable.h"
#include "runtime/report/curve_line.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/expert_loads.h"
#include "tools/commands/arguments.h"
#include "tools/commands/user_file.h"

namespace zrt::tools {

int report_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "file of the page; default: report.html in RUN");
  add_force_option(options);
  po::variables_map values;
  if (!parse(args, "zrt report RUN [--out FILE] [--force]", options, {"RUN"}, values)) return 0;
  const std::filesystem::path run = values["RUN"].as<std::string>();
  const std::filesystem::path out =
      values.count("out") ? std::filesystem::path(values["out"].as<std::string>()) : run / "report.html";
  require_replaceable({out, "--out", runtime::draw::page_mark, ""}, values);
  core::write_durably(out, runtime::report::report_page(run));
  // The page's path alone is the result, for scripts.
  std::cout << core::printable(out.string()) << std::endl;
  const runtime::report::RunData data = runtime::report::read_run(run);
  const std::string curve = runtime::report::curve_line(data);
  if (!curve.empty()) std::cerr << curve << "\n";
  if (const std::string loads = runtime::report::loads_line(data); !loads.empty()) std::cerr << loads << "\n";
  return 0;
}

}  // namespace zrt::tools
