#include "core/folder_lock.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "catch.h"
#include "core/error.h"
#include "temporary_folder.h"

namespace zrt::core::folder_lock_test {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

TEST_CASE("A second user of a folder is refused at once and told who the first one is") {
  const testing::TemporaryFolder folder;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  {
    const FolderLock lock(folder.path);
    CHECK(lock.held());
    const std::string holder = "process " + std::to_string(getpid()) + " on " + host + " since 20";
    CHECK_THROWS_AS(FolderLock(folder.path), ConfigError);  // whose code ends a supervisor
    CHECK_THROWS_WITH(FolderLock(folder.path),
                      Contains(holder) && Contains(folder.path.string()) && Contains("choose another folder"));
    // The folder is locked by whatever path it is reached.
    fs::create_directory_symlink(folder.path, folder.path / "link");
    CHECK_THROWS_AS(FolderLock(folder.path / "link"), ConfigError);
    fs::remove(folder.path / "link");
  }
  CHECK(FolderLock(folder.path).held());
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("A supervisor keeps its folder from all runs but its own, between these, too") {
  const testing::TemporaryFolder folder;
  const fs::path run = folder.path / "run";
  const std::string holder = "zrt launch, process " + std::to_string(getpid()) + " on ";
  {
    const LaunchLock launch(run);
    CHECK_THROWS_WITH(FolderLock(run), Contains(holder));
    CHECK_THROWS_WITH(LaunchLock(run), Contains(holder));
    {
      const FolderLock own(run, Entry::launched);
      CHECK_THROWS_WITH(FolderLock(run, Entry::launched), Contains("in use by process"));
      CHECK_THROWS_AS(FolderLock(run), ConfigError);
    }
    CHECK(!fs::exists(run / "lock"));
    CHECK_THROWS_WITH(FolderLock(run), Contains(holder));
    CHECK(!fs::exists(run / "lock"));
  }
  {
    const FolderLock free(run);
    CHECK_THROWS_WITH(LaunchLock(run), Contains("in use by process"));
    CHECK(!fs::exists(run / "launch.lock"));
  }
  // One that died leaves a file that keeps nobody out.
  fs::create_directories(run);
  std::ofstream(run / "launch.lock") << "process 1 on nowhere\n";
  { const FolderLock free(run); }
  const LaunchLock again(run);
  CHECK_THROWS_WITH(FolderLock(run), Contains(holder));
}

TEST_CASE("The death of the process that holds a folder lets go of it") {
  const testing::TemporaryFolder folder;
  int locked[2];
  REQUIRE(pipe(locked) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const FolderLock lock(folder.path);
    if (write(locked[1], "x", 1) == 1) pause();
    _exit(1);
  }
  char done;
  REQUIRE(read(locked[0], &done, 1) == 1);
  CHECK_THROWS_WITH(FolderLock(folder.path), Contains("process " + std::to_string(pid) + " on "));
  kill(pid, SIGKILL);
  REQUIRE(waitpid(pid, nullptr, 0) == pid);
  CHECK(fs::exists(folder.path / "lock"));  // which says nothing any more
  {
    const FolderLock lock(folder.path);
    std::ifstream file(folder.path / "lock");
    std::string name;
    std::getline(file, name);
    CHECK_THAT(name, Contains("process " + std::to_string(getpid()) + " on "));
    CHECK(std::string(std::istreambuf_iterator<char>(file), {}).empty());
  }
  close(locked[0]);
  close(locked[1]);
}

TEST_CASE("Of many that want a folder at once one has it at a time, and a folder that was made and not used goes") {
  const testing::TemporaryFolder folder;
  const fs::path run = folder.path / "deep/run", inside = run / "inside";
  constexpr int users = 4, turns = 100;
  for (int user = 0; user < users; ++user) {
    if (fork() > 0) continue;
    for (int had = 0; had < turns;) {
      try {
        const FolderLock lock(run);
        if (!fs::create_directory(inside)) _exit(1);  // another is there
        fs::remove(inside);
        ++had;
      } catch (const ConfigError&) {
      } catch (const DataError&) {  // the folder went between its making and its opening
      }
    }
    _exit(0);
  }
  for (int user = 0; user < users; ++user) {
    int status = 1;
    wait(&status);
    CHECK(status == 0);
  }
  fs::remove_all(folder.path / "deep");  // which one may have made, and another used last
  {
    const FolderLock lock(run), other(folder.path / "used");
    std::ofstream(folder.path / "used/file");
  }
  CHECK_FALSE(fs::exists(folder.path / "deep"));
  CHECK(fs::exists(folder.path / "used/file"));
}

TEST_CASE("A lock of a folder that was renamed leaves no file in it and touches nothing of the name's new owner") {
  const testing::TemporaryFolder folder;
  const fs::path run = folder.path / "run", renamed = folder.path / "renamed";
  {
    const FolderLock lock(run);
    fs::rename(run, renamed);
    fs::create_directories(run);
  }
  CHECK(fs::is_directory(run));
  CHECK(fs::is_empty(renamed));
}

TEST_CASE("A lock's file that somebody removes, empties or replaces lets no second user in, who is told the process") {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path / "lock";
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string holder = "in use by process " + std::to_string(getpid()) + " on " + host;
  {
    const FolderLock lock(folder.path);
    fs::remove(file);
    CHECK_THROWS_WITH(FolderLock(folder.path), Contains(holder));
    CHECK_FALSE(fs::exists(file));  // who is refused leaves nothing
    CHECK_THROWS_WITH(FolderLock(folder.path), Contains(holder));
    std::ofstream(file).close();
    CHECK_THROWS_WITH(FolderLock(folder.path), Contains(holder));
    fs::rename(file, folder.path / "moved");
    std::ofstream(file) << "somebody";
    CHECK_THROWS_WITH(FolderLock(folder.path), Contains("in use by somebody;"));
    fs::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0644) == 0);  // which nobody writes
    CHECK_THROWS_AS(FolderLock(folder.path), ConfigError);
    fs::remove(file);
    fs::create_symlink("nowhere", file);
    CHECK_THROWS_WITH(FolderLock(folder.path), Contains(holder));
  }
  fs::remove(folder.path / "moved");
  CHECK(FolderLock(folder.path).held());
}

TEST_CASE("A lock's file that is a link is refused, and what it leads to stays as it was") {
  const testing::TemporaryFolder folder;
  const fs::path target = folder.path / "precious", run = folder.path / "run";
  std::ofstream(target) << "kept";
  fs::create_directories(run);
  for (const fs::path& to : {target, folder.path / "nowhere"}) {
    fs::create_symlink(to, run / "lock");
    CHECK_THROWS_WITH(FolderLock(run), Contains("cannot be opened"));
    CHECK(fs::is_symlink(run / "lock"));
    fs::remove(run / "lock");
  }
  CHECK_FALSE(fs::exists(folder.path / "nowhere"));
  std::string text;
  std::ifstream(target) >> text;
  CHECK(text == "kept");
}

TEST_CASE("What a lock's file says reaches a message as one line of text") {
  const testing::TemporaryFolder folder;
  const FolderLock lock(folder.path);
  std::ofstream(folder.path / "lock") << "a\x1b[31mb\nc";
  CHECK_THROWS_WITH(FolderLock(folder.path), Contains("in use by a[31mb;"));
}

}  // namespace zrt::core::folder_lock_test
