// The entry points of libFuzzer for the target that the build names.
#include <cstdint>

#include "tests/fuzz/target.h"

namespace {

const zrt::fuzz::Target& target = zrt::fuzz::ZRT_FUZZ_TARGET;

// In the fuzzer's syntax: a quoted text with \xNN for what is not printable.
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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target.accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
