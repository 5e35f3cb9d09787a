#include "runtime/train/telemetry/run_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/file.h"

namespace zrt::runtime {

RunLog::RunLog(const std::filesystem::path& file, int64_t from) {
  std::string lines;
  std::ifstream in(file);
  for (std::string line; from > 0 && std::getline(in, line);) {
    // A line that a crash cut in two is dropped, as are all after it.
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) break;
    if (json["step"].get<int64_t>() > from) break;
    lines += line + "\n";
    const auto loss = json.find("loss");
    if (loss != json.end() && loss->is_number()) last_loss_ = loss->get<double>();
  }
  core::write_durably(file, lines);
  lines_.emplace(file, static_cast<int64_t>(lines.size()));
}

}  // namespace zrt::runtime
