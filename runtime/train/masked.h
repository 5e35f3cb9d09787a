// The samples that a model trains on: text as it is, or masked for a model that names hidden tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "runtime/data/sample_source.h"

namespace zrt::runtime {

int64_t text_sequence(const models::Model& model);  // tokens of text in a sample

// `text` has samples of text_sequence() tokens, of datasets that lie, with others, at `prefixes`. Throws ConfigError
// where the tokenizer that made them does not go with the model's ids.
std::shared_ptr<const data::SampleSource> masked(std::shared_ptr<const data::SampleSource> text,
                                                 const models::Model& model, const std::vector<std::string>& prefixes,
                                                 uint64_t seed);

}  // namespace zrt::runtime
