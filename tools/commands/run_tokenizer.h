// The tokenizer of a trained model.
#pragma once
#include <memory>
#include <string>

#include "runtime/config/config.h"
#include "runtime/data/tokenizer.h"

namespace zrt::tools {

// `given` by the user, or, where that is "", the one of the run's data. `learned` is what the checkpoint says. Throws
// ConfigError where they contradict each other, and where none is known.
std::unique_ptr<runtime::data::Tokenizer> choose_tokenizer(const runtime::Config& config, const std::string& given,
                                                           const std::string& learned);

}  // namespace zrt::tools
