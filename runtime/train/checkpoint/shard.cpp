#include "runtime/train/checkpoint/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/train/checkpoint/safetensors.h"

namespace zrt::runtime::checkpoint {
namespace {

// A rectangle of a tensor whose values lie in elements [first, first + elements) of a run: all of these, or of each
// `row` of them `take` from `skip` on.
struct RunRectangle {
  const Run* run = nullptr;
  int64_t first = 0, elements = 0;
  std::vector<int64_t> offsets, shape;
  int64_t row = 1, skip = 0, take = 1;
};

struct Part {
  SafetensorsHeader header;
  std::map<std::string, RunRectangle> rectangles;
};

// A rectangle of what a rank has, of the run's elements from `first` on, as rectangles of the whole tensor: one for
// each section that it reaches into, without padding.
void place(const Run& run, const Rectangle& own, int64_t first, std::vector<RunRectangle>& rectangles) {
  RunRectangle rectangle{&run, first, own.elements(), own.offsets, own.shape};
  if (!run.slice) {
    rectangles.push_back(std::move(rectangle));
    return;
  }
  const models::Slice& slice = *run.slice;
  const size_t d = slice.dimension;
  const int64_t part = run.shape[d] / slice.sections, section = slice.extent / slice.sections;
  const int64_t real = std::clamp<int64_t>(section - run.tensor_rank * part, 0, part);
  int64_t inner = 1;  // elements of a step along the dimension
  for (size_t i = d + 1; i < own.shape.size(); ++i) inner *= own.shape[i];
  const int64_t begin = own.offsets[d], end = begin + own.shape[d];
  for (int64_t s = 0; s < slice.sections; ++s) {
    const int64_t from = std::max(begin, s * part), to = std::min(end, s * part + real);
    if (from >= to) continue;
    rectangle.offsets[d] = s * section + run.tensor_rank * part + from - s * part;
    rectangle.shape[d] = to - from;
    rectangle.row = own.shape[d] * inner, rectangle.skip = (from - begin) * inner, rectangle.take = (to - from) * inner;
    rectangles.push_back(rectangle);
  }
}

std::vector<RunRectangle> rectangles_of(const Run& run) {
  std::vector<RunRectangle> rectangles;
  int64_t first = 0;
  for (const Rectangle& own : cut_run(run.shape, run.begin, run.begin + run.count)) {
    place(run, own, first, rectangles);
    first += own.elements();
  }
  // The largest one comes first, so that later parts of a shard hold rows cut by shard boundaries only.
  const auto size = [](const RunRectangle& rectangle) { return rectangle.elements / rectangle.row * rectangle.take; };
  std::stable_sort(rectangles.begin(), rectangles.end(),
                   [&](const RunRectangle& a, const RunRectangle& b) { return size(a) > size(b); });
  return rectangles;
}

std::vector<Part> make_parts(std::span<const Run> runs) {
  size_t parts = 1;
  for (const Run& run : runs) {
    const auto sections = static_cast<size_t>(run.slice ? run.slice->sections : 1);
    parts = std::max(parts, most_rectangles(run.shape.size()) * sections);
  }
  std::vector<Part> result(parts);
  for (const Run& run : runs) {
    std::vector<RunRectangle> rectangles = rectangles_of(run);
    for (size_t k = 0; k < rectangles.size(); ++k) {
      result[k].header.tensors.push_back({run.tensor, "F32", rectangles[k].shape, 0, 0});
      result[k].rectangles[run.tensor] = std::move(rectangles[k]);
    }
  }
  for (Part& part : result) {
    Json sharding = Json::object();
    for (const auto& [name, rectangle] : part.rectangles)
      append(sharding, name, {{"saved_offsets", rectangle.offsets}});
    part.header.metadata = {{sharding_key, sharding.dump()}, {"DCP_VERSION", "1.0"}};
  }
  return result;
}

// fp32 values of elements [first, first + count) of a run.
void read_values(const Run& run, int64_t first, int64_t count, std::vector<std::byte>& kept, float* values) {
  const int64_t block = core::form_alignment(run.form), begin = first / block * block, end = first + count;
  kept.resize(core::form_bytes(run.form, (end - begin + block - 1) / block * block));
  if (run.read) {
    run.read(core::form_bytes(run.form, begin), kept.data(), kept.size());
  } else {
    core::read_bytes(kept.data(), run.values + core::form_bytes(run.form, begin), kept.size(), run.device);
  }
  core::read_form(run.form, kept.data(), first - begin, count, values);
}

// Writes a rectangle. Values that are not fp32 in one piece of the host's memory are brought there a part at a time.
void write_values(core::NewFile& file, const RunRectangle& rectangle) {
  const Run& run = *rectangle.run;
  const bool whole = rectangle.take == rectangle.row;
  if (whole && !run.read && run.device == core::DeviceKind::cpu && run.form == core::Form::f32) {
    return file.write(run.values + core::form_bytes(run.form, rectangle.first),
                      core::form_bytes(run.form, rectangle.elements));
  }
  constexpr int64_t most = write_buffer_bytes / 2 / sizeof(float);  // elements, in their form and as fp32
  std::vector<std::byte> kept;
  std::vector<float> values;
  const auto write = [&](int64_t first, int64_t count) {
    for (int64_t at = first; at < first + count; at += most) {
      values.resize(static_cast<size_t>(std::min(most, first + count - at)));
      read_values(run, at, static_cast<int64_t>(values.size()), kept, values.data());
      file.write(values.data(), values.size() * sizeof(float));
    }
  };
  if (whole) return write(rectangle.first, rectangle.elements);
  if (rectangle.row > most) {
    for (int64_t at = 0; at < rectangle.elements; at += rectangle.row)
      write(rectangle.first + at + rectangle.skip, rectangle.take);
    return;
  }
  // Reads as many rows at a time as there is room for, and moves together what is wanted of them.
  const int64_t rows = most / rectangle.row * rectangle.row;
  for (int64_t at = 0; at < rectangle.elements; at += rows) {
    const int64_t count = std::min(rows, rectangle.elements - at);
    values.resize(static_cast<size_t>(count));
    read_values(run, rectangle.first + at, count, kept, values.data());
    float* to = values.data();
    for (int64_t row = 0; row < count; row += rectangle.row) {
      to = std::copy_n(values.data() + row + rectangle.skip, rectangle.take, to);
    }
    file.write(values.data(), static_cast<size_t>(to - values.data()) * sizeof(float));
  }
}

}  // namespace

std::map<std::string, FileRecord> write_shard(const std::filesystem::path& folder, int rank,
                                              std::span<const Run> runs) {
  std::map<std::string, FileRecord> written;
  std::vector<Part> parts = make_parts(runs);
  for (size_t k = 0; k < parts.size(); ++k) {
    Part& part = parts[k];
    if (part.rectangles.empty()) continue;
    const std::string name = fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", rank + 1, k + 1, parts.size());
    core::NewFile file(folder / name);
    const std::string head = lay_out(part.header);
    file.write(head.data(), head.size());
    for (const TensorEntry& tensor : part.header.tensors) {
      const RunRectangle& rectangle = part.rectangles.at(tensor.name);
      write_values(file, rectangle);
    }
    file.keep();
    written[name] = {file.bytes(), file.xxh3()};
  }
  return written;
}

uint64_t shard_bytes(std::span<const Run> runs) {
  uint64_t bytes = 0;
  for (Part& part : make_parts(runs)) {
    if (part.rectangles.empty()) continue;
    bytes += (lay_out(part.header).size() + part.header.tensors.back().end + 4095) / 4096 * 4096;
  }
  return bytes;
}

std::map<std::string, std::vector<int64_t>> parse_sharding(const std::string& text, const std::string& name) {
  std::map<std::string, std::vector<int64_t>> result;
  const Json json = parse_strict_json(text, name);
  const auto fail = [&](const std::string& tensor) {
    throw core::DataError(core::printable(fmt::format(
        "{}: {} of tensor '{}' must be {{\"saved_offsets\": [whole numbers]}}", name, sharding_key, tensor)));
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
