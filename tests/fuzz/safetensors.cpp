// Weights in the safetensors format, from anywhere.
#include "runtime/train/checkpoint/safetensors.h"

#include <algorithm>

#include "core/error.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

namespace checkpoint = runtime::checkpoint;

using Tensors = std::map<std::string, std::pair<std::string, std::vector<int64_t>>>;

Tensors tensors_of(const checkpoint::SafetensorsHeader& header) {
  Tensors tensors;
  for (const auto& tensor : header.tensors) tensors[tensor.name] = {tensor.dtype, tensor.shape};
  return tensors;
}

void read_all(const checkpoint::SafetensorsFile& file) {
  for (const checkpoint::TensorEntry& tensor : file.header().tensors) {
    std::vector<float> out(static_cast<size_t>(std::min<int64_t>(tensor.elements(), 1 << 20)));
    try {
      file.read(tensor, 0, out);
      file.read(tensor, tensor.elements() - static_cast<int64_t>(out.size()), out);
    } catch (const core::DataError&) {  // a type that is no floating-point number
    }
  }
}

bool accepts(std::string_view input) {
  const std::filesystem::path path = folder() / "model.safetensors";
  write(path, input);
  try {
    const checkpoint::SafetensorsFile file(path);
    read_all(file);
    checkpoint::SafetensorsHeader written = file.header();
    const std::string text = checkpoint::lay_out(written);
    uint64_t bytes = 0;
    for (const checkpoint::TensorEntry& tensor : written.tensors) bytes = std::max(bytes, tensor.end);
    const auto again = checkpoint::parse_header(std::string_view(text).substr(8), bytes, "again");
    require(tensors_of(again) == tensors_of(file.header()), "what was read, written and read again is the same");
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

std::map<std::string, std::string> seeds() {
  checkpoint::SafetensorsHeader header;
  header.metadata["made_by"] = "a test";
  header.tensors = {{"a.weight", "F32", {2, 3}},
                    {"b.weight", "BF16", {4}},
                    {"scalar", "F16", {}},
                    {"ids", "I64", {2}},
                    {"none", "F32", {0, 7}}};
  std::string file = checkpoint::lay_out(header);
  uint64_t bytes = 0;
  for (const checkpoint::TensorEntry& tensor : header.tensors) bytes = std::max(bytes, tensor.end);
  checkpoint::SafetensorsHeader empty;
  return {{"five", file + std::string(bytes, '\x3f')}, {"none", checkpoint::lay_out(empty)}};
}

}  // namespace

const Target safetensors{"safetensors",
                         accepts,
                         seeds,
                         {"\"dtype\"",
                          "\"shape\"",
                          "\"data_offsets\"",
                          "\"__metadata__\"",
                          "\"format\"",
                          "\"pt\"",
                          "\"F32\"",
                          "\"F16\"",
                          "\"BF16\"",
                          "\"F64\"",
                          "\"BOOL\"",
                          "\"I64\"",
                          "[0,0]",
                          "9223372036854775807",
                          "18446744073709551615",
                          "4294967296",
                          "-1",
                          "[]",
                          "{}",
                          "null",
                          "1e9",
                          std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)}};

}  // namespace zrt::fuzz
