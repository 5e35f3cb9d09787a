// A checkpoint's manifest. The input is its text without the hash at its end, which no fuzzer would guess.
#include "runtime/checkpoint/manifest.h"

#include "core/error.h"
#include "core/hash.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

using runtime::checkpoint::format_manifest;
using runtime::checkpoint::Manifest;
using runtime::checkpoint::parse_manifest;

constexpr std::string_view seal = "\n,\"xxh3\":\"";

std::string sealed(std::string_view body) {
  core::Hash hash;
  hash.update(body.data(), body.size());
  return std::string(body) + std::string(seal) + hash.hex() + "\"}\n";
}

bool accepts(std::string_view input) {
  try {
    parse_manifest(std::string(input), "fuzz");
    require(false, "a manifest without its hash is refused");
  } catch (const core::DataError&) {
  }
  try {
    const Manifest manifest = parse_manifest(sealed(input), "fuzz");
    for (const auto& [name, file] : manifest.files) {
      const std::filesystem::path path(name);
      require(path.is_relative(), "files lie below the checkpoint");
      for (const auto& part : path) require(part != "..", "files lie below the checkpoint");
    }
    const std::string text = format_manifest(manifest);
    require(format_manifest(parse_manifest(text, "again")) == text,
            "what was read, written and read again is the same");
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

std::map<std::string, std::string> seeds() {
  Manifest manifest;
  manifest.step = 12, manifest.samples = 192, manifest.optimizer = "AdamW";
  manifest.model = {{"type", "gpt2"}, {"layers", 2}};
  manifest.control = {{"loss_scale", 65536.0}, {"skipped", 1}};
  manifest.made_by = {{"ranks", 4}, {"stage", 3}};
  manifest.files["model.safetensors"] = {1024, "0123456789abcdef"};
  manifest.files["optimizer/shard-1.safetensors"] = {2048, "fedcba9876543210"};
  Manifest weights = manifest;
  weights.optimizer.clear();
  weights.control = nullptr;
  std::map<std::string, std::string> seeds{{"full", format_manifest(manifest)}, {"weights", format_manifest(weights)}};
  for (auto& [name, text] : seeds) text.resize(text.rfind(seal));
  return seeds;
}

}  // namespace

const Target manifest{"manifest",
                      accepts,
                      seeds,
                      {"\"format\": \"zrt checkpoint\"",
                       "\"version\": 1",
                       "\"step\"",
                       "\"samples\"",
                       "\"optimizer\"",
                       "\"model\"",
                       "\"control\"",
                       "\"made_by\"",
                       "\"algorithm\"",
                       "\"files\"",
                       "\"bytes\"",
                       "\"xxh3\": \"0123456789abcdef\"",
                       "../",
                       "/",
                       ".",
                       "\\u0000",
                       "9007199254740993",
                       "-1",
                       "null",
                       "{}",
                       "[]"}};

}  // namespace zrt::fuzz
