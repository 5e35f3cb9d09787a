#include "runtime/train/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

#include "core/dtype.h"
#include "core/error.h"
#include "core/lfs_pointer.h"
#include "core/printable.h"
#include "runtime/train/checkpoint/strict_json.h"

namespace zrt::runtime::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are read as they lie");

struct Type {
  std::string_view name;
  unsigned bits;
};
// In the order of the reference implementation, which sorts by it.
constexpr std::array types{Type{"BOOL", 8},    Type{"U8", 8},   Type{"I8", 8},   Type{"F8_E5M2", 8},
                           Type{"F8_E4M3", 8}, Type{"I16", 16}, Type{"U16", 16}, Type{"F16", 16},
                           Type{"BF16", 16},   Type{"I32", 32}, Type{"U32", 32}, Type{"F32", 32},
                           Type{"C64", 64},    Type{"F64", 64}, Type{"I64", 64}, Type{"U64", 64}};

std::optional<size_t> type_index(std::string_view name) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == name) return i;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_file(const std::string& name, const std::string& what) {
  throw core::DataError(core::printable(fmt::format("{}: {}", name, what)));
}

// Bytes of a tensor, or nothing when the product does not fit.
std::optional<uint64_t> checked_bytes(const std::vector<int64_t>& shape, unsigned bits) {
  uint64_t count = bits / 8;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count)) return std::nullopt;
  }
  return count <= uint64_t{INT64_MAX} ? std::optional(count) : std::nullopt;
}

TensorEntry parse_tensor(const std::string& tensor, const Json& json, const std::string& name) {
  const auto bad = [&](const std::string& what) { refuse_file(name, fmt::format("tensor '{}' {}", tensor, what)); };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    bad("must have exactly dtype, shape and data_offsets");
  }
  TensorEntry entry{tensor, "", {}, 0, 0};
  const Json &dtype = json["dtype"], &shape = json["shape"], &offsets = json["data_offsets"];
  if (!dtype.is_string() || !type_index(dtype.get<std::string>())) bad("has a dtype that is not known");
  entry.dtype = dtype.get<std::string>();
  if (!shape.is_array()) bad("has a shape that is no list");
  for (const Json& extent : shape) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > uint64_t{INT64_MAX}) bad("has a bad shape");
    entry.shape.push_back(extent.get<int64_t>());
  }
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    bad("has bad data_offsets");
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  const auto bytes = checked_bytes(entry.shape, types[*type_index(entry.dtype)].bits);
  if (entry.end < entry.begin || !bytes || *bytes != entry.end - entry.begin) {
    bad(fmt::format("has data_offsets {} to {}, which do not fit its shape and type", entry.begin, entry.end));
  }
  return entry;
}

}  // namespace

bool is_weight_type(std::string_view dtype) {
  return dtype == "F32" || dtype == "BF16" || dtype == "F16" || dtype == "F64";
}

int64_t TensorEntry::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, const std::string& name) {
  if (json.empty() || json.front() != '{') refuse_file(name, "has a header that does not start with '{'");
  const Json root = parse_strict_json(json, name);
  SafetensorsHeader header;
  for (const auto& [key, value] : root.items()) {
    if (key != "__metadata__") {
      header.tensors.push_back(parse_tensor(key, value, name));
      continue;
    }
    if (!value.is_object()) refuse_file(name, "has __metadata__ that is no object");
    for (const auto& [word, text] : value.items()) {
      if (!text.is_string()) refuse_file(name, fmt::format("has __metadata__ '{}' that is no string", word));
      header.metadata[word] = text.get<std::string>();
    }
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin != end) {
      refuse_file(name, fmt::format("tensor '{}' starts at byte {} of the data where the one before ends at {}",
                                    tensor.name, tensor.begin, end));
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    refuse_file(name, fmt::format("holds {} bytes of data where its header says {}{}", data_bytes, end,
                                  data_bytes < end ? "; it is truncated" : ""));
  }
  return header;
}

std::string lay_out(SafetensorsHeader& header) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    const auto x = type_index(a.dtype), y = type_index(b.dtype);
    return x != y ? x > y : a.name < b.name;
  });
  header.metadata["format"] = "pt";
  Json json{{"__metadata__", header.metadata}};
  uint64_t end = 0;
  for (TensorEntry& tensor : header.tensors) {
    const auto type = type_index(tensor.dtype);
    if (!type) refuse_file(tensor.name, fmt::format("has the unknown dtype '{}'", tensor.dtype));
    tensor.begin = end;
    tensor.end = end += *checked_bytes(tensor.shape, types[*type].bits);
    append(json, tensor.name,
           {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}});
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  if (length > max_header_bytes) {
    throw core::DataError(fmt::format("{} tensors need a header of {} bytes; the format allows {}",
                                      header.tensors.size(), length, max_header_bytes));
  }
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  uint64_t length = 0;
  if (file_.bytes() < 8)
    refuse_file(path.string(), fmt::format("has {} bytes; a safetensors file has 8 or more", file_.bytes()));
  file_.read(0, &length, sizeof length);
  std::string begin(std::min<uint64_t>(core::lfs_pointer_begin.size(), file_.bytes()), '\0');
  file_.read(0, begin.data(), begin.size());
  if (core::is_lfs_pointer(begin)) refuse_file(path.string(), std::string(core::lfs_pointer_reason));
  if (length > max_header_bytes || length > file_.bytes() - 8) {
    refuse_file(path.string(),
                fmt::format("says that its header has {} bytes; the file has {} and the format allows {}", length,
                            file_.bytes(), max_header_bytes));
  }
  std::string text(length, '\0');
  file_.read(8, text.data(), length);
  data_ = 8 + length;
  header_ = parse_header(text, file_.bytes() - data_, path.string());
}

void SafetensorsFile::read(const TensorEntry& tensor, int64_t first, std::span<float> out) const {
  if (first < 0 || static_cast<int64_t>(out.size()) > tensor.elements() - first) {
    refuse_file(path().string(), fmt::format("tensor '{}' has {} elements; {} from {} on were asked for", tensor.name,
                                             tensor.elements(), out.size(), first));
  }
  const auto at = [&](uint64_t size) { return data_ + tensor.begin + static_cast<uint64_t>(first) * size; };
  if (tensor.dtype == "F32") return file_.read(at(4), out.data(), out.size_bytes());
  const auto convert = [&](auto zero, auto to_float) {
    std::vector<decltype(zero)> values(std::min<size_t>(out.size(), read_buffer_bytes / sizeof(double)));
    for (size_t done = 0; done < out.size(); done += values.size()) {
      const size_t count = std::min(values.size(), out.size() - done);
      file_.read(at(sizeof zero) + done * sizeof zero, values.data(), count * sizeof zero);
      for (size_t i = 0; i < count; ++i) out[done + i] = to_float(values[i]);
    }
  };
  if (tensor.dtype == "BF16") return convert(uint16_t{}, [](uint16_t v) { return core::to_float(core::bf16{v}); });
  if (tensor.dtype == "F16") return convert(uint16_t{}, [](uint16_t v) { return core::to_float(core::f16{v}); });
  if (tensor.dtype == "F64") return convert(double{}, [](double v) { return static_cast<float>(v); });
  refuse_file(path().string(),
              fmt::format("tensor '{}' has dtype {}; legal are {}", tensor.name, tensor.dtype, weight_types));
}

}  // namespace zrt::runtime::checkpoint
