// DeepSpeed's CSV files: one per scalar, named after its tag, with the columns `step` (samples) and the tag's last
// part.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "runtime/train/telemetry/append_file.h"
#include "runtime/train/telemetry/scalar.h"

namespace zrt::runtime {

class CsvMonitor : public ScalarSink {
 public:
  // Files in `folder`, which is made. Of files that are there, rows up to `samples` stay; with 0 they start anew.
  // A link, a pipe or a device in the place of one is an error. Throws DataError.
  CsvMonitor(std::filesystem::path folder, int64_t samples);
  void add(int64_t samples, std::span<const Scalar> scalars) override;
  const std::string& error() const override { return error_; }

 private:
  AppendFile& file(const std::string& tag);
  const std::filesystem::path folder_;
  const int64_t from_;
  std::map<std::string, std::unique_ptr<AppendFile>> files_;  // by tag
  std::string error_;
};

}  // namespace zrt::runtime
