// What the benchmarks print alike, and those with a file of their own.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/bench/bench.h"
#include "tools/commands/command.h"

namespace zrt::tools {

using Json = nlohmann::ordered_json;

Json spread_json(const runtime::Spread& s);
std::string range(const runtime::Spread& s, double unit);  // "1.20 (1.10 – 1.30)" in units of `unit`
runtime::Progress progress();                              // one line on a terminal, nothing elsewhere
void end_progress();

int bench_overlap(const Args& args);
int bench_traffic(const Args& args);

}  // namespace zrt::tools
