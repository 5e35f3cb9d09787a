#include "runtime/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace zrt::runtime {
namespace {

using core::DataError;
using Json = nlohmann::ordered_json;

uint64_t elements(const std::vector<int64_t>& shape) {
  uint64_t count = 1;
  for (int64_t extent : shape) count *= static_cast<uint64_t>(extent);
  return count;
}

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw DataError(fmt::format("weights file {}: {}", file.string(), what));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path file, const std::vector<Tensor>& tensors)
    : file_(std::move(file)), temporary_(file_.string() + ".tmp") {
  Json header;
  header["__metadata__"] = {{"format", "pt"}};
  for (const Tensor& tensor : tensors) {
    const uint64_t bytes = elements(tensor.shape) * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {expected_, expected_ + bytes}}};
    expected_ += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(temporary_, fmt::format("cannot be created: {}", std::strerror(errno)));
  const uint64_t length = text.size();
  write(&length, sizeof length);
  write(text.data(), length);
  written_ = 0;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void SafetensorsWriter::write(const void* data, uint64_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor_, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(temporary_, fmt::format("cannot be written: {}", std::strerror(errno)));
    at += done;
    bytes -= static_cast<uint64_t>(done);
  }
}

void SafetensorsWriter::append(const float* values, uint64_t count) {
  write(values, count * sizeof(float));
  written_ += count * sizeof(float);
}

void SafetensorsWriter::finish() {
  if (written_ != expected_) fail(file_, fmt::format("{} of {} bytes were written", written_, expected_));
  if (fsync(descriptor_) != 0) fail(temporary_, fmt::format("cannot be synced: {}", std::strerror(errno)));
  close(std::exchange(descriptor_, -1));
  std::error_code error;
  std::filesystem::rename(temporary_, file_, error);
  if (error) fail(file_, fmt::format("cannot be renamed from {}: {}", temporary_.string(), error.message()));
  const std::filesystem::path folder = file_.has_parent_path() ? file_.parent_path() : ".";
  const int parent = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) {
    fsync(parent);
    close(parent);
  }
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& file) : file_(file) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  if (error || !in) fail(file, "cannot be opened; a run writes it when run.save_weights is true");
  uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!in || length > size - 8 || length > (100u << 20)) fail(file, "is truncated or not a safetensors file");
  std::string text(length, ' ');
  in.read(text.data(), static_cast<std::streamsize>(length));
  const Json header = Json::parse(text, nullptr, false);
  if (!in || !header.is_object()) fail(file, "has a header that is no JSON object");
  data_ = 8 + length;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = entry.find("data_offsets");
    const bool sound = entry.is_object() && entry.value("dtype", Json("")) == "F32" && offsets != entry.end() &&
                       offsets->is_array() && offsets->size() == 2 && (*offsets)[0].is_number_unsigned() &&
                       (*offsets)[1].is_number_unsigned();
    if (!sound) fail(file, fmt::format("tensor '{}' is not of type F32 with two data_offsets", name));
    const Entry range{(*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>()};
    if (range.begin > range.end || range.end > size - data_) {
      fail(file, fmt::format("is truncated: tensor '{}' ends at byte {} of {}", name, range.end, size - data_));
    }
    const auto shape = entry.find("shape");
    double count = shape != entry.end() && shape->is_array() ? 1 : -1;
    for (size_t i = 0; count > 0 && i < shape->size(); ++i) {
      count = (*shape)[i].is_number_unsigned() ? count * (*shape)[i].get<double>() : -1;
    }
    if (count * sizeof(float) != static_cast<double>(range.end - range.begin)) {
      fail(file, fmt::format("tensor '{}' has no shape that fits its {} bytes", name, range.end - range.begin));
    }
    entries_[name] = range;
  }
}

void SafetensorsReader::read(const std::string& name, int64_t elements, int64_t begin, std::span<float> out) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(file_, fmt::format("has no tensor '{}'", name));
  const Entry& entry = found->second;
  if (entry.end - entry.begin != static_cast<uint64_t>(elements) * sizeof(float)) {
    fail(file_, fmt::format("tensor '{}' has {} bytes where the model needs {}", name, entry.end - entry.begin,
                            static_cast<uint64_t>(elements) * sizeof(float)));
  }
  std::ifstream in(file_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(data_ + entry.begin + static_cast<uint64_t>(begin) * sizeof(float)));
  in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size_bytes()));
  if (!in) fail(file_, fmt::format("tensor '{}' cannot be read", name));
}

}  // namespace zrt::runtime
