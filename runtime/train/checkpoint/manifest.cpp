#include "runtime/train/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/hash.h"
#include "core/printable.h"

namespace zrt::runtime::checkpoint {
namespace {

// The last line: ,"xxh3":"0123456789abcdef"} and a line end.
constexpr std::string_view seal_begin = "\n,\"xxh3\":\"", seal_end = "\"}\n";
constexpr size_t digits = 16;

std::string hash_of(std::string_view text) {
  core::Hash hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

bool is_hash(const std::string& text) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A name like "shard-….safetensors" or "optimizer/shard-….safetensors".
bool is_plain_path(const std::string& name) {
  if (name.empty() || name.size() > 255 || name.front() == '/' || name.back() == '/') return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool starts = i == 0 || name[i - 1] == '/';
    if (name[i] == '\0' || name[i] == '\\' || (starts && (name[i] == '.' || name[i] == '/'))) return false;
  }
  return true;
}

class ManifestReader {
 public:
  ManifestReader(const Json& json, const std::string& name) : json_(json), name_(name) {}

  const Json& at(const char* key, bool (Json::*kind)() const noexcept, const char* wanted) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !((*found).*kind)()) fail(key, wanted);
    return *found;
  }
  int64_t number(const char* key) const {
    const Json& value = at(key, &Json::is_number_unsigned, "a whole number");
    if (value.get<uint64_t>() > uint64_t{1} << 53) fail(key, "below 2^53");
    return value.get<int64_t>();
  }
  [[noreturn]] void fail(const std::string& key, const std::string& wanted) const {
    throw core::DataError(core::printable(fmt::format("{}: '{}' must be {}", name_, key, wanted)));
  }

 private:
  const Json& json_;
  const std::string& name_;
};

}  // namespace

std::string format_manifest(const Manifest& manifest) {
  Json json{{"format", "zrt checkpoint"},
            {"version", manifest_version},
            {"step", manifest.step},
            {"samples", manifest.samples},
            {"planned_samples", manifest.planned_samples},
            {"optimizer", manifest.optimizer},
            {"model", manifest.model},
            {"control", manifest.control},
            {"made_by", manifest.made_by},
            {"algorithm", "xxh3-64"}};
  Json& files = json["files"] = Json::object();
  for (const auto& [name, file] : manifest.files) append(files, name, {{"bytes", file.bytes}, {"xxh3", file.xxh3}});
  std::string text = json.dump(1);
  text.resize(text.size() - 2);  // the line end and the brace that close the object
  return text + std::string(seal_begin) + hash_of(text) + std::string(seal_end);
}

Manifest parse_manifest(const std::string& text, const std::string& name) {
  const size_t seal = seal_begin.size() + digits + seal_end.size();
  const bool sealed = text.size() > seal && text.compare(text.size() - seal, seal_begin.size(), seal_begin) == 0 &&
                      text.compare(text.size() - seal_end.size(), seal_end.size(), seal_end) == 0;
  if (!sealed) throw core::DataError(fmt::format("{}: does not end with its hash; it is cut or no manifest", name));
  const std::string_view body(text.data(), text.size() - seal);
  const std::string stored = text.substr(body.size() + seal_begin.size(), digits);
  if (hash_of(body) != stored) {
    throw core::DataError(fmt::format("{}: its contents have the hash {} where {} was written; it is corrupt", name,
                                      hash_of(body), stored));
  }
  const Json json = parse_strict_json(text, name);
  const ManifestReader reader(json, name);
  if (!json.is_object()) reader.fail("manifest", "an object");
  if (reader.at("format", &Json::is_string, "a text") != "zrt checkpoint") reader.fail("format", "\"zrt checkpoint\"");
  if (reader.number("version") != manifest_version) {
    reader.fail("version", fmt::format("{}; this program reads no other", manifest_version));
  }
  Manifest manifest;
  manifest.step = reader.number("step");
  manifest.samples = reader.number("samples");
  manifest.planned_samples = reader.number("planned_samples");
  manifest.optimizer = reader.at("optimizer", &Json::is_string, "a text").get<std::string>();
  manifest.model = reader.at("model", &Json::is_object, "an object");
  manifest.control = manifest.optimizer.empty() ? Json() : reader.at("control", &Json::is_object, "an object");
  manifest.made_by = reader.at("made_by", &Json::is_object, "an object");
  for (const auto& [file, record] : reader.at("files", &Json::is_object, "an object").items()) {
    const ManifestReader fields(record, name);
    if (!is_plain_path(file)) reader.fail("files", fmt::format("plain names; '{}' is none", file));
    if (!record.is_object()) reader.fail(file, "an object");
    const std::string xxh3 = fields.at("xxh3", &Json::is_string, "a hash").get<std::string>();
    if (!is_hash(xxh3)) reader.fail(file, "recorded with a hash of 16 digits");
    manifest.files[file] = {static_cast<uint64_t>(fields.number("bytes")), xxh3};
  }
  return manifest;
}

}  // namespace zrt::runtime::checkpoint
