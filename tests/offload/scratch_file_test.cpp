#include "offload/scratch_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <fstream>

#include "offload/block_file_fixture.h"
#include "offload/refused.h"

namespace zrt::scratch_file_test {

using namespace zrt::testing;
using zrt::offload::ScratchFile;

namespace {

std::string making(const std::filesystem::path& path, uint64_t bytes = mib) {
  return message_of([&] { ScratchFile file(path, bytes, [](const std::string&) {}); });
}

void no_warning(const std::string& text) {
  FAIL_CHECK(text);
}

}  // namespace

TEST_CASE("the file is the owner's alone, has all its space, and has no name") {
  const TemporaryFolder folder;
  const auto path = folder.path / "file";
  const mode_t mask = umask(0);
  const ScratchFile file(path, 8 * mib, no_warning);
  umask(mask);
  struct stat status {};
  REQUIRE(::fstat(file.descriptor(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(status.st_nlink == 0);
  CHECK(status.st_size == 8 * mib);
  CHECK(static_cast<uint64_t>(status.st_blocks) * 512 >= 8 * mib);
  CHECK((::fcntl(file.descriptor(), F_GETFL) & O_DIRECT) != 0);
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("runs that live at once have files of their own in one folder") {
  const TemporaryFolder folder;
  const auto path = folder.path / "file";
  const ScratchFile first(path, 4 * kib, no_warning), second(path, 4 * kib, no_warning);
  const char one = 1, two = 2;
  char read = 0;
  ::fcntl(first.descriptor(), F_SETFL, 0);  // a byte at a time
  ::fcntl(second.descriptor(), F_SETFL, 0);
  REQUIRE(::pwrite(first.descriptor(), &one, 1, 0) == 1);
  REQUIRE(::pwrite(second.descriptor(), &two, 1, 0) == 1);
  REQUIRE(::pread(first.descriptor(), &read, 1, 0) == 1);
  CHECK(read == one);
}

TEST_CASE("a killed run leaves nothing, and its space is free again") {
  const TemporaryFolder folder;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ScratchFile file(folder.path / "file", mib, [](const std::string&) {});
    const bool written = ::write(ready[1], "x", 1) == 1;
    if (written) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(std::filesystem::is_empty(folder.path));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("a disk without room is told before anything is taken, with what is needed and free") {
  const TemporaryFolder folder;
  const std::string text = making(folder.path / "file", uint64_t{1} << 50);
  INFO(text);
  CHECK(contains(text, folder.path.string() + ": file needs 1125899906842624 bytes ("));
  CHECK(contains(text, "are free; make room, choose a folder on a larger disk"));
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("room that others take meanwhile, and a limit on files, leave no file") {
  const TemporaryFolder folder;
  with_refused({SYS_fallocate, ENOSPC}, [&] {
    const std::string text = making(folder.path / "file");
    INFO(text);
    CHECK(contains(text, "1048576 bytes (1.00 MiB) cannot be taken: No space left on device; "));
    CHECK(contains(text, "are free in " + folder.path.string() + "; make room"));
  });
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{512 * kib, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  const std::string text = making(folder.path / "file");
  setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  INFO(text);
  CHECK(contains(text, "File too large"));
  CHECK(contains(text, "ulimit -f"));
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a folder that is not there or must not be written is told") {
  const TemporaryFolder folder;
  const auto missing = folder.path / "missing" / "file";
  CHECK(making(missing) == missing.string() + ": cannot be created: No such file or directory");
  const auto closed = folder.path / "closed";
  std::filesystem::create_directory(closed);
  std::filesystem::permissions(closed, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  on_thread([&] {
    drop_capability(CAP_DAC_OVERRIDE);
    CHECK(making(closed / "file") == (closed / "file").string() + ": cannot be created: Permission denied");
  });
  with_refused({SYS_openat, EROFS, 2, O_CREAT},
               [&] { CHECK(contains(making(folder.path / "file"), "cannot be created: Read-only file system")); });
}

TEST_CASE("what has the file's name in messages is left alone") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "file") << "precious";
  { const ScratchFile file(folder.path / "file", mib, no_warning); }
  CHECK(std::filesystem::file_size(folder.path / "file") == 8);
}

TEST_CASE("a name that cannot be removed is an error: the file would stay behind") {
  const TemporaryFolder folder;
  with_refused({SYS_unlink, EROFS}, [&] {
    CHECK(contains(making(folder.path / "file"), "its name cannot be removed: Read-only file system"));
  });
}

}  // namespace zrt::scratch_file_test
