// Declarations that the subcommands of `zrt bench` share.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/bench/bench.h"
#include "tools/commands/command.h"

namespace zrt::tools {

using Json = nlohmann::ordered_json;

Json spread_json(const runtime::Spread& spread);
std::string spread_text(const runtime::Spread& spread, double unit, int digits = 2);  // "median (low – high)"

// Overwrites one line of a terminal; silent elsewhere, and where `shown` is false.
runtime::Progress bench_progress(bool shown = true);
void end_bench_progress();

int bench_adam(const Args& args);
int bench_calibrate(const Args& args);
int bench_predict(const Args& args);
int bench_offload(const Args& args);
int bench_overlap(const Args& args);
int bench_traffic(const Args& args);
int bench_train(const Args& args);
int bench_tune(const Args& args);
int bench_io(const Args& args);
int bench_tokenizer(const Args& args);

}  // namespace zrt::tools
