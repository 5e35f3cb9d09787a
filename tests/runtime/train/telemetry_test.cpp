// A run writes event files, CSV files and its own lines step by step, and says what its process holds.
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "runtime/config/config.h"
#include "runtime/train/telemetry/csv_monitor.h"
#include "runtime/train/telemetry/event_file.h"
#include "runtime/train/telemetry/process_memory.h"
#include "runtime/train/telemetry/records.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::telemetry_test {

using namespace zrt;
using namespace zrt::runtime;

namespace {

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

size_t records_in(const std::string& bytes) {
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); ++count) {
    uint64_t length = 0;
    REQUIRE(at + 16 <= bytes.size());
    std::memcpy(&length, bytes.data() + at, 8);
    REQUIRE(at + 16 + length <= bytes.size());
    CHECK(bytes.compare(at, 16 + length, event_record(bytes.substr(at + 12, length))) == 0);
    at += 16 + length;
  }
  return count;
}

StepMetrics metrics(int64_t step, double loss) {
  StepMetrics m;
  m.step = step, m.loss = loss, m.grad_norm = 2, m.lr = 0.5, m.tokens = 100, m.step_seconds = 0.25;
  return m;
}

Config config(const std::filesystem::path& folder) {
  Config config;
  config.tensorboard = {true, (folder / "board").string(), "job"};
  config.csv_monitor = {true, (folder / "csv").string(), "job"};
  return config;
}

}  // namespace

TEST_CASE("The checksum is CRC-32C") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
}

TEST_CASE("Events are the bytes that TensorBoard's own writer makes of them") {
  std::string text;
  for (int i = 0; i < 70; ++i) text += "é";
  const std::vector<Scalar> scalars{{"Train/Samples/lr", 3e-4}, {"Train/Samples/train_loss", INFINITY}, {text, -0.0}};
  const std::string bytes = event_record(version_event(1700000000.5)) +
                            event_record(restart_event(1700000001.25, 300)) +
                            event_record(scalar_event(1700000002, 5000000000, scalars));
  CHECK(bytes == read(zrt::test::data_folder() + "/tensorboard_events.bin"));
}

TEST_CASE("Every start of a run has an event file of its own, after those before it") {
  const testing::TemporaryFolder folder;
  const std::vector<Scalar> scalars{{"Train/Samples/train_loss", 1.5}};
  { EventFile(folder.path / "a/b", 0).add(8, scalars); }
  const auto first = files_of(folder.path / "a/b");
  REQUIRE(first.size() == 1);
  CHECK(first[0].filename().string().starts_with("events.out.tfevents."));
  CHECK(records_in(read(first[0])) == 3);
  {
    EventFile second(folder.path / "a/b", 8);
    second.add(16, scalars);
    second.add(24, scalars);
    CHECK(second.error().empty());
  }
  const auto both = files_of(folder.path / "a/b");
  REQUIRE(both.size() == 2);
  CHECK(both[0] == first[0]);
  CHECK(records_in(read(both[1])) == 4);
  std::ofstream(folder.path / "file") << "x";
  CHECK_THROWS_AS(EventFile(folder.path / "file", 0), core::DataError);
}

TEST_CASE("Rows beyond the checkpoint that a run goes on from are dropped from its CSV files") {
  const testing::TemporaryFolder folder;
  const auto add = [](CsvMonitor& csv, int64_t samples, double loss) {
    const std::vector<Scalar> scalars{{"Train/Samples/train loss", loss}};
    csv.add(samples, scalars);
    CHECK(csv.error().empty());
  };
  const auto file = folder.path / "Train_Samples_train_loss.csv";
  {
    CsvMonitor csv(folder.path, 0);
    add(csv, 8, 3.25);
    add(csv, 16, NAN);
    add(csv, 24, 1);
  }
  CHECK(read(file) == "step,train loss\n8,3.25\n16,nan\n24,1\n");
  {
    std::ofstream(file, std::ios::app) << "32,0.";  // cut in two by a crash, and beyond anyway
    CsvMonitor csv(folder.path, 16);
    add(csv, 24, 2);
    add(csv, 32, 1.5);
  }
  CHECK(read(file) == "step,train loss\n8,3.25\n16,nan\n24,2\n32,1.5\n");
  CsvMonitor csv(folder.path, 0);
  add(csv, 8, 4);
  CHECK(read(file) == "step,train loss\n8,4\n");
}

TEST_CASE("A file that takes no more is tried again with the next record, whole") {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path / "file") << "";
  // Writing to a full device fails; truncating it, too.
  AppendFile full("/dev/full", 0);
  full.add("a\n");
  CHECK(full.error().find("/dev/full: cannot be written: No space left") == 0);
  AppendFile good(folder.path / "file", 0);
  good.add("a\n");
  good.add("b\n");
  CHECK(good.error().empty());
  CHECK(read(folder.path / "file") == "a\nb\n");
  CHECK_THROWS_AS(AppendFile(folder.path / "none", 0), core::DataError);
}

TEST_CASE("Steps and evaluations reach every file that the configuration asks for, under DeepSpeed's names") {
  const testing::TemporaryFolder folder;
  Evaluation evaluation;
  evaluation.loss = 3.5, evaluation.tokens = 10, evaluation.prefix = "held\nout";
  {
    RunRecords records(config(folder.path), folder.path, 0, 0);
    for (int64_t step = 1; step <= 4; ++step) records.step(metrics(step, 5.0 - static_cast<double>(step)), step * 8);
    records.evaluated(2, 16, evaluation);
    records.evaluated(4, 32, evaluation);
    CHECK(records.new_error().empty());
  }
  CHECK(read(folder.path / "csv/job/Train_Samples_train_loss.csv") == "step,train_loss\n8,4\n16,3\n24,2\n32,1\n");
  CHECK(read(folder.path / "csv/job/Train_Samples_lr.csv").find("\n32,0.5\n") != std::string::npos);
  CHECK(read(folder.path / "csv/job/Train_Samples_tokens_per_second.csv").find("\n8,400\n") != std::string::npos);
  CHECK(read(folder.path / "csv/job/Train_Samples_eval_loss.csv") == "step,eval_loss\n16,3.5\n32,3.5\n");
  CHECK_FALSE(std::filesystem::exists(folder.path / "csv/job/Train_Samples_loss_scale.csv"));
  const auto board = files_of(folder.path / "board/job");
  REQUIRE(board.size() == 1);
  CHECK(records_in(read(board[0])) == 2 + 4 + 2);
  {
    Config half = config(folder.path);
    half.precision.compute = core::DType::f16;
    RunRecords records(half, folder.path, 3, 24);
    CHECK(records.last_loss() == 2);
    records.step(metrics(4, 0.5), 32);
  }
  CHECK(read(folder.path / "csv/job/Train_Samples_loss_scale.csv") == "step,loss_scale\n32,1\n");
  CHECK(read(folder.path / "csv/job/Train_Samples_train_loss.csv") == "step,train_loss\n8,4\n16,3\n24,2\n32,0.5\n");
  std::ifstream lines(folder.path / "evaluations.jsonl");
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(nlohmann::json::parse(line)["step"] == 2);
  CHECK(nlohmann::json::parse(line)["loss"] == 3.5);
  CHECK_FALSE(std::getline(lines, line));  // that of step 4 was dropped with the step
}

TEST_CASE(
    "Loads of experts have a file of their own, in which no step comes twice, and none where there are no experts") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path / "expert_loads.jsonl";
  const auto step = [](RunRecords& records, int64_t number, bool loads) {
    StepMetrics m = metrics(number, 1);
    if (loads) m.expert_loads = {{0, {{static_cast<uint64_t>(number), 0}, {2, 1}}}};
    records.step(m, 8 * number);
  };
  const auto line = [](int64_t number) {
    return R"({"step":)" + std::to_string(number) + R"(,"layers":[0],"picked":[[)" + std::to_string(number) +
           R"(,2]],"dropped":[[0,1]]})" + "\n";
  };
  {
    RunRecords records(Config{}, folder.path, 0, 0, true);
    for (int64_t number = 1; number <= 4; ++number) step(records, number, number % 2 == 0);
    CHECK(records.new_error().empty());
  }
  CHECK(read(file) == line(2) + line(4));
  CHECK(read(folder.path / "metrics.jsonl").find("picked") == std::string::npos);
  {
    RunRecords records(Config{}, folder.path, 3, 24, true);
    step(records, 4, true);
  }
  CHECK(read(file) == line(2) + line(4));
  RunRecords(Config{}, folder.path, 0, 0);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("A step tells the learning rate of its update, whether the schedule or the optimizer chose it") {
  optimizer::AdafactorParams own, given;
  own.warmup_init = true;
  given.relative_step = false;
  const double scheduled = 0.5;
  for (const auto& [optimizer, chosen] : {std::pair{make_optimizer(optimizer::AdamParams{}), false},
                                          {make_optimizer(given), false},
                                          {make_optimizer(own), true}}) {
    testing::Setting s;
    s.optimizer = optimizer, s.rate = scheduled;
    const testing::TemporaryFolder folder;
    testing::SavingRun run(testing::make_toy(2, 8, 11, 5, false, false), s, folder.path, false);
    for (int64_t step = 1; step <= 3; ++step) {
      run.steps(1);
      const StepMetrics told = read_metrics(run.session(), step, 0.25);
      CAPTURE(chosen, step);
      REQUIRE_FALSE(told.skipped);
      // Adafactor's own begins with a millionth and grows by one each step.
      CHECK(told.lr == Approx(chosen ? 1e-6 * static_cast<double>(step) : scheduled));
    }
  }
}

TEST_CASE("A summary says of each way between tiers what was moved on it") {
  Summary summary;
  summary.moved = {.to_device = 11, .to_host = 22, .read = 33, .written = 44};
  const auto moved = nlohmann::json::parse(to_json(summary))["moved_bytes"];
  CHECK(moved["to_device"] == 11);
  CHECK(moved["to_host"] == 22);
  CHECK(moved["nvme_read"] == 33);
  CHECK(moved["nvme_written"] == 44);
}

TEST_CASE("The peak of a process stays when it gives memory back") {
  constexpr size_t bytes = size_t{64} << 20, tolerance = size_t{16} << 20;
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(block != MAP_FAILED);
  std::memset(block, 1, bytes);
  const ProcessMemory held = read_process_memory({});
  REQUIRE(munmap(block, bytes) == 0);
  const ProcessMemory after = read_process_memory({});
  CHECK(held.rss_peak_bytes > bytes);
  CHECK(held.outside_arena_bytes > bytes);
  CHECK(after.outside_arena_bytes < held.outside_arena_bytes - bytes + tolerance);
  CHECK(after.rss_peak_bytes + tolerance > held.rss_peak_bytes);
}

TEST_CASE("Monitors write through no link that stands in the place of their folder or of a file in it") {
  for (const std::string monitor : {"csv", "board"}) {
    for (const std::string name : {"team", "team/job"}) {
      CAPTURE(monitor, name);
      const testing::TemporaryFolder folder;
      const std::filesystem::path precious = folder.path / "precious", planted = folder.path / monitor / name;
      std::filesystem::create_directories(precious / "job");
      std::filesystem::create_directories(planted.parent_path());
      std::filesystem::create_directory_symlink(precious, planted);
      Config links = config(folder.path);
      links.tensorboard.job_name = links.csv_monitor.job_name = "team/job";
      std::string error;
      try {
        RunRecords(links, folder.path, 0, 0).step(metrics(1, 1), 8);
      } catch (const core::DataError& failure) {
        error = failure.what();
      }
      CHECK(error.find(planted.string() + " is a symbolic link, which a run does not write through") == 0);
      CHECK(files_of(precious).size() == 1);
      CHECK(files_of(precious / "job").empty());
      // The folder that holds them is the user's: it may be one.
      std::filesystem::rename(folder.path / monitor, precious / "own");
      std::filesystem::remove(precious / "own" / name);
      std::filesystem::create_directory_symlink(precious / "own", folder.path / monitor);
      RunRecords(links, folder.path, 0, 0).step(metrics(1, 1), 8);
      CHECK(!files_of(precious / "own/team/job").empty());
    }
  }
  const testing::TemporaryFolder folder;
  const auto csv = folder.path / "csv/job", file = csv / "Train_Samples_lr.csv";
  std::filesystem::create_directories(csv);
  std::ofstream(folder.path / "precious") << "step,lr\n1,2\n";
  std::filesystem::create_symlink(folder.path / "precious", file);
  for (int i = 0; i < 2; ++i) {
    RunRecords records(config(folder.path), folder.path, 1, 8);
    records.step(metrics(2, 1), 16);
    CHECK(records.new_error().find(file.string() + " is a ") == 0);
    CHECK(read(folder.path / "precious") == "step,lr\n1,2\n");
    CHECK(read(csv / "Train_Samples_train_loss.csv") == "step,train_loss\n16,1\n");
    std::filesystem::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);  // which nobody writes to
  }
}

TEST_CASE("Monitors that are not enabled leave nothing") {
  const testing::TemporaryFolder folder;
  Config none = config(folder.path);
  none.tensorboard.enabled = none.csv_monitor.enabled = false;
  RunRecords(none, folder.path, 0, 0).step(metrics(1, 1), 8);
  CHECK(files_of(folder.path).size() == 2);
}

}  // namespace zrt::telemetry_test
