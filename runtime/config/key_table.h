// Every key of the configuration: the 459 of DeepSpeed 0.19.6, last_batch_iteration of its schedulers, and the sections
// that DeepSpeed ignores, of which models and optimizers own a part.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/keys/key.h"
#include "core/keys/values.h"

// This namespace holds what only the configuration itself uses; others include config.h.
namespace zrt::runtime::configuration {

using namespace core::keys;

inline constexpr double most = 0x1p40;  // samples, microbatches, steps, bytes of a unit

inline constexpr const char* dtypes = "fp32 bf16 fp16";

const std::vector<Section>& sections();

// Null when there is none.
const Section* find_section(std::string_view path, std::string_view variant = "");
const Key* find_key(const Section& section, std::string_view name);  // by name or alias
std::string key_path(const Section& section, std::string_view name);

// The keys of a section whose file also reads them.
std::span<const Key> run_keys();

bool implemented(const Section& section);  // whether any key of it is

void warn_without_effect(Values& values, const Value& value);  // with the note of the table

// A sentence that helps with an unknown key: the nearest spelling, or the section it belongs to.
std::string suggest_key(const Section& section, std::string_view name);

}  // namespace zrt::runtime::configuration
