// Checkpoints of two small tensors, for tests of their files.
#pragma once
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "runtime/train/checkpoint/shard.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::small_checkpoint {

using namespace zrt::runtime::checkpoint;
namespace fs = std::filesystem;

inline std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spill(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const core::DataError& error) {
    return error.what();
  }
  return "";
}

inline int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Two tensors, cut over `ranks` at odd places, committed as step `step`.
inline fs::path make_checkpoint(const fs::path& store, int64_t step, int ranks, float base = 0) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> tensors{{"a.weight", {7, 5}}, {"b.bias", {11}}};
  const fs::path folder = begin_checkpoint(store, step);
  Manifest manifest;
  manifest.step = step;
  manifest.samples = step * 4;
  manifest.optimizer = "Adam";
  manifest.model = {{"type", "toy"}};
  manifest.control = {{"updates", step}};
  manifest.made_by = {{"ranks", ranks}};
  std::vector<std::vector<float>> values;
  for (const auto& [name, shape] : tensors) {
    values.emplace_back(static_cast<size_t>(product(shape)));
    std::iota(values.back().begin(), values.back().end(), base);
  }
  for (int r = 0; r < ranks; ++r) {
    std::vector<Run> runs;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const int64_t n = product(tensors[t].second), begin = n * r / ranks, end = n * (r + 1) / ranks;
      runs.push_back({tensors[t].first, tensors[t].second, begin, end - begin, core::Form::f32,
                      reinterpret_cast<const std::byte*>(values[t].data() + begin)});
    }
    uint64_t bytes = 0;
    for (const auto& [name, record] : write_shard(folder, r, runs)) {
      manifest.files[name] = record;
      bytes += record.bytes;
    }
    CHECK(shard_bytes(runs) >= bytes);
    for (Run& run : runs) run.tensor = "exp_avg." + run.tensor;
    for (const auto& [name, record] : write_shard(folder / "optimizer", r, runs)) {
      manifest.files["optimizer/" + name] = record;
    }
  }
  commit_checkpoint(store, folder, manifest);
  return store / ("step_" + std::to_string(step));
}

inline std::vector<fs::path> weight_files(const fs::path& checkpoint) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  return files;
}

}  // namespace zrt::small_checkpoint
