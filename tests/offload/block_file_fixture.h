// A BlockFile in a folder of its own, memory for it, and another program's way into the file.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "core/philox.h"
#include "nameless_file.h"
#include "offload/block_file.h"
#include "temporary_folder.h"

namespace zrt::testing {

inline constexpr uint64_t kib = 1024, mib = 1024 * kib;

struct AlignedBytes {
  explicit AlignedBytes(uint64_t bytes)
      : size(bytes), data(static_cast<std::byte*>(std::aligned_alloc(offload::block_alignment, bytes)), &std::free) {}
  uint64_t size;
  std::unique_ptr<std::byte, void (*)(void*)> data;
  std::byte* get() const { return data.get(); }
  void fill(uint32_t seed) const {
    for (uint64_t at = 0; at < size; at += 16) {
      const auto words = core::philox({1, seed, 0}, at / 16);
      std::memcpy(get() + at, words.data(), 16);
    }
  }
  bool equals(const AlignedBytes& other) const { return std::memcmp(get(), other.get(), size) == 0; }
};

struct Warnings {
  std::vector<std::string> texts;
  std::function<void(const std::string&)> take() {
    return [this](const std::string& text) { texts.push_back(text); };
  }
};

inline offload::BlockFileOptions options_for(const TemporaryFolder& folder, uint64_t bytes) {
  offload::BlockFileOptions options;
  options.folder = folder.path;
  options.bytes = bytes;
  return options;
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const core::DataError& error) {
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline void flip_bit(const std::filesystem::path& file, uint64_t at) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  char byte = 0;
  REQUIRE(::pread(descriptor, &byte, 1, static_cast<off_t>(at)) == 1);
  byte = static_cast<char>(byte ^ 4);
  REQUIRE(::pwrite(descriptor, &byte, 1, static_cast<off_t>(at)) == 1);
  REQUIRE(::fsync(descriptor) == 0);
  ::close(descriptor);
}

// Of this process, the descriptors whose link in /proc ends so.
inline std::vector<int> descriptors_of(const std::string& end) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.ends_with(end)) found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

}  // namespace zrt::testing
