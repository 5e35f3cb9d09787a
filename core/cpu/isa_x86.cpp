#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "core/isa.h"

namespace zrt::core {
namespace {

struct CpuidWords {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

// Zeros where the processor does not know the leaf.
CpuidWords cpuid(unsigned leaf, unsigned part = 0) {
  CpuidWords words;
  if (!__get_cpuid_count(leaf, part, &words.a, &words.b, &words.c, &words.d)) return {};
  return words;
}

bool has_bit(unsigned word, int index) {
  return (word >> index & 1) != 0;
}

std::string processor_name() {
  std::string name;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const CpuidWords words = cpuid(leaf);
    char text[16];
    std::memcpy(text, &words, sizeof(text));
    name.append(text, strnlen(text, sizeof(text)));
  }
  const size_t begin = name.find_first_not_of(' ');
  return begin == std::string::npos ? "of unknown name" : name.substr(begin, name.find_last_not_of(' ') - begin + 1);
}

// Returns which registers the system saves: bits 1 and 2 are SSE and AVX, 5 to 7 AVX-512, 17 and 18 AMX.
uint64_t saved_registers() {
  if (!has_bit(cpuid(1).c, 27)) return 0;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

// Linux gives AMX's tile registers only to a process that asks.
bool tiles_granted() {
#if defined(__linux__)
  constexpr int ask_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, ask_permission, tile_data) == 0;
#else
  return false;
#endif
}

Processor read_processor() {
  Processor processor{processor_name(), {}};
  const CpuidWords first = cpuid(1), seventh = cpuid(7), seventh_more = cpuid(7, 1), extended = cpuid(0x80000001);
  const auto add = [&](std::string_view name, unsigned word, int index) {
    if (has_bit(word, index)) processor.features.insert(name);
  };
  add("movbe", first.c, 22);
  add("lzcnt", extended.c, 5);
  add("bmi1", seventh.b, 3);
  add("bmi2", seventh.b, 8);
  const uint64_t saved = saved_registers();
  if ((saved & 0x6) != 0x6) return processor;
  add("fma", first.c, 12);
  add("f16c", first.c, 29);
  add("avx2", seventh.b, 5);
  if ((saved & 0xe6) != 0xe6) return processor;
  add("avx512f", seventh.b, 16);
  add("avx512dq", seventh.b, 17);
  add("avx512cd", seventh.b, 28);
  add("avx512bw", seventh.b, 30);
  add("avx512vl", seventh.b, 31);
  add("avx512_vnni", seventh.c, 11);
  add("avx512_bf16", seventh_more.a, 5);
  if ((saved & 0x60000) != 0x60000 || !has_bit(seventh.d, 24) || !tiles_granted()) return processor;
  add("amx_tile", seventh.d, 24);
  add("amx_bf16", seventh.d, 22);
  add("amx_int8", seventh.d, 25);
  return processor;
}

}  // namespace

Isa detected_isa() {
  static const Isa level = isa_of(read_processor());
  return level;
}

}  // namespace zrt::core
