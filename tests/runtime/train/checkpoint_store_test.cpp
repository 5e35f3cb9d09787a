// A folder of checkpoints: which one is taken, what is told of the others, and which go.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "catch.h"
#include "core/error.h"
#include "core/file.h"
#include "runtime/train/checkpoint/shard.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/checkpoint/tensor_set.h"
#include "temporary_folder.h"
#include "tests/runtime/train/small_checkpoint.h"

namespace zrt::checkpoint_store_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
namespace fs = std::filesystem;
using namespace zrt::small_checkpoint;

TEST_CASE("The newest checkpoint that is whole is chosen, and why newer ones are not is told") {
  const testing::TemporaryFolder folder;
  make_checkpoint(folder.path, 10, 2);
  make_checkpoint(folder.path, 20, 2);
  make_checkpoint(folder.path, 30, 2);
  std::vector<std::string> why;
  const auto newest = [&] { return newest_valid(folder.path, [&](const std::string& text) { why.push_back(text); }); };
  CHECK(newest()->step == 30);
  fs::resize_file(weight_files(folder.path / "step_30").front(), 100);
  fs::remove(folder.path / "step_20" / manifest_name);
  CHECK(newest()->step == 10);
  REQUIRE(why.size() == 2);
  CHECK(why[0].find("truncated") != std::string::npos);
  CHECK(why[1].find("manifest.json") != std::string::npos);
  CHECK(find_checkpoint(folder.path) == folder.path / "step_10");
  fs::remove_all(folder.path / "step_10");
  CHECK(!newest());
  CHECK(message([&] { find_checkpoint(folder.path); }).find("truncated") != std::string::npos);
}

TEST_CASE("A checkpoint whose name is almost that of a step is told of and not taken for whole") {
  for (const char* name : {"step_020", "STEP_20", "step_ 20", "step_-1", "step_18446744073709551636", "Step20"}) {
    CAPTURE(name);
    const testing::TemporaryFolder folder;
    make_checkpoint(folder.path, 10, 1);
    make_checkpoint(folder.path, 20, 1);
    fs::rename(folder.path / "step_20", folder.path / name);
    std::vector<std::string> why;
    CHECK(newest_valid(folder.path, [&](const std::string& text) { why.push_back(text); })->step == 10);
    REQUIRE(why.size() == 1);
    CHECK(why[0].find("give the folder its own name back, step_20") != std::string::npos);
    CHECK(misnamed_checkpoints(folder.path) == std::vector{folder.path / name});
    CHECK(message([&] { find_checkpoint(folder.path / name); }).find("its own name back") != std::string::npos);
  }
  // Others keep copies by names of their own.
  for (const char* name : {"step_20.bak", ".step_20.tmp", "best", "step_20x"}) {
    CAPTURE(name);
    const testing::TemporaryFolder folder;
    make_checkpoint(folder.path, 20, 1);
    fs::rename(folder.path / "step_20", folder.path / name);
    CHECK(misnamed_checkpoints(folder.path).empty());
    CHECK(find_checkpoint(folder.path / name) == folder.path / name);
  }
}

TEST_CASE("A checkpoint that vanishes while others are read is not told as broken, and newer ones are found") {
  const testing::TemporaryFolder folder;
  for (const int64_t step : {10, 20, 30}) make_checkpoint(folder.path, step, 1);
  fs::resize_file(weight_files(folder.path / "step_30").front(), 100);
  std::vector<std::string> why;
  const auto newest = newest_valid(folder.path, [&](const std::string& text) {
    why.push_back(text);
    if (why.size() > 1) return;
    fs::remove_all(folder.path / "step_20");
    fs::remove_all(folder.path / "step_10");
    make_checkpoint(folder.path, 40, 1);
  });
  REQUIRE(newest);
  CHECK(newest->step == 40);
  REQUIRE(why.size() == 1);
  CHECK(why[0].find("step_30") != std::string::npos);
}

TEST_CASE("A checkpoint is not made in a folder that is gone, nor through a link") {
  const testing::TemporaryFolder folder;
  CHECK(message([&] { begin_checkpoint(folder.path / "gone/checkpoints", 1); }).find("cannot be made") !=
        std::string::npos);
  CHECK(fs::is_empty(folder.path));
  fs::create_directories(folder.path / "elsewhere");
  fs::create_directory_symlink("elsewhere", folder.path / "store");
  CHECK(message([&] { begin_checkpoint(folder.path / "store", 1); }).find("is a symbolic link") != std::string::npos);
  CHECK(fs::is_empty(folder.path / "elsewhere"));
}

TEST_CASE("A checkpoint that is named is read whole before it is taken: one changed bit is refused with the file") {
  const testing::TemporaryFolder folder;
  const fs::path checkpoint = make_checkpoint(folder.path, 10, 2);
  CHECK(find_checkpoint(checkpoint) == checkpoint);
  for (const fs::path& folder_of_files : {checkpoint, checkpoint / "optimizer"}) {
    const fs::path file = weight_files(folder_of_files).front();
    const std::string whole = slurp(file);
    std::string changed = whole;
    changed.back() = static_cast<char>(changed.back() ^ 1);
    spill(file, changed);
    const std::string error = message([&] { find_checkpoint(checkpoint); });
    CHECK(error.find(file.string()) != std::string::npos);
    CHECK(error.find("it is corrupt") != std::string::npos);
    spill(file, whole);
  }
  CHECK(find_checkpoint(checkpoint) == checkpoint);
}

TEST_CASE("A stale or hostile `latest` changes nothing: it is a hint for people") {
  const testing::TemporaryFolder folder;
  make_checkpoint(folder.path, 10, 1);
  CHECK(slurp(folder.path / "latest") == "step_10\n");
  for (const std::string& text : {std::string("step_99\n"), std::string("../../etc"), std::string(1 << 20, 'x')}) {
    spill(folder.path / "latest", text);
    CHECK(newest_valid(folder.path, [](const std::string&) {})->step == 10);
  }
}

TEST_CASE("A checkpoint of the same step is replaced as a whole") {
  const testing::TemporaryFolder folder;
  make_checkpoint(folder.path, 10, 2, 0);
  const fs::path checkpoint = make_checkpoint(folder.path, 10, 3, 500);
  CHECK(verify_checkpoint(checkpoint).made_by["ranks"] == 3);
  std::vector<float> value(1);
  TensorSet(checkpoint, weight_files(checkpoint)).read("b.bias", 0, value);
  CHECK(value[0] == 500);
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);  // step_10 and latest
}

TEST_CASE("Old checkpoints go, the newest ones and the milestones stay, leftovers of a dead run go") {
  const testing::TemporaryFolder folder;
  for (int64_t step = 1; step <= 9; ++step) make_checkpoint(folder.path, step, 1);
  prune_checkpoints(folder.path, 9, 2, 4);
  std::vector<int64_t> left;
  for (const Stored& stored : list_checkpoints(folder.path)) left.push_back(stored.step);
  CHECK(left == std::vector<int64_t>{9, 8, 4});
  begin_checkpoint(folder.path, 10);
  fs::create_directories(folder.path / "step_x");
  fs::create_directories(folder.path / "step_007");
  remove_leftovers(folder.path);
  CHECK(!fs::exists(folder.path / ".step_10.tmp"));
  CHECK(list_checkpoints(folder.path).size() == 3);
  CHECK(fs::exists(folder.path / "step_x"));
}

TEST_CASE("A run that went back behind broken checkpoints keeps what it saves") {
  const testing::TemporaryFolder folder;
  for (int64_t step : {4, 5, 6, 7, 20, 30}) make_checkpoint(folder.path, step, 1);
  for (const char* broken : {"step_20", "step_30"}) {
    fs::resize_file(weight_files(folder.path / broken).front(), 100);
  }
  prune_checkpoints(folder.path, 7, 2, 0);
  std::vector<int64_t> left;
  for (const Stored& stored : list_checkpoints(folder.path)) left.push_back(stored.step);
  CHECK(left == std::vector<int64_t>{30, 20, 7, 6});
  CHECK(newest_valid(folder.path, [](const std::string&) {})->step == 7);
}

TEST_CASE("A folder of checkpoints that cannot be read is not taken for an empty one") {
  const testing::TemporaryFolder folder;
  CHECK(list_checkpoints(folder.path / "none").empty());
  // Root reads everything, but nobody follows a link in a circle.
  fs::create_symlink("circle", folder.path / "circle");
  CHECK(message([&] { list_checkpoints(folder.path / "circle"); }).find("cannot be listed") != std::string::npos);
}

TEST_CASE("A missing shard, or one of another checkpoint, is seen before a tensor is read") {
  const testing::TemporaryFolder folder;
  const fs::path checkpoint = make_checkpoint(folder.path, 1, 3);
  auto files = weight_files(checkpoint);
  std::sort(files.begin(), files.end());
  auto fewer = files;
  fewer.erase(fewer.begin());
  CHECK(message([&] { TensorSet(checkpoint, fewer); }).find("add up") != std::string::npos);
  auto twice = files;
  twice[1] = twice[0];
  CHECK(!message([&] { TensorSet(checkpoint, twice); }).empty());
}

}  // namespace zrt::checkpoint_store_test
