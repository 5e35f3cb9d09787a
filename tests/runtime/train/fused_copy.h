// The tensors of a safetensors file, to compare and to change; and those of experts in the other layout of files.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/runtime/train/hugging_face_copy.h"

namespace zrt::hugging_face_copy {

struct RawTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
  bool operator==(const RawTensor&) const = default;
};
using RawTensors = std::map<std::string, RawTensor>;

inline RawTensors read_tensors(const fs::path& file) {
  const std::string text = core::read_text(file, 1 << 20);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  RawTensors tensors;
  const Json header = Json::parse(text.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], text.substr(8 + length + begin, end - begin)};
  }
  return tensors;
}

inline void write_tensors(const fs::path& file, const RawTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}};
    header[name]["data_offsets"] = {data.size(), data.size() + tensor.bytes.size()};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::ofstream(file, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), sizeof length) << text
                                        << data;
}

// A folder with a tensor for each matrix of an expert, in the layout that transformers 5 has in memory: expert by
// expert, the rows of gate before those of up.
inline RawTensors fused(const RawTensors& plain) {
  RawTensors made;
  for (const auto& [name, tensor] : plain) {
    const size_t part = std::min(name.find(".block_sparse_moe."), name.find(".mlp."));
    const std::string layer = name.substr(0, part);
    if (name.find(".experts.") == std::string::npos) {
      made[name.ends_with(".gate.weight") ? layer + ".mlp.gate.weight" : name] = tensor;
      continue;
    }
    if (made.contains(layer + ".mlp.experts.down_proj")) continue;
    const bool mixtral = name.find(".block_sparse_moe.") != std::string::npos;
    const std::string experts = layer + (mixtral ? ".block_sparse_moe" : ".mlp") + ".experts.";
    RawTensor first, second;
    int64_t number = 0;
    const auto matrix = [&](const char* theirs, const char* other) {
      const auto found = plain.find(experts + std::to_string(number) + (mixtral ? theirs : other) + ".weight");
      return found == plain.end() ? nullptr : &found->second;
    };
    for (; const RawTensor* gate = matrix(".w1", ".gate_proj"); ++number) {
      const RawTensor* down = matrix(".w2", ".down_proj");
      first.bytes += gate->bytes + matrix(".w3", ".up_proj")->bytes, second.bytes += down->bytes;
      first.shape = {number + 1, 2 * gate->shape[0], gate->shape[1]};
      second.shape = {number + 1, down->shape[0], down->shape[1]};
    }
    first.dtype = second.dtype = tensor.dtype;
    made[layer + ".mlp.experts.gate_up_proj"] = first, made[layer + ".mlp.experts.down_proj"] = second;
  }
  return made;
}

}  // namespace zrt::hugging_face_copy
