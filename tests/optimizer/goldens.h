// optimizer_goldens.json, read once.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace zrt::optimizer {

inline const nlohmann::json& goldens() {
  static const nlohmann::json data = [] {
    std::ifstream file(std::string(ZRT_TEST_DATA) + "/optimizer_goldens.json");
    return nlohmann::json::parse(file);
  }();
  return data;
}

}  // namespace zrt::optimizer
