// TensorBoard event files: length-framed protobuf messages with a masked CRC-32C each. Written by hand: the three
// messages that matter are a few fields.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/train/telemetry/append_file.h"
#include "runtime/train/telemetry/scalar.h"

namespace zrt::runtime {

uint32_t crc32c(std::string_view bytes);
std::string event_record(std::string_view event);  // frames one message
std::string version_event(double wall_seconds);    // the first of a file
// Tells readers to forget what earlier files of the folder say from `samples` on.
std::string restart_event(double wall_seconds, int64_t samples);
std::string scalar_event(double wall_seconds, int64_t samples, std::span<const Scalar> scalars);

class EventFile : public ScalarSink {
 public:
  // A new file in `folder`, which is made; readers read all files of a folder in the order of their names. What files
  // of earlier runs say beyond `samples`, which this run goes on from, no longer counts. Throws DataError.
  EventFile(const std::filesystem::path& folder, int64_t samples);
  void add(int64_t samples, std::span<const Scalar> scalars) override;
  const std::string& error() const override { return file_->error(); }

 private:
  std::optional<AppendFile> file_;
};

}  // namespace zrt::runtime
