// Shared by the configuration tests.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "runtime/config/config.h"

namespace zrt::runtime {

// The first type of optimizer that reads the keys of a variant: "adam" of "adam, adamw".
inline std::string type_of_variant(const std::string& variant) {
  return variant.substr(0, variant.find(','));
}

// A configuration with a model and a batch, and `more` members before them: R"("bf16": {"enabled": true},)".
inline std::string with(const std::string& more) {
  return "{" + more + R"("model": {"preset": "gpt2-tiny"}})";
}

inline Config parsed(const std::string& more, const Settings& sets = {}, int ranks = 1) {
  std::string text = with(more);
  if (text.find("batch_size") == std::string::npos) text.insert(1, R"("train_micro_batch_size_per_gpu": 2,)");
  return parse_config(text, "ds.json", sets, ranks);
}

// The message of the error that `call` must throw.
template <class Error = core::ConfigError, class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  FAIL("no error was thrown");
  return "";
}

inline std::string parse_error(const std::string& more, const Settings& sets = {}, int ranks = 1) {
  return error_of([&] { parsed(more, sets, ranks); });
}

inline bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) WARN("'" << part << "' is missing in: " << text);
  return found;
}

struct Bad {
  const char* text;                // members before the model
  std::vector<const char*> parts;  // what the message must hold
};

inline void check_all(const std::vector<Bad>& cases) {
  for (const Bad& one : cases) {
    INFO(one.text);
    const std::string error = parse_error(one.text);
    for (const char* part : one.parts) CHECK(has(error, part));
  }
}

inline optimizer::AdamParams adam_of(const Config& config) {
  return *optimizer::find_params<optimizer::AdamParams>(config.optimizer.algorithm);
}

inline bool warned(const Config& config, const std::string& part) {
  return std::any_of(config.warnings.begin(), config.warnings.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

// The value in force of a key.
inline nlohmann::json in_force(const Config& config, const std::string& path) {
  for (const ResolvedKey& key : config.keys) {
    if (key.path == path) return nlohmann::json::parse(key.value);
  }
  FAIL("no key " << path);
  return {};
}

}  // namespace zrt::runtime
