// A checkpoint's manifest. The input is its text without the hash at its end, which no fuzzer would guess.
#include "runtime/train/checkpoint/manifest.h"

#include <algorithm>
#include <array>

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

// Hostile beginnings and ends of texts, file names above all: blind changes seldom leave the JSON around them whole.
std::string mutate(std::string_view input, uint32_t random, const Change&) {
  constexpr std::array pieces{"../", "/", ".", "a/../", "\\u0000", "\\\\", "//", "\\u002e./"};
  const auto quotes = static_cast<uint32_t>(std::count(input.begin(), input.end(), '"'));
  if (quotes == 0) return "";
  size_t at = 0;
  for (uint32_t skip = random % quotes + 1; skip > 0; --skip) at = input.find('"', at) + 1;
  const size_t before = random / quotes % 4 == 0 ? 1 : 0;
  std::string changed(input);
  return changed.insert(at - before, pieces[random / quotes / 4 % pieces.size()]);
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
                       "[]"},
                      mutate};

}  // namespace zrt::fuzz
