// Where tests/data lies: in the source tree, or where ZRT_TEST_DATA says once the programs have been moved.
#pragma once
#include <cstdlib>
#include <string>

namespace zrt::test {

inline std::string data_folder() {
  const char* moved = std::getenv("ZRT_TEST_DATA");
  return moved ? moved : ZRT_TEST_DATA;
}

}  // namespace zrt::test
