// Layout of a Megatron indexed dataset: PREFIX.bin holds token arrays back to back, PREFIX.idx says where they are.
// Everything is little-endian, unaligned, without padding:
//
//   .idx  0  magic "MMIDIDX\0\0"
//         9  u64 version 1
//        17  u8  token type
//        18  u64 N, sequences
//        26  u64 D, documents + 1
//        34  i32[N] lengths in tokens; i64[N] byte offsets into .bin; i64[D] first sequence of each document, then N
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace zrt::runtime::data {

static_assert(std::endian::native == std::endian::little, "dataset files are read and written as they lie in memory");

// Codes of the integer types; 6 and 7 are floating point and never hold tokens.
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

inline constexpr size_t magic_bytes = 9, header_bytes = 34;
inline constexpr char magic[magic_bytes] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
inline constexpr uint64_t format_version = 1;

inline constexpr int64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
      return 4;
    case TokenType::i64:
      return 8;
  }
  return 0;
}

inline std::string bin_path(const std::string& prefix) {
  return prefix + ".bin";
}
inline std::string idx_path(const std::string& prefix) {
  return prefix + ".idx";
}
// The pair that says which tokens of PREFIX count: the same documents, a byte for each token, 1 or 0.
inline std::string counts_prefix(const std::string& prefix) {
  return prefix + ".counts";
}
inline std::string meta_path(const std::string& prefix) {
  return prefix + ".meta.json";
}

// Element `index` of an unaligned array.
template <class T>
T load(const std::byte* array, int64_t index = 0) {
  T value;
  std::memcpy(&value, array + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

}  // namespace zrt::runtime::data
