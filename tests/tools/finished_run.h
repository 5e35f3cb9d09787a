// A run of two steps, started and read as a user does.
#pragma once
#include <string>

#include "program.h"

namespace zrt::finished_run {

using namespace zrt::testing;
using nlohmann::json;

inline Result require(const std::string& arguments) {
  const Result result = run_zrt(arguments);
  INFO("zrt " << arguments << "\n" << result.text);
  REQUIRE(result.code == 0);
  return result;
}

inline json bits(const Folder& folder, const std::string& run) {
  return read_json(folder / (run + "/summary.json"))["state_xxh3"];
}

inline json base_config(const Folder& folder) {
  json config = json::parse(folder.config());
  config["run"]["steps"] = 2;
  return config;
}

}  // namespace zrt::finished_run
