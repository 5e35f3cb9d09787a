// Adapters in PEFT's folders: adapter_config.json and adapter_model.safetensors, beside a folder of Hugging Face with
// the weights that they belong to, their base.
#pragma once
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime::checkpoint {

inline constexpr const char* adapter_config_name = "adapter_config.json";
inline constexpr const char* adapter_weights_name = "adapter_model.safetensors";

// Says whether the folder is one of PEFT's.
bool is_adapter_folder(const std::filesystem::path& folder);

// Opens adapters and the base that adapter_config.json names as one model, whose section has `adapters`. Throws
// DataError, naming keys of adapter_config.json that ask for what zrt does not do.
Reader open_adapters(const std::filesystem::path& folder, const std::function<void(const std::string&)>& warn = {});

// A folder of PEFT or of Hugging Face; either way a start at step 0.
bool is_plain(const std::filesystem::path& folder);
Reader open_plain(const std::filesystem::path& folder, const std::function<void(const std::string&)>& warn = {});

// A manifest says (made_by) where the base of a checkpoint lies that does not hold all weights: its folder, and hashes
// that tell another model apart.
inline constexpr const char* base_key = "base";
Json base_json(const std::filesystem::path& folder);
// Opens the base that a manifest names. Throws DataError where it is gone or another.
Reader open_base(const Json& base, const std::filesystem::path& checkpoint);

// Writes a new folder for PEFT with the adapters of a checkpoint, in fp32. It appears under its name when all of it is
// on disk. Returns the files' names. Throws DataError.
std::vector<std::string> export_adapters(const Reader& reader, const std::filesystem::path& out);

// Weights with what adapters add to them. Elements come a part at a time, in fp32: W + s · (B A), where the sum over
// the rank is made in its order, then multiplied, then added.
class MergedWeights {
 public:
  explicit MergedWeights(const Reader& reader) : reader_(reader) {}
  static bool is_adapter(const std::string& parameter) { return parameter.find(".lora_") != std::string::npos; }
  // Throws DataError for the first value that is NaN or infinite, or would be in `type`.
  void read(const std::string& parameter, int64_t begin, std::span<float> out, core::DType type);

 private:
  void load(const std::string& layer);

  const Reader& reader_;
  std::string layer_;             // whose matrices are held
  std::vector<float> down_, up_;  // (rank, in) and (rank, out)
  int64_t rank_ = 0, in_ = 0, out_ = 0;
};

}  // namespace zrt::runtime::checkpoint
