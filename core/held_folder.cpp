#include "core/held_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/file.h"

namespace zrt::core {
HeldFolder::~HeldFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void HeldFolder::hold() {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) throw DataError(fmt::format("{}: cannot be opened: {}", path_.string(), std::strerror(errno)));
  told_ = path_;
}

std::filesystem::path HeldFolder::now() const {
  if (descriptor_ < 0 || names_open(path_, descriptor_)) return path_;
  // The system knows its present name; one that ends in " (deleted)" leads nowhere.
  std::error_code error;
  const auto link = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor_), error);
  if (!error && names_open(link, descriptor_)) return link;
  throw DataError(
      fmt::format("{}: the folder was removed, or moved to another file system, while this run wrote into it; what the "
                  "run computes from here on cannot be kept. Resume from a checkpoint that was saved or moved",
                  path_.string()));
}

std::string HeldFolder::renamed() {
  if (descriptor_ < 0) return "";
  const std::filesystem::path place = now();
  if (place == told_) return "";
  told_ = place;
  return fmt::format("the folder {} is now {}; what this run writes goes there", path_.string(), place.string());
}

void HeldFolder::touch(const char* name) const {
  if (descriptor_ < 0) return;
  const int file = ::openat(descriptor_, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (file < 0) return;
  ::futimens(file, nullptr);
  ::close(file);
}

void HeldFolder::write(const std::string& name, const std::string& text) const {
  write_durably(now() / name, text + "\n");
}

void refuse_special(const std::filesystem::path& path) {
  using std::filesystem::file_type;
  std::error_code error;
  const file_type type = std::filesystem::symlink_status(path, error).type();
  const bool plain = type == file_type::regular || type == file_type::directory || type == file_type::not_found;
  if (error || plain) return;
  throw DataError(fmt::format("{} is a {}, which a run does not write through. Remove it, or choose another folder",
                              path.string(), type == file_type::symlink ? "symbolic link" : "pipe or device"));
}

}  // namespace zrt::core
