// Orders, times and live microbatches of pipeline schedules: tests/data/schedules.json.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/data_folder.h"

namespace zrt::testing {

inline const nlohmann::json& schedule_goldens() {
  static const nlohmann::json all = nlohmann::json::parse(std::ifstream(test::data_folder() + "/schedules.json"));
  return all;
}

}  // namespace zrt::testing
