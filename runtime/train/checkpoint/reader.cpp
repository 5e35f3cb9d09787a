#include "runtime/train/checkpoint/reader.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

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

void Reader::require_finite() const {
  constexpr int64_t most = 1 << 18;  // elements at a time
  std::vector<float> values;
  for (const TensorSet* set : {&weights_, states()}) {
    if (!set) continue;
    for (const std::string& name : set->names()) {
      const std::vector<int64_t>& shape = set->shape(name);
      const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
      for (int64_t begin = 0; begin < count; begin += most) {
        values.resize(static_cast<size_t>(std::min(most, count - begin)));
        set->read_finite(name, begin, values, core::DType::f32);
      }
    }
  }
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
