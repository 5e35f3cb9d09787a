#include "runtime/data/build_outputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "runtime/data/indexed_format.h"

namespace zrt::runtime::data {

void require_out(const std::string& out) {
  if (out.empty()) throw core::ConfigError("out is empty; it must be the prefix of the files to write.");
}

void require_prefix(const std::string& out) {
  require_out(out);
  const std::string name = std::filesystem::path(out).filename().string();
  if (!name.empty() && name != "." && name != "..") return;
  throw core::ConfigError(
      fmt::format("out is '{}', a folder; it must be the prefix of the files to write, such as '{}'.", out,
                  (std::filesystem::path(out) / "corpus").string()));
}

namespace {

std::vector<std::string> dataset_files(const std::string& prefix) {
  const std::string counts = counts_prefix(prefix);
  return {idx_path(prefix), bin_path(prefix), meta_path(prefix), idx_path(counts), bin_path(counts)};
}

}  // namespace

void require_absent(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, failed))) return;
  throw core::ConfigError(
      fmt::format("{}: this file is there already. Add --force to replace it, or write elsewhere.", path));
}

void require_absent_dataset(const std::string& prefix) {
  for (const std::string& path : dataset_files(prefix)) require_absent(path);
}

void require_no_input(const InputFiles& inputs, const std::string& path) {
  for (const InputFile& input : inputs.files) {
    std::error_code failed;
    if (!std::filesystem::equivalent(input.path, path, failed)) continue;
    throw core::ConfigError(
        fmt::format("{}: --out would replace this file, which is one of the inputs. Choose another --out.", path));
  }
}

void require_no_input_dataset(const InputFiles& inputs, const std::string& prefix) {
  for (const std::string& path : dataset_files(prefix)) require_no_input(inputs, path);
}

bool holds(const std::string& path, std::string_view model) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  return !failed && bytes == model.size() && core::read_text(path, bytes) == model;
}

std::string model_name(const Tokenizer* tokenizer) {
  return tokenizer != nullptr && tokenizer->name() == tokenizer_json_name ? "tokenizer.json" : "tokenizer.model";
}

std::string tokenizer_copy(const std::string& prefix, const Tokenizer* tokenizer) {
  return prefix + (model_name(tokenizer) == "tokenizer.json" ? ".tokenizer.json" : ".model");
}

void write_model(OutputFile& file, const Tokenizer& tokenizer) {
  file.write(tokenizer.model().data(), tokenizer.model().size());
  file.seal();
}

}  // namespace zrt::runtime::data
