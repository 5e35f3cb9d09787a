#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

// The folder lies in memory where the system has such a one: a fuzzer writes its files thousands of times a second.
struct Folder {
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool there = access(memory.c_str(), W_OK) == 0;
    std::string name = ((there ? memory : std::filesystem::temp_directory_path()) / "zrt_fuzz_XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "a folder for files can be made");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

}  // namespace

const std::filesystem::path& folder() {
  static const Folder folder;
  return folder.path;
}

void write(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  require(!out.fail(), "a file for the reader can be written");
}

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace zrt::fuzz
