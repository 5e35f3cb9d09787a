#include "runtime/train/checkpoint/strict_json.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "core/error.h"

namespace zrt::runtime::checkpoint {

Json parse_strict_json(std::string_view text, const std::string& name, int max_depth) {
  std::vector<std::set<std::string>> keys;  // of the open objects and arrays
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      keys.emplace_back();
      if (static_cast<int>(keys.size()) > max_depth) {
        throw core::DataError(fmt::format("{}: is nested more than {} levels deep", name, max_depth));
      }
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) {
      throw core::DataError(fmt::format("{}: the key '{}' occurs twice", name, value.get<std::string>()));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    throw core::DataError(fmt::format("{}: is not valid JSON: {}", name, error.what()));
  }
}

}  // namespace zrt::runtime::checkpoint
