#include "runtime/config/presets.h"

namespace zrt::runtime {
namespace {

// The four GPT-2 sizes pad their vocabulary of 50,257 to a multiple of 128. The two small ones read bytes: 256 values
// and the end of a document.
const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> all = [] {
    const auto gpt2 = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t sequence,
                         int64_t vocab) {
      ModelConfig model;
      model.type = "gpt2", model.preset = name;
      model.layers = layers, model.hidden = hidden, model.heads = heads;
      model.sequence = sequence, model.vocab = vocab;
      return model;
    };
    return std::vector<ModelConfig>{
        gpt2("gpt2-tiny", 2, 64, 2, 32, 257),         gpt2("gpt2-10m", 6, 384, 6, 256, 257),
        gpt2("gpt2-124m", 12, 768, 12, 1024, 50304),  gpt2("gpt2-350m", 24, 1024, 16, 1024, 50304),
        gpt2("gpt2-774m", 36, 1280, 20, 1024, 50304), gpt2("gpt2-1.5b", 48, 1600, 25, 1024, 50304),
    };
  }();
  return all;
}

}  // namespace

const ModelConfig* find_preset(std::string_view name) {
  for (const ModelConfig& model : presets()) {
    if (model.preset == name) return &model;
  }
  return nullptr;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelConfig& model : presets()) names.push_back(model.preset);
  return names;
}

}  // namespace zrt::runtime
