#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "comm/cpu/stream_copy.h"

namespace zrt::comm {

void stream_copy(void* to, const void* from, size_t bytes) {
  constexpr size_t line = 64;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const size_t head = std::min(bytes, (line - reinterpret_cast<uintptr_t>(target) % line) % line);
  std::memcpy(target, source, head);
  size_t i = head;
  for (; i + line <= bytes; i += line) {  // whole lines only: partial ones would be written twice
    for (size_t part = 0; part < line; part += sizeof(__m128i)) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(target + i + part), value);
    }
  }
  std::memcpy(target + i, source + i, bytes - i);
  _mm_sfence();  // streaming stores are not ordered by a mutex alone
}

}  // namespace zrt::comm
