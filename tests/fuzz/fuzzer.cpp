// The entry points of libFuzzer for the target that the build names.
#include <algorithm>
#include <cstdint>

#include "tests/fuzz/target.h"

namespace {

const zrt::fuzz::Target& target = zrt::fuzz::ZRT_FUZZ_TARGET;

// Returns the token in the fuzzer's syntax: a quoted text with \xNN for what is not printable.
std::string quoted(const std::string& token) {
  std::string text = "\"";
  for (const char c : token) {
    char code[5];
    std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    text += plain ? std::string(1, c) : code;
  }
  return text + "\"\n";
}

}  // namespace

// With ZRT_FUZZ_SEEDS=DIR writes the starting inputs to DIR and the dictionary to DIR.dict, and does nothing else.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* seeds = std::getenv("ZRT_FUZZ_SEEDS");
  if (seeds == nullptr) return 0;
  const std::filesystem::path out = seeds;
  std::filesystem::create_directories(out);
  for (const auto& [name, bytes] : target.seeds()) zrt::fuzz::write(out / name, bytes);
  std::string dictionary;
  for (const std::string& token : target.dictionary) dictionary += quoted(token);
  zrt::fuzz::write(out.string() + ".dict", dictionary);
  std::exit(0);
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);  // libFuzzer's own changes

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned random) {
  if (target.mutate == nullptr || random % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  const auto change = [](std::string_view part) {
    std::string changed(part.size() + 64, '\0');
    std::copy(part.begin(), part.end(), changed.begin());
    changed.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(changed.data()), part.size(), changed.size()));
    return changed;
  };
  const std::string changed = target.mutate({reinterpret_cast<const char*>(data), size}, random / 4, change);
  if (changed.empty() || changed.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target.accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
