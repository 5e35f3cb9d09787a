// A run ends when the file that holds its states is damaged: with the file's name and what is wrong, before anything
// that was computed from it is kept. It goes on from its checkpoint to the same bits.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "tests/nameless_file.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::nvme_faults_test {

using namespace zrt;
using namespace zrt::testing;
namespace fs = std::filesystem;

namespace {

constexpr int ranks = 3;

Setting on_nvme(int stage) {
  Setting s;
  s.ranks = ranks, s.stage = stage;
  s.compute = core::DType::bf16;
  s.accumulation = 2;
  s.unit_elements = 300;
  s.overlap = stage > 1;
  s.placement = [](const runtime::Layout& layout) {
    using core::Tier;
    return uniform(layout, Tier::nvme, Tier::nvme, Tier::nvme, Tier::nvme, Tier::nvme, Tier::host);
  };
  return s;
}

models::Model toy() {
  return make_toy(3, 12, 17, 5, false, false);
}

// A byte in each block of the file becomes another.
void flip(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDWR);
  REQUIRE(file >= 0);
  for (off_t at = 100; at < static_cast<off_t>(fs::file_size(path)); at += 4096) {
    char byte = 0;
    REQUIRE(::pread(file, &byte, 1, at) == 1);
    byte = static_cast<char>(byte ^ 4);
    REQUIRE(::pwrite(file, &byte, 1, at) == 1);
  }
  ::close(file);
}

// Acts like a system that makes the disk read-only: the run's own descriptor takes no writes from now on.
void make_read_only(const fs::path& path) {
  const int read_only = ::open(path.c_str(), O_RDONLY | O_DIRECT);
  REQUIRE(read_only >= 0);
  REQUIRE(::dup2(read_only, std::stoi(path.filename())) >= 0);
  ::close(read_only);
}

struct Damage {
  std::string name;
  std::function<void(const fs::path&)> make;
  std::string told;
};

std::vector<Damage> damages() {
  return {{"truncated", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }, "was truncated"},
          {"flipped", flip, "is not what was written"},
          {"read-only", make_read_only, "cannot be written"}};
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// Why a run that keeps its states in `folder` cannot begin; "" if it can.
std::string refusal(const runtime::Compiled& compiled, const fs::path& folder) {
  runtime::SessionOptions options = session_options(on_nvme(3));
  options.nvme_path = folder.string();
  try {
    const runtime::Session session(compiled, options, {});
  } catch (const core::DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A run whose NVMe file is damaged ends with its name and goes on from the checkpoint to the same bits") {
  const models::Model model = toy();
  for (int stage : {1, 3}) {
    const Setting s = on_nvme(stage);
    std::string saved, expected;
    {
      const TemporaryFolder folder;
      SavingRun whole(model, s, folder.path, false);
      whole.steps(2);
      saved = whole.hash();
      whole.steps(2);
      expected = whole.hash();
    }
    unsigned number = 0;
    for (const Damage& damage : damages()) {
      for (const bool in_step : {false, true}) {
        INFO(damage.name << ", stage " << stage << (in_step ? ", while a step runs" : ", between steps"));
        const TemporaryFolder folder;
        const int victim = static_cast<int>(number++ % ranks);
        {
          Setting damaged = s;
          damaged.timeout = std::chrono::hours(24);  // whoever waited for the failed rank would hang
          SavingRun* running = nullptr;
          bool due = false;
          damaged.on_batch = [&](int rank, uint32_t, uint32_t microbatch) {
            if (due && rank == victim && microbatch == 1)
              damage.make(way_into(running->session().file(victim)->path()));
          };
          SavingRun run(model, damaged, folder.path, false);
          running = &run;
          run.steps(2);
          run.save();
          REQUIRE(run.saved().error.empty());
          due = in_step;
          if (!in_step) damage.make(way_into(run.session().file(victim)->path()));
          std::string told;
          try {
            run.steps(1);
          } catch (const core::DataError& error) {
            told = error.what();
          }
          INFO(told);
          CHECK(told.find("rank-" + std::to_string(victim) + ".zrt") != std::string::npos);
          CHECK(told.find(damage.told) != std::string::npos);
          // Nobody is given what the step left.
          CHECK_THROWS_AS(run.hash(), core::Error);
          CHECK_THROWS_AS(run.steps(1), core::Error);
        }
        CHECK(files_in(folder.path) == std::set<std::string>{"latest", "step_2"});
        const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
        SavingRun again(model, s, folder.path / "again", false, &reader);
        CHECK(again.hash() == saved);
        again.steps(2);
        CHECK(again.hash() == expected);
      }
    }
  }
}

TEST_CASE("A save that reads a damaged file is not committed and says which file") {
  const models::Model model = toy();
  const TemporaryFolder folder;
  SavingRun run(model, on_nvme(3), folder.path, false);
  run.steps(1);
  run.save();
  REQUIRE(run.saved().error.empty());
  run.steps(1);
  flip(way_into(run.session().file(1)->path()));
  run.save();
  CHECK(run.saved().error.find("rank-1.zrt") != std::string::npos);
  CHECK(run.saved().error.find("is not what was written") != std::string::npos);
  CHECK(files_in(folder.path) == std::set<std::string>{"latest", "step_1"});
}

TEST_CASE("A slow file slows a run down and changes nothing else") {
  const models::Model model = toy();
  const TemporaryFolder folder;
  Setting s = on_nvme(3);
  SavingRun fast(model, s, folder.path / "fast", false);
  fast.steps(2);
  constexpr double rate = 4 << 20;
  s.nvme_bytes_per_second = rate;
  SavingRun slow(model, s, folder.path / "slow", false);
  const auto begin = std::chrono::steady_clock::now();
  slow.steps(2);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  const runtime::Moved& moved = slow.session().executor(0).moved_bytes();
  CHECK(taken.count() > static_cast<double>(moved.read + moved.written) / rate / 2);
  CHECK(slow.hash() == fast.hash());
  slow.save();
  CHECK(slow.saved().error.empty());
}

TEST_CASE("A run whose file finds no room or no folder ends before it begins and leaves nothing") {
  const models::Model model = toy();
  const TemporaryFolder folder;
  const runtime::Layout layout = make_layout(model, on_nvme(3));
  runtime::Compiled compiled = runtime::compile(layout, {"init", "step"});
  CHECK(refusal(compiled, folder.path).empty());
  CHECK(files_in(folder.path).empty());
  {
    runtime::SessionOptions options = session_options(on_nvme(3));
    options.nvme_path = folder.path.string();
    const runtime::Session first(compiled, options, {});
    CHECK(refusal(compiled, folder.path).empty());  // each has a file of its own
    CHECK(files_in(folder.path).empty());
  }
  const std::string missing = refusal(compiled, folder.path / "nothing");
  CHECK(missing.find("rank-") != std::string::npos);
  CHECK(missing.find("No such file") != std::string::npos);
  constexpr uint64_t too_much = uint64_t{1} << 56;
  compiled.set.arena_bytes[static_cast<size_t>(core::Tier::nvme)] = too_much;
  const std::string full = refusal(compiled, folder.path);
  CHECK(full.find(folder.path.string()) != std::string::npos);
  CHECK(full.find(std::to_string(too_much)) != std::string::npos);
  CHECK(full.find("are free") != std::string::npos);
  CHECK(files_in(folder.path).empty());
}

}  // namespace zrt::nvme_faults_test
