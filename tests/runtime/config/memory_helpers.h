// Configurations of the section memory, and of a ZeRO stage with AdamW.
#pragma once
#include <string>

#include "tests/runtime/config/config_helpers.h"

namespace zrt::runtime {

inline MemoryConfig memory(const std::string& keys) {
  return parsed(R"("memory": {)" + keys + "},").memory;
}

inline Config stage(int number, const std::string& keys, const std::string& more = "") {
  return parsed(R"("optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": )" + std::to_string(number) + ", " +
                keys + "}," + more);
}

}  // namespace zrt::runtime
