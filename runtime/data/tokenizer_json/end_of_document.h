// Finds the token that ends a document.
#pragma once
#include <optional>
#include <string>

#include "runtime/data/tokenizer_json/added_tokens.h"

namespace zrt::runtime::data::tokenizer_json {

// The "eos_token" of tokenizer_config.json or special_tokens_map.json beside `file`, if there is one. Throws DataError
// when a file there is no JSON object.
std::optional<std::string> configured_end(const std::string& file);

// `named` (a token; digits are an id, unless an added token is called so), or if that is "" the `configured` one, or
// the added token that goes by a name known for it. Throws ConfigError listing the special tokens where none is found.
int32_t end_of_document(const std::string& named, const std::optional<std::string>& configured,
                        const AddedTokens& added, const Vocabulary& vocabulary, const std::string& source);

}  // namespace zrt::runtime::data::tokenizer_json
