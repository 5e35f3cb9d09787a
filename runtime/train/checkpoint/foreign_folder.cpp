#include "runtime/train/checkpoint/foreign_folder.h"

#include <fmt/format.h>

#include <string>

#include "core/error.h"
#include "core/printable.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

// The name of an entry that `matches`, in the folder or in one of its folders; "" without one.
template <class Matches>
std::string find_entry(const fs::path& folder, const Matches& matches, int depth = 1) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (matches(name)) return name;
    if (depth == 0 || !entry.is_directory(code)) continue;
    if (const std::string inside = find_entry(entry.path(), matches, depth - 1); !inside.empty()) {
      return name + "/" + inside;
    }
  }
  return "";
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& found, const char* whose, const char* advice) {
  throw core::DataError(core::printable(
      fmt::format("{}: is a checkpoint of {} (it has {}), whose files are pickles and run code when they are read; {}",
                  folder.string(), whose, found, advice)));
}

}  // namespace

void refuse_foreign(const fs::path& folder) {
  const std::string deepspeed = find_entry(folder, [](const std::string& name) {
    return name.ends_with("_model_states.pt") || name.ends_with("_optim_states.pt");
  });
  if (!deepspeed.empty()) {
    refuse(folder, deepspeed, "DeepSpeed",
           "make safetensors of it with the zero_to_fp32.py that lies beside it (--safe_serialization) and copy "
           "config.json and the tokenizer there");
  }
  const std::string megatron = find_entry(folder, [](const std::string& name) {
    return name == "latest_checkpointed_iteration.txt" || name == "model_optim_rng.pt" || name == "distrib_optim.pt";
  });
  if (!megatron.empty()) {
    refuse(folder, megatron, "Megatron-LM",
           "make a folder of Hugging Face of it with the converter of the Megatron that wrote it");
  }
}

}  // namespace zrt::runtime::checkpoint
