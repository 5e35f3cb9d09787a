#include "offload/scratch_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <thread>

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

TEST_CASE("the file is the owner's alone, has all its space, and is removed at the end") {
  const TemporaryFolder folder;
  const auto path = folder.path / "file";
  const mode_t mask = umask(0);
  {
    const ScratchFile file(path, 8 * mib, no_warning);
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    CHECK(status.st_size == 8 * mib);
    CHECK(static_cast<uint64_t>(status.st_blocks) * 512 >= 8 * mib);
    CHECK((::fcntl(file.descriptor(), F_GETFL) & O_DIRECT) != 0);
  }
  umask(mask);
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a file of a run that lives is refused and stays as it is") {
  const TemporaryFolder folder;
  const auto path = folder.path / "file";
  const ScratchFile file(path, mib, no_warning);
  const std::string text = making(path);
  INFO(text);
  CHECK(contains(text, path.string() + ": another run that is still alive"));
  file.check();
}

TEST_CASE("what a killed run left is replaced") {
  const TemporaryFolder folder;
  const auto path = folder.path / "file";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ScratchFile file(path, mib, [](const std::string&) {});
    const bool written = ::write(ready[1], "x", 1) == 1;
    if (written) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(contains(making(path), "still alive"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  REQUIRE(std::filesystem::file_size(path) == mib);
  {
    const ScratchFile file(path, 2 * mib, no_warning);
    CHECK(std::filesystem::file_size(path) == 2 * mib);
    file.check();
  }
  CHECK(std::filesystem::is_empty(folder.path));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("of many that want the same file at once, one has it at any time") {
  const TemporaryFolder folder;
  const auto path = folder.path / "file";
  std::atomic<int> owners{0}, had{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        try {
          const ScratchFile file(path, 4 * kib, [](const std::string&) {});
          wrong += ++owners != 1;
          file.check();
          ++had;
          --owners;
        } catch (const zrt::core::DataError& error) {
          wrong += !contains(error.what(), "still alive");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(had > 0);
  CHECK(std::filesystem::is_empty(folder.path));
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

TEST_CASE("a file system without locks is refused, for nobody could tell whose a file is") {
  const TemporaryFolder folder;
  with_refused({SYS_flock, ENOLCK}, [&] {
    CHECK(contains(making(folder.path / "file"), "cannot be locked: No locks available"));
    CHECK(std::filesystem::is_empty(folder.path));
    std::ofstream(folder.path / "file") << "of somebody";
    CHECK(contains(making(folder.path / "file"), "is in the way and cannot be locked"));
    CHECK(std::filesystem::file_size(folder.path / "file") == 11);
  });
}

TEST_CASE("what is no regular file is left alone, and so is a file that took the name") {
  const TemporaryFolder folder;
  const auto path = folder.path / "file";
  std::ofstream(folder.path / "target") << "precious";
  std::filesystem::create_symlink("target", path);
  CHECK(contains(making(path), "is in the way"));
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(contains(making(path), "is in the way and is not a regular file"));
  std::filesystem::remove(path);
  {
    const ScratchFile file(path, mib, no_warning);
    std::filesystem::rename(folder.path / "target", path);
    CHECK(contains(message_of([&] { file.check(); }), "was deleted"));
  }
  CHECK(std::filesystem::file_size(path) == 8);
}

}  // namespace zrt::scratch_file_test
