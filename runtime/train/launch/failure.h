// RUN/failure.json: why a run ended where another start would end in the same way. The run writes it, a supervisor
// reads it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace zrt::runtime {

struct RunFailure {
  int64_t step = 0;
  std::string kind, message;  // kind: a word or a few that stay the same
  bool same(const RunFailure& other) const { return step == other.step && kind == other.kind; }
};

void write_failure(const std::filesystem::path& out, const RunFailure& failure);  // throws DataError
std::optional<RunFailure> read_failure(const std::filesystem::path& out);         // none: no file, or a damaged one
void remove_failure(const std::filesystem::path& out);

}  // namespace zrt::runtime
