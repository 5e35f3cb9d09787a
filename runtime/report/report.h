// A run as one page: what `zrt report` writes.
#pragma once
#include <filesystem>
#include <string>

namespace zrt::runtime::report {

// The page of a run that has ended, runs, or died: HTML that needs no other file and no network. What is missing or
// damaged is said on it. Throws DataError when `folder` is no folder of a run.
std::string report_page(const std::filesystem::path& folder);

}  // namespace zrt::runtime::report
