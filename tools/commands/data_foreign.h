// zrt data describe and import: datasets that others made.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/data/part_writer.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

inline constexpr const char* describe_usage = "zrt data describe PREFIX --tokenizer FILE";
inline constexpr const char* import_usage =
    "zrt data import --out PREFIX (--tokenizer FILE | --vocab N [--eod ID]) FILE…";

int describe_command(const Args& args);
int import_command(const Args& args);

// A dataset in words, and as JSON: its description and its prefix.
std::string part_text(const runtime::data::BuiltPart& part);
nlohmann::ordered_json part_json(const runtime::data::BuiltPart& part);

}  // namespace zrt::tools
