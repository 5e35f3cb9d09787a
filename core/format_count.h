// Counts for people: "1.01T", "7.52B", "350M", exact below 1000.
#pragma once
#include <cstdint>
#include <string>

namespace zrt::core {

std::string format_count(int64_t count);

}  // namespace zrt::core
