// An object of a cluster's file, whose figures are {"value": …, "source": "…"}; a curve has "points" instead of
// "value". What is wrong is refused with the file's line, the key, its value and what is legal.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/keys/text.h"
#include "runtime/config/json_reader.h"
#include "runtime/cost/cluster.h"

namespace zrt::runtime {

enum class Range : uint8_t { positive, not_negative, share };

// All its keys are listed by the first call of `keys`.
class FileSection {
 public:
  FileSection(const configuration::Document& document, const nlohmann::json& value, std::string path);

  bool has(const char* key) const { return value_.contains(key); }
  std::vector<std::string> names() const;

  // Every key must be one of these.
  void keys(const std::vector<std::string>& known) const;

  const nlohmann::json& at(const char* key) const;

  // Refuses a key beside another that says the same.
  void needs_no(const char* key, const char* other) const;

  FileSection section(const char* key) const { return {document_, at(key), join(key)}; }

  double number(const char* key, Range range) const;
  std::optional<double> optional_rate(const char* key) const;
  int64_t whole(const char* key, int64_t low, int64_t high) const;
  std::string word(const char* key, const std::vector<std::string>& known) const;
  Curve curve(const char* key, Range range) const;
  Link link(const char* key, std::vector<std::string> more = {}) const;
  // The link of ranks that NCCL connects.
  Link link_of_ranks(const char* key) const;

 private:
  FileSection figure_of(const char* key, const char* content) const;
  double in_range(const nlohmann::json& value, Range range) const;
  [[noreturn]] void fail(const std::string& path, const std::string& what) const;
  std::string title() const { return path_.empty() ? "the file" : path_; }
  std::string join(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  static std::string shown(const nlohmann::json& value) { return core::keys::in_quotes(value.dump(-1, ' ', true)); }

  const configuration::Document& document_;
  const nlohmann::json& value_;
  std::string path_;
};

}  // namespace zrt::runtime
