// Tables of tests/data.
#pragma once
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/data_folder.h"

namespace zrt::test {

// Rows of a file by the names of its first line; what is missing at the end of a row is empty.
inline std::vector<std::map<std::string, std::string>> read_csv(const std::string& name) {
  std::ifstream file(data_folder() + "/" + name);
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> head;
  for (std::string line, field; std::getline(file, line);) {
    std::vector<std::string> fields;
    for (std::istringstream in(line); std::getline(in, field, ',');) fields.push_back(field);
    if (head.empty()) {
      head = fields;
      continue;
    }
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < head.size(); ++i) row[head[i]] = i < fields.size() ? fields[i] : "";
  }
  return rows;
}

}  // namespace zrt::test
