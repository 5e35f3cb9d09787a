#include "runtime/train/checkpoint/tensor_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "core/finite.h"
#include "core/printable.h"
#include "runtime/train/checkpoint/shard.h"

namespace zrt::runtime::checkpoint {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& where, const std::string& what) {
  throw core::DataError(core::printable(fmt::format("{}: {}", where.string(), what)));
}

}  // namespace

TensorSet::TensorSet(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& files)
    : folder_(folder) {
  for (const std::filesystem::path& path : files) {
    const auto file = std::make_shared<const SafetensorsFile>(path);
    header_bytes_ += file->header_bytes();
    std::map<std::string, std::vector<int64_t>> places;
    const auto sharding = file->header().metadata.find(sharding_key);
    if (sharding != file->header().metadata.end()) places = parse_sharding(sharding->second, path.string());
    for (const TensorEntry& entry : file->header().tensors) {
      std::vector<int64_t> offsets(entry.shape.size(), 0);
      if (const auto place = places.find(entry.name); place != places.end()) offsets = place->second;
      Tensor& tensor = tensors_[entry.name];
      if (tensor.rectangles.empty()) tensor.shape.resize(entry.shape.size());
      if (offsets.size() != entry.shape.size() || tensor.shape.size() != entry.shape.size()) {
        refuse(path, fmt::format("tensor '{}' has a place or a shape of another dimension than elsewhere", entry.name));
      }
      for (size_t d = 0; d < offsets.size(); ++d) {
        int64_t end;
        if (__builtin_add_overflow(offsets[d], entry.shape[d], &end)) {
          refuse(path, fmt::format("tensor '{}' lies beyond any tensor", entry.name));
        }
        tensor.shape[d] = std::max(tensor.shape[d], end);
      }
      tensor.rectangles.push_back({file, entry, {offsets, entry.shape}});
    }
  }
  for (const auto& [name, tensor] : tensors_) check(name, tensor);
}

void TensorSet::check(const std::string& name, const Tensor& tensor) const {
  const auto fail = [&](const char* what) {
    refuse(folder_, fmt::format("the pieces of tensor '{}' {}; a shard file is missing or was mixed in from another "
                                "checkpoint",
                                name, what));
  };
  // Compared as a sum of sizes: the whole may be more than 64 bits can count.
  double whole = 1, stored = 0;
  for (int64_t extent : tensor.shape) whole *= static_cast<double>(extent);
  for (const StoredRectangle& part : tensor.rectangles) stored += static_cast<double>(part.entry.elements());
  if (whole != stored) fail("do not add up to the whole");
  std::vector<const Rectangle*> rectangles;
  for (const StoredRectangle& part : tensor.rectangles) {
    if (part.entry.dtype != tensor.rectangles.front().entry.dtype) fail("are of different types");
    rectangles.push_back(&part.rectangle);
  }
  if (any_overlap(std::move(rectangles))) fail("overlap");
}

void TensorSet::rename(const std::function<std::optional<std::string>(const std::string&)>& to) {
  std::map<std::string, Tensor> renamed;
  for (auto& [name, tensor] : tensors_) {
    const std::optional<std::string> other = to(name);
    if (!other) continue;
    const auto [place, fresh] = renamed.try_emplace(*other, std::move(tensor));
    if (!fresh) {
      refuse(folder_, fmt::format("'{}' and '{}' are both the tensor '{}' of the model; remove one",
                                  place->second.rectangles.front().entry.name, name, *other));
    }
  }
  tensors_ = std::move(renamed);
}

void TensorSet::split(const std::string& tensor, const std::vector<Part>& parts, const std::vector<int64_t>& shape) {
  const Tensor whole = find(tensor);
  const StoredRectangle& stored = whole.rectangles.front();
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  if (whole.rectangles.size() != 1 || whole.shape != shape) {
    constexpr size_t most = 3;
    std::vector<std::string> named;
    for (size_t i = 0; i < std::min(parts.size(), most); ++i) {
      named.push_back(fmt::format("{} of '{}'", parts[i].rows, parts[i].name));
    }
    refuse(folder_, fmt::format("tensor '{}' is [{}], but the model needs [{}], of whose rows it makes {}{}; it is of "
                                "another model, or a size in config.json is wrong",
                                tensor, fmt::join(whole.shape, ", "), fmt::join(shape, ", "), fmt::join(named, ", "),
                                parts.size() > most ? fmt::format(" and {} more", parts.size() - most) : ""));
  }
  // Counted: the place in a map, twice while tensors are renamed, and in the file.
  constexpr uint64_t of_part = 2 * (sizeof(std::pair<std::string, Tensor>) + 48) + sizeof(StoredRectangle) + 256;
  tensors_.erase(tensor);
  const uint64_t row_bytes =
      (stored.entry.end - stored.entry.begin) / static_cast<uint64_t>(std::max<int64_t>(rows, 1));
  int64_t row = 0;
  for (const Part& part : parts) {
    StoredRectangle piece = stored;
    piece.entry.shape = {part.rows, whole.shape.back()};
    piece.entry.begin += static_cast<uint64_t>(row) * row_bytes;
    piece.entry.end = piece.entry.begin + static_cast<uint64_t>(part.rows) * row_bytes;
    piece.rectangle.shape = piece.entry.shape;
    Tensor made{piece.entry.shape, {piece}};
    split_bytes_ += of_part + 2 * part.name.size() + tensor.size();
    if (has(part.name)) {
      refuse(folder_, fmt::format("holds '{}', which has the rows of '{}', and that tensor by itself, too; remove one",
                                  tensor, part.name));
    }
    tensors_.emplace(part.name, std::move(made));
    row += part.rows;
  }
}

void TensorSet::alias(const std::string& tensor, const std::string& name) {
  find(tensor);
  if (has(name)) refuse(folder_, fmt::format("'{}' stands for '{}', and is a tensor of its own, too", name, tensor));
  aliases_.emplace(name, tensor);
}

void TensorSet::include(const TensorSet& other) {
  tensors_.insert(other.tensors_.begin(), other.tensors_.end());
  aliases_.insert(other.aliases_.begin(), other.aliases_.end());
  header_bytes_ += other.header_bytes_, split_bytes_ += other.split_bytes_;
}

// Measured: parsed, a header takes up to 22 times its bytes.
uint64_t TensorSet::table_bytes() const {
  constexpr uint64_t of_alias = 160;  // beside the two names: of the map, and of their strings
  uint64_t bytes = 32 * header_bytes_ + split_bytes_ + (1 << 16);
  for (const auto& [name, tensor] : aliases_) bytes += of_alias + name.size() + tensor.size();
  return bytes;
}

std::vector<std::string> TensorSet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  for (const auto& [name, tensor] : aliases_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

const TensorSet::Tensor& TensorSet::find(const std::string& tensor) const {
  const auto alias = aliases_.find(tensor);
  const auto found = tensors_.find(alias == aliases_.end() ? tensor : alias->second);
  if (found == tensors_.end()) {
    refuse(folder_, fmt::format("has no tensor '{}'; it was made by another model", tensor));
  }
  return found->second;
}

const std::vector<int64_t>& TensorSet::shape(const std::string& tensor) const {
  return find(tensor).shape;
}

int64_t TensorSet::elements(const std::string& tensor) const {
  const std::vector<int64_t>& extents = shape(tensor);
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

const std::string& TensorSet::name_in_file(const std::string& tensor) const {
  return find(tensor).rectangles.front().entry.name;
}

const std::string& TensorSet::dtype(const std::string& tensor) const {
  return find(tensor).rectangles.front().entry.dtype;
}

void TensorSet::read(const std::string& tensor, int64_t begin, std::span<float> out) const {
  const Tensor& whole = find(tensor);
  const int64_t all = elements(tensor);
  if (begin < 0 || static_cast<int64_t>(out.size()) > all - begin) {
    refuse(folder_,
           fmt::format("tensor '{}' has {} elements; {} from {} on were asked for; it was made by another model",
                       tensor, all, out.size(), begin));
  }
  for (const StoredRectangle& stored : whole.rectangles) {
    common_runs(whole.shape, stored.rectangle, begin, begin + static_cast<int64_t>(out.size()),
                [&](int64_t at, int64_t within, int64_t count) {
                  stored.file->read(stored.entry, within,
                                    out.subspan(static_cast<size_t>(at - begin), static_cast<size_t>(count)));
                });
  }
}

void TensorSet::read_finite(const std::string& tensor, int64_t begin, std::span<float> out, core::DType type) const {
  read(tensor, begin, out);
  const int64_t at = core::first_not_finite(out, type);
  if (at < 0) return;
  const Tensor& whole = find(tensor);
  const int64_t element = begin + at;
  const auto has_it = [&](const StoredRectangle& stored) {
    bool has = false;
    common_runs(whole.shape, stored.rectangle, element, element + 1, [&](int64_t, int64_t, int64_t) { has = true; });
    return has;
  };
  const StoredRectangle& stored = *std::find_if(whole.rectangles.begin(), whole.rectangles.end(), has_it);
  const float value = out[static_cast<size_t>(at)];
  const std::string note = core::not_finite_note(value, type);
  refuse(stored.file->path(),
         fmt::format("tensor '{}' of type {} is {} at element {} of [{}]{}", stored.entry.name, stored.entry.dtype,
                     core::value_text(value), element, fmt::join(whole.shape, ", "),
                     note.empty() ? ": the run that made it has diverged, or the file was changed. Take an earlier "
                                    "checkpoint, or another copy of the file"
                                  : note + ". Choose a type that reaches as far as fp32"));
}

}  // namespace zrt::runtime::checkpoint
