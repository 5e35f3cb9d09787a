// A page as a browser shows it: Debian's chromium without a window.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "catch.h"
#include "program.h"

namespace zrt::testing {

struct Shown {
  std::string document;               // after the page's scripts have run
  std::vector<std::string> console;   // what they wrote there, errors included
  std::vector<std::string> requests;  // addresses that the page asked for
};

inline std::string browser_program() {
  const Result found = run_command("command -v chromium || command -v chromium-browser || command -v google-chrome");
  if (found.code != 0) {
    FAIL("no chromium is installed, so no page can be looked at; tools/setup.sh installs Debian's package");
  }
  return found.text.substr(0, found.text.find('\n'));
}

inline Shown show_page(const std::string& file, const std::string& options = "") {
  const fs::path folder = fs::temp_directory_path() / ("zrt_browser_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  // The browser's own attempts to reach its maker find no host; a page's are seen in the log.
  const Result run = run_command(
      "(timeout -k 5 600 " + browser_program() +
      " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking "
      "--disable-component-update --disable-sync --host-resolver-rules='MAP * ~NOTFOUND' --enable-logging=stderr "
      "--user-data-dir=" +
      (folder / "profile").string() + " --log-net-log=" + (folder / "net.json").string() + " " + options +
      " --dump-dom 'file://" + fs::absolute(file).string() + "' >" + (folder / "document").string() + ")");
  INFO(run.text);
  REQUIRE(run.code == 0);
  Shown shown;
  std::ifstream document(folder / "document");
  shown.document.assign(std::istreambuf_iterator<char>(document), {});
  static const std::regex message(R"(:CONSOLE[^\]]*\] (.*))");
  for (std::sregex_iterator at(run.text.begin(), run.text.end(), message), end; at != end; ++at) {
    shown.console.push_back((*at)[1]);
  }
  const auto log = read_json((folder / "net.json").string());
  const int request = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"];
  for (const auto& event : log["events"]) {
    const auto params = event.value("params", nlohmann::json::object());
    const bool of_page = params.value("site_for_cookies", "").find("site=file:") != std::string::npos;
    if (event["type"] == request && of_page) shown.requests.push_back(params.value("url", ""));
  }
  fs::remove_all(folder);
  return shown;
}

}  // namespace zrt::testing
