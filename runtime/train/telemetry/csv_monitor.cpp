#include "runtime/train/telemetry/csv_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "core/error.h"
#include "core/file.h"
#include "core/held_folder.h"

namespace zrt::runtime {
namespace {

// "12,0.5" → 12; none where a row does not begin with a number.
bool row_is_kept(const std::string& row, int64_t from) {
  int64_t samples = 0;
  const auto parsed = std::from_chars(row.data(), row.data() + row.size(), samples);
  return parsed.ec == std::errc{} && parsed.ptr != row.data() + row.size() && *parsed.ptr == ',' && samples <= from;
}

}  // namespace

CsvMonitor::CsvMonitor(std::filesystem::path folder, int64_t samples) : folder_(std::move(folder)), from_(samples) {
  core::make_folder(folder_);
}

AppendFile& CsvMonitor::file(const std::string& tag) {
  auto& file = files_[tag];
  if (file) return *file;
  std::string name = tag;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ' '; }, '_');
  const std::filesystem::path path = folder_ / (name + ".csv");
  core::refuse_special(folder_);
  core::refuse_special(path);  // nor are rows read through one
  std::string text = "step," + tag.substr(tag.rfind('/') + 1) + "\n";
  std::ifstream in(path);
  for (std::string row; from_ > 0 && std::getline(in, row);) {
    if (row_is_kept(row, from_)) text += row + "\n";
  }
  core::write_durably(path, text);
  file = std::make_unique<AppendFile>(path, static_cast<int64_t>(text.size()));
  return *file;
}

void CsvMonitor::add(int64_t samples, std::span<const Scalar> scalars) {
  error_.clear();
  for (const Scalar& scalar : scalars) {
    try {
      AppendFile& rows = file(scalar.tag);
      rows.add(fmt::format("{},{:.9g}\n", samples, scalar.value));
      if (error_.empty()) error_ = rows.error();
    } catch (const core::DataError& failure) {
      files_.erase(scalar.tag);
      error_ = failure.what();
    }
  }
}

}  // namespace zrt::runtime
