#include "runtime/train/checkpoint/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/train/checkpoint/safetensors.h"

namespace zrt::runtime::checkpoint {
namespace {

struct Piece {
  const Run* run;
  int64_t first, elements;  // of the run
  std::vector<int64_t> offsets;
};

struct Part {
  SafetensorsHeader header;
  std::map<std::string, Piece> pieces;
};

// The largest rectangle of every run comes first, so that later parts hold rows cut by shard boundaries only.
std::vector<Part> make_parts(std::span<const Run> runs) {
  size_t parts = 1;
  for (const Run& run : runs) parts = std::max(parts, most_rectangles(run.shape.size()));
  std::vector<Part> result(parts);
  for (const Run& run : runs) {
    std::vector<std::pair<Rectangle, int64_t>> rectangles;  // and its first element in the run
    int64_t first = 0;
    for (Rectangle& r : cut_run(run.shape, run.begin, run.begin + run.count)) {
      const int64_t count = r.elements();
      rectangles.emplace_back(std::move(r), first);
      first += count;
    }
    std::stable_sort(rectangles.begin(), rectangles.end(),
                     [](const auto& a, const auto& b) { return a.first.elements() > b.first.elements(); });
    for (size_t k = 0; k < rectangles.size(); ++k) {
      const Rectangle& r = rectangles[k].first;
      result[k].header.tensors.push_back({run.tensor, "F32", r.shape, 0, 0});
      result[k].pieces[run.tensor] = {&run, rectangles[k].second, r.elements(), r.offsets};
    }
  }
  for (Part& part : result) {
    Json sharding = Json::object();
    for (const auto& [name, piece] : part.pieces) sharding[name] = {{"saved_offsets", piece.offsets}};
    part.header.metadata = {{sharding_key, sharding.dump()}, {"DCP_VERSION", "1.0"}};
  }
  return result;
}

// What does not lie in the host's memory, or in another form than fp32, is brought to the host's fp32 a part at a time.
void write_values(core::NewFile& file, const Piece& piece) {
  const Run& run = *piece.run;
  if (!run.read && run.device == core::DeviceKind::cpu && run.form == core::Form::f32) {
    return file.write(run.values + core::form_bytes(run.form, piece.first), core::form_bytes(run.form, piece.elements));
  }
  constexpr int64_t part = write_buffer_bytes / 2 / sizeof(float);  // elements, in their form and as fp32
  const int64_t block = core::form_alignment(run.form), end = piece.first + piece.elements;
  std::vector<std::byte> kept;
  std::vector<float> values;
  for (int64_t at = piece.first; at < end;) {
    const int64_t begin = at / block * block, to = std::min(end, begin + part);
    kept.resize(core::form_bytes(run.form, (to - begin + block - 1) / block * block));
    if (run.read) {
      run.read(core::form_bytes(run.form, begin), kept.data(), kept.size());
    } else {
      core::read_bytes(kept.data(), run.values + core::form_bytes(run.form, begin), kept.size(), run.device);
    }
    values.resize(static_cast<size_t>(to - at));
    core::read_form(run.form, kept.data(), at - begin, to - at, values.data());
    file.write(values.data(), values.size() * sizeof(float));
    at = to;
  }
}

}  // namespace

std::map<std::string, FileRecord> write_shard(const std::filesystem::path& folder, int rank,
                                              std::span<const Run> runs) {
  std::map<std::string, FileRecord> written;
  std::vector<Part> parts = make_parts(runs);
  for (size_t k = 0; k < parts.size(); ++k) {
    Part& part = parts[k];
    if (part.pieces.empty()) continue;
    const std::string name = fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", rank + 1, k + 1, parts.size());
    core::NewFile file(folder / name);
    const std::string head = lay_out(part.header);
    file.write(head.data(), head.size());
    for (const TensorEntry& tensor : part.header.tensors) {
      const Piece& piece = part.pieces.at(tensor.name);
      write_values(file, piece);
    }
    file.keep();
    written[name] = {file.bytes(), file.xxh3()};
  }
  return written;
}

uint64_t shard_bytes(std::span<const Run> runs) {
  uint64_t bytes = 0;
  for (Part& part : make_parts(runs)) {
    if (part.pieces.empty()) continue;
    bytes += (lay_out(part.header).size() + part.header.tensors.back().end + 4095) / 4096 * 4096;
  }
  return bytes;
}

std::map<std::string, std::vector<int64_t>> parse_sharding(const std::string& text, const std::string& name) {
  std::map<std::string, std::vector<int64_t>> result;
  const Json json = parse_strict_json(text, name);
  const auto fail = [&](const std::string& tensor) {
    throw core::DataError(fmt::format("{}: {} of tensor '{}' must be {{\"saved_offsets\": [whole numbers]}}", name,
                                      sharding_key, tensor));
  };
  if (!json.is_object()) fail("(all)");
  for (const auto& [tensor, value] : json.items()) {
    if (!value.is_object() || !value.contains("saved_offsets") || !value["saved_offsets"].is_array()) fail(tensor);
    for (const Json& offset : value["saved_offsets"]) {
      if (!offset.is_number_unsigned() || offset.get<uint64_t>() > uint64_t{1} << 53) fail(tensor);
      result[tensor].push_back(offset.get<int64_t>());
    }
    result.try_emplace(tensor);
  }
  return result;
}

}  // namespace zrt::runtime::checkpoint
