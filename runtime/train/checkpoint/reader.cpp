#include "runtime/train/checkpoint/reader.h"

#include "core/error.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::runtime::checkpoint {
namespace {

// The manifest's files in the folder itself, or below `optimizer`.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder, const Manifest& manifest,
                                            bool states) {
  std::vector<std::filesystem::path> files;
  for (const auto& [name, record] : manifest.files) {
    if ((name.rfind("optimizer/", 0) == 0) == states) files.push_back(folder / name);
  }
  return files;
}

}  // namespace

Reader::Reader(const std::filesystem::path& folder, bool hashes)
    : folder_(folder),
      manifest_(verify_checkpoint(folder, hashes)),
      weights_(folder, files_of(folder, manifest_, false)) {
  const auto states = files_of(folder, manifest_, true);
  if (!states.empty()) states_.emplace(folder, states);
}

Reader::Reader(const std::filesystem::path& folder, Json model, TensorSet weights)
    : folder_(folder), plain_(true), weights_(std::move(weights)) {
  manifest_.model = std::move(model);
  manifest_.made_by = {{"imported", true}};
}

uint64_t Reader::table_bytes() const {
  return weights_.table_bytes() + (states_ ? states_->table_bytes() : 0);
}

void Reader::read(const std::string& tensor, int64_t begin, std::span<float> out) const {
  const bool state = !weights_.has(tensor) && states_ && states_->has(tensor);
  (state ? *states_ : weights_).read(tensor, begin, out);
}

Reader open_checkpoint(const std::filesystem::path& path) {
  while (true) {
    const std::filesystem::path folder = find_checkpoint(path);
    try {
      return Reader(folder, false);
    } catch (const core::DataError&) {
      if (std::filesystem::exists(folder)) throw;
    }
  }
}

}  // namespace zrt::runtime::checkpoint
