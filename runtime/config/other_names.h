// The names that other trainers have for keys of zrt: Hugging Face's of config.json and of its Trainer, Megatron-LM's
// of its command line, PEFT's. They are no keys; an unknown key that is one of them is answered with zrt's.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::configuration {

struct OtherName {
  std::string_view name;  // with '_', as Megatron's options are written with '-'
  std::string_view key;   // the path of zrt's
};

const std::vector<OtherName>& other_names();

// The key that `name` means elsewhere; "" where it means none.
std::string_view key_named_elsewhere(std::string_view name);

// Says what does the work of another trainer's optimizer, such as DeepSpeed's FusedAdam or bitsandbytes' AdamW8bit; ""
// where nothing is known of it.
std::string optimizer_named_elsewhere(std::string_view type);

}  // namespace zrt::runtime::configuration
