// optimizer_goldens.json, read once.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/data_folder.h"

namespace zrt::optimizer {

inline const nlohmann::json& goldens() {
  static const nlohmann::json data = [] {
    std::ifstream file(zrt::test::data_folder() + "/optimizer_goldens.json");
    return nlohmann::json::parse(file);
  }();
  return data;
}

}  // namespace zrt::optimizer
