// The files that a build writes: what may not be replaced.
#pragma once
#include <string>
#include <string_view>

#include "runtime/data/input_files.h"
#include "runtime/data/output_file.h"
#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

// All throw ConfigError.
void require_out(const std::string& out);      // is not empty
void require_prefix(const std::string& out);   // has a name of its own: without one it would make hidden files
void require_absent(const std::string& path);  // would be replaced
void require_absent_dataset(const std::string& prefix);
// A file that is to be written is one of those that are read: --force would lose the text.
void require_no_input(const InputFiles& inputs, const std::string& path);
void require_no_input_dataset(const InputFiles& inputs, const std::string& prefix);

// A model that is there already may be the very one that is to be copied there.
bool holds(const std::string& path, std::string_view model);
// The name of the model of a tokenizer beside its datasets, and its path beside one dataset. Null: one that is trained.
std::string model_name(const Tokenizer* tokenizer);
std::string tokenizer_copy(const std::string& prefix, const Tokenizer* tokenizer);
void write_model(OutputFile& file, const Tokenizer& tokenizer);

}  // namespace zrt::runtime::data
