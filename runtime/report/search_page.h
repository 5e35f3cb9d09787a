// A search for the fastest way has a page (docs/plan.md): it shows seconds against memory of every way that fits, and a
// table.
#pragma once
#include <string>

#include "runtime/search/search.h"

namespace zrt::runtime {

// Returns HTML, one file with everything inside. `command` runs the file of the task on its ranks; the page adds each
// way's keys.
std::string search_page(const search::Result& result, const search::Task& task, const Cluster& cluster,
                        const Price& price, const std::string& command);

}  // namespace zrt::runtime
