#include "runtime/config/presets.h"

namespace zrt::runtime {
namespace {

// The four GPT-2 sizes pad their vocabulary of 50,257 to a multiple of 128; the Llamas are as published, save that the
// sequence of llama-3.2-1b is what it was first trained on, not the 131,072 it was stretched to, and that llama-3b is a
// yardstick of benchmarks: the blocks of Llama 3.2 3B with the vocabulary of Llama 2. The small ones
// read bytes: 256 values and the end of a document.
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
    const auto llama = [&](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads,
                           int64_t ffn, int64_t sequence, int64_t vocab, bool tied, double theta) {
      ModelConfig model = gpt2(name, layers, hidden, heads, sequence, vocab);
      model.type = "llama", model.kv_heads = kv_heads, model.ffn = ffn;
      model.tied = tied, model.rope_theta = theta;
      return model;
    };
    ModelConfig small = llama("llama-160m", 12, 768, 12, 12, 3072, 2048, 32000, false, 1e4);
    small.rms_norm_eps = 1e-6;
    ModelConfig stretched = llama("llama-3.2-1b", 16, 2048, 32, 8, 8192, 8192, 128256, true, 5e5);
    stretched.rope_scaling = {32, 1, 4, 8192};
    return std::vector<ModelConfig>{
        gpt2("gpt2-tiny", 2, 64, 2, 32, 257),
        gpt2("gpt2-10m", 6, 384, 6, 256, 257),
        gpt2("gpt2-124m", 12, 768, 12, 1024, 50304),
        gpt2("gpt2-350m", 24, 1024, 16, 1024, 50304),
        gpt2("gpt2-774m", 36, 1280, 20, 1024, 50304),
        gpt2("gpt2-1.5b", 48, 1600, 25, 1024, 50304),
        llama("llama-tiny", 2, 64, 4, 2, 176, 32, 257, false, 1e4),
        llama("llama-10m", 6, 384, 6, 2, 1024, 256, 257, false, 1e4),
        small,
        llama("smollm-135m", 30, 576, 9, 3, 1536, 2048, 49152, true, 1e4),
        llama("tinyllama-1.1b", 22, 2048, 32, 4, 5632, 2048, 32000, false, 1e4),
        stretched,
        llama("llama-3b", 28, 3072, 24, 8, 8192, 4096, 32000, false, 1e4),
        llama("llama-2-7b", 32, 4096, 32, 32, 11008, 4096, 32000, false, 1e4),
        llama("llama-3-8b", 32, 4096, 32, 8, 14336, 8192, 128256, false, 5e5),
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
