#include "runtime/train/launch/failure.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace zrt::runtime {
namespace {

constexpr const char* name = "failure.json";
constexpr uint64_t most_bytes = 1 << 16;

}  // namespace

void write_failure(const std::filesystem::path& out, const RunFailure& failure) {
  const nlohmann::ordered_json json{{"step", failure.step}, {"kind", failure.kind}, {"message", failure.message}};
  core::write_durably(out / name, json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::optional<RunFailure> read_failure(const std::filesystem::path& out) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(out / name, error)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(core::read_text(out / name, most_bytes));
    return RunFailure{json.at("step").get<int64_t>(), json.at("kind").get<std::string>(),
                      json.at("message").get<std::string>()};
  } catch (const core::DataError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void remove_failure(const std::filesystem::path& out) {
  std::error_code ignored;
  std::filesystem::remove(out / name, ignored);
}

}  // namespace zrt::runtime
