// Dropout sites, numbers of RngKey::tensor: the embedding, then three per layer.
#pragma once
#include <cstdint>

namespace zrt::models {

enum class DropoutSite : uint32_t { attention, attention_output, mlp_output };
inline constexpr uint32_t embedding_dropout_site = 0;
inline uint32_t layer_dropout_site(int64_t layer, DropoutSite site) {
  return 1 + 3 * static_cast<uint32_t>(layer) + static_cast<uint32_t>(site);
}

}  // namespace zrt::models
