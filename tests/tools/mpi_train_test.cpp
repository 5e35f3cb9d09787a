// `zrt train` with one rank per process: the same bits as threads, and runs whose ranks fail.
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "catch.h"
#include "core/isa.h"
#include "mpirun.h"

namespace zrt::testing::mpi_train_test {
namespace {

namespace fs = std::filesystem;

const std::string zrt = std::string(ZRT_BINARY_DIR) + "/zrt ";

// A small dataset and a configuration, in a folder of its own.
struct Folder {
  fs::path path;
  explicit Folder(const std::string& name) : path(fs::temp_directory_path() / ("zrt_mpi_" + name)) {
    fs::remove_all(path);
    fs::create_directories(path);
    std::ofstream text(path / "text.txt");
    for (int i = 0; i < 400; ++i) text << "line " << i * 7919 % 1000 << " of a text that repeats itself\n";
    text.close();
    const std::string corpus = (path / "corpus").string();
    REQUIRE(run_shell(zrt + "data build --out " + corpus + " --validation 0.2 " + (path / "text.txt").string()).code ==
            0);
    std::ofstream(path / "c.json") << R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
      "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}, "model": {"preset": "gpt2-tiny"},
      "data": {"train": ")" << corpus
                                   << R"(/train", "validation": ")" << corpus << R"(/validation"},
      "run": {"steps": 4, "timeout_seconds": 20}})";
  }
  ~Folder() { fs::remove_all(path); }
  std::string train(const std::string& more = "", const std::string& out = "run") const {
    return zrt + "train " + (path / "c.json").string() + " --out " + (path / out).string() + " " + more;
  }
  nlohmann::json json(const std::string& file) const {
    std::ifstream in(path / file);
    return nlohmann::json::parse(in);
  }
};

struct Case {
  int stage, ranks;
  bool bf16, two_machines;
  const char* preset = "gpt2-tiny";
  const char* more = "";
};

std::vector<Case> cases() {
  if (!std::getenv("ZRT_FULL_TESTS")) {
    return {{0, 2, false, false, "llama-tiny"},
            {1, 3, true, true},
            {2, 4, false, true, "llama-tiny"},
            {3, 4, true, false},
            {3, 3, false, true},
            {3, 2, true, false, "llama-tiny"},
            {2, 4, false, true, "llama-tiny", " --set parallel.hierarchical_ranks=2"},
            {3, 4, true, true, "gpt2-tiny", " --set zero_optimization.zero_hpz_partition_size=2"},
            {3, 4, false, false, "gpt2-tiny", " --set zero_optimization.mics_shard_size=2"},
            {2, 4, true, true, "gpt2-tiny", " --set parallel.pipeline=2"},
            {1, 4, true, true, "gpt2-tiny", " --set parallel.tensor=2"},
            {3, 4, false, false, "llama-tiny", " --set parallel.pipeline=2 --set parallel.virtual_pipeline=2"}};
  }
  std::vector<Case> all;
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    for (int i = 0; i < 48; ++i) all.push_back({i % 4, 2 + i / 4 % 3, i / 12 % 2 == 1, i / 24 == 1, preset});
  }
  return all;
}

TEST_CASE("processes train to the bits that threads train to") {
  const Folder folder("equal");
  for (const Case& c : cases()) {
    const std::string set = "--set zero_optimization.stage=" + std::to_string(c.stage) +
                            " --set bf16.enabled=" + (c.bf16 ? "true" : "false") + " --set model.preset=" + c.preset +
                            c.more;
    fs::remove_all(folder.path / "threads");
    fs::remove_all(folder.path / "processes");
    const JobResult threads = run_shell(folder.train(set + " --ranks " + std::to_string(c.ranks), "threads"));
    const std::string command = folder.train(set, "processes");
    const JobResult processes = run_shell(mpirun(c.ranks) + (c.two_machines ? on_two_machines(command) : command));
    INFO(c.preset << c.more << ", stage " << c.stage << ", " << c.ranks << " ranks, bf16 " << c.bf16
                  << ", two machines " << c.two_machines << "\n"
                  << threads.text << processes.text);
    REQUIRE(threads.code == 0);
    REQUIRE(processes.code == 0);
    const auto a = folder.json("threads/summary.json"), b = folder.json("processes/summary.json");
    CHECK(a["state_xxh3"] == b["state_xxh3"]);
    CHECK(a["validation"]["loss"] == b["validation"]["loss"]);
    CHECK(a["comm_bytes"] == b["comm_bytes"]);
    const auto memory = folder.json("processes/memory.json");
    REQUIRE(memory["ranks"].size() == static_cast<size_t>(c.ranks));
    CHECK(memory["processes"].size() == static_cast<size_t>(c.ranks));
    for (const auto& rank : memory["ranks"]) {
      const auto& device = rank["tiers"]["device"];
      CHECK(device["planned_peak_bytes"] == device["measured_peak_bytes"]);
    }
    // Each process speaks for itself, but only one speaks.
    CHECK(count_of(processes.text, "state_xxh3") == 1);
    CHECK(count_of(processes.text, "step 4/4") == 1);
  }
  const JobResult evaluated =
      run_shell(mpirun(cases().back().ranks) + zrt + "eval " + (folder.path / "threads").string());
  INFO(evaluated.text);
  CHECK(evaluated.code == 0);
  CHECK(count_of(evaluated.text, "held-out loss") == 1);
}

TEST_CASE("the trace of processes holds every rank on one clock, and one process writes the monitors") {
  const Folder folder("trace");
  const JobResult trained = run_shell(
      mpirun(3) + folder.train("--set run.trace=true --set zero_optimization.stage=3 --set run.trace_steps=[2,9] "
                               "--set tensorboard.enabled=true --set tensorboard.output_path=" +
                               (folder.path / "board").string()));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  std::map<int, std::pair<double, double>> collective;  // by rank: the exchange of step 4
  std::map<int, std::set<int>> steps;
  const auto trace = folder.json("run/trace.json");
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "program") continue;
    const int rank = event["pid"], step = event["args"]["step"];
    steps[rank].insert(step);
    if (step == 4 && event["cat"] == "share_control") {
      collective[rank] = {event["ts"], event["ts"].get<double>() + event["dur"].get<double>()};
    }
  }
  const std::set<int> traced{2, 3, 4};
  CHECK(steps == std::map<int, std::set<int>>{{0, traced}, {1, traced}, {2, traced}});
  // A collective ends nowhere before it has begun everywhere.
  REQUIRE(collective.size() == 3);
  for (const auto& [a, own] : collective) {
    for (const auto& [b, other] : collective) CHECK(own.second > other.first);
  }
  CHECK(std::distance(fs::directory_iterator(folder.path / "board/DeepSpeedJobName"), fs::directory_iterator()) == 1);
}

TEST_CASE("ranks at different levels of instruction sets are refused by both names") {
  if (core::detected_isa() == core::Isa::avx2) {
    WARN("skipped: this machine has the lowest level only");
    return;
  }
  const Folder folder("levels");
  const JobResult result =
      run_shell(mpirun(1) + "env -u ZRT_MAX_ISA " + folder.train() + " : -n 1 env ZRT_MAX_ISA=avx2 " + folder.train());
  INFO(result.text);
  CHECK(result.code != 0);
  CHECK(count_of(result.text, "zrt: error:") == 1);
  CHECK(result.text.find("the level of instruction sets") != std::string::npos);
  CHECK(result.text.find("process 0 (" + std::string(core::isa_name(core::detected_isa())) +
                         ") and process 1 (avx2)") != std::string::npos);
}

TEST_CASE("the script of two hosts says what it lacks") {
  const std::string script = std::string(ZRT_SOURCE_DIR) + "/tools/two_hosts.sh ";
  CHECK(run_shell(script).code == 2);
  CHECK(run_shell(script + "--rats 1 -- true").text.find("unknown option --rats") != std::string::npos);
  CHECK(run_shell(script + "--by-zrt --in-turns -- true").code == 2);
  const JobResult alone = run_shell("PATH=/nonexistent /bin/bash " + script + "-- true");
  CHECK(alone.code == 77);
  CHECK(alone.text.find("was not found; install iproute2 and openmpi-bin") != std::string::npos);
}

TEST_CASE("two machines joined by a cable train to the bits that threads train to") {
  const Folder folder("cable");
  const JobResult threads = run_shell(folder.train("--ranks 4 --set zero_optimization.stage=3", "threads"));
  REQUIRE(threads.code == 0);
  for (const std::string way : {"mpirun", "zrt"}) {
    const JobResult machines = run_shell(
        "timeout -k 5 600 " ZRT_SOURCE_DIR "/tools/two_hosts.sh --ranks-per-host 2 --rate none " +
        std::string(way == "zrt" ? "--by-zrt " : "") + "-- " + folder.train("--set zero_optimization.stage=3", way));
    if (machines.code == 77) {
      WARN("not run: " << machines.text);
      return;
    }
    INFO("started by " << way << "\n" << threads.text << machines.text);
    REQUIRE(machines.code == 0);
    const auto summary = folder.json(way + "/summary.json");
    CHECK(folder.json("threads/summary.json")["state_xxh3"] == summary["state_xxh3"]);
    // Half of what a rank receives from two of three others, for two ranks of a machine, at least.
    uint64_t received = 0;
    for (const auto& bytes : summary["comm_bytes"]) received += bytes.get<uint64_t>();
    const size_t at = machines.text.find("cable_bytes ");
    REQUIRE(at != std::string::npos);
    CHECK(std::stoull(machines.text.substr(at + 12)) > received);
  }
}

TEST_CASE("the constants of two machines hold the link between them, and a step over it is predicted and measured") {
  const Folder folder("calibrate");
  const std::string cluster = (folder.path / "pair.json").string();
  const std::string config = (folder.path / "predicted.json").string();
  std::ofstream(config) << R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3},
    "model": {"preset": "gpt2-tiny"}})";
  const JobResult calibrated = run_shell(mpirun(2) + on_two_machines(zrt + "bench calibrate --quick --out " + cluster));
  INFO(calibrated.text);
  REQUIRE(calibrated.code == 0);
  CHECK(count_of(calibrated.text, "1 rank per host") == 1);
  std::ifstream in(cluster);
  const auto json = nlohmann::json::parse(in);
  CHECK(json["between_hosts"]["bytes_per_second"]["value"] > 0);
  CHECK(json["between_hosts"]["exchange"]["value"] == "once_per_rank");
  CHECK(json["overlap"].contains("between_hosts"));
  const JobResult predicted = run_shell(
      mpirun(2) + on_two_machines(zrt + "bench predict " + config + " --rounds 2 --json --cluster " + cluster));
  INFO(predicted.text);
  REQUIRE(predicted.code == 0);
  CHECK(count_of(predicted.text, "predicted_seconds") == 1);
  // A measurement on one machine says nothing about a link to another.
  REQUIRE(run_shell(zrt + "bench calibrate --quick --ranks 1 --out " + cluster).code == 0);
  const JobResult refused =
      run_shell(mpirun(2) + on_two_machines(zrt + "bench predict " + config + " --cluster " + cluster));
  CHECK(refused.code != 0);
  CHECK(refused.text.find("no link between_hosts") != std::string::npos);
}

TEST_CASE("the samples that processes log are those that threads log, by the ranks that read them") {
  const Folder folder("samples");
  const auto lines = [&](const std::string& out) {
    std::ifstream in(folder.path / out / "samples.jsonl");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  struct Cut {
    const char* more;
    std::vector<int> first;  // ranks that read what others read, too, and tell of it
  };
  for (const Cut& cut : {Cut{"--set parallel.tensor=2", {0, 2}}, Cut{"--set parallel.pipeline=2", {0, 1}},
                         Cut{"--set parallel.tensor=2 --set parallel.pipeline=2", {0}}, Cut{"", {0, 1, 2, 3}}}) {
    fs::remove_all(folder.path / "threads");
    fs::remove_all(folder.path / "processes");
    const std::string more = std::string("--set run.log_samples=true ") + cut.more;
    const JobResult threads = run_shell(folder.train(more + " --ranks 4", "threads"));
    const JobResult processes = run_shell(mpirun(4) + folder.train(more, "processes"));
    INFO(cut.more << "\n" << threads.text << processes.text);
    REQUIRE(threads.code == 0);
    REQUIRE(processes.code == 0);
    CHECK(lines("threads") == lines("processes"));
    std::istringstream text(lines("threads"));
    int64_t next = 0;
    for (std::string line; std::getline(text, line);) {
      const auto ranks = nlohmann::json::parse(line)["ranks"];
      REQUIRE(ranks.size() == 4);
      std::set<int64_t> numbers;
      for (int rank = 0; rank < 4; ++rank) {
        const bool tells = std::find(cut.first.begin(), cut.first.end(), rank) != cut.first.end();
        CHECK(ranks[static_cast<size_t>(rank)].size() == (tells ? 4 : 0));
        for (const auto& sample : ranks[static_cast<size_t>(rank)]) numbers.insert(sample[0].get<int64_t>());
      }
      // Each of the step's samples once.
      const auto count = static_cast<int64_t>(4 * cut.first.size());
      REQUIRE(static_cast<int64_t>(numbers.size()) == count);
      CHECK((*numbers.begin() == next && *numbers.rbegin() == next + count - 1));
      next += count;
    }
    CHECK(next > 0);
  }
}

TEST_CASE("processes that read different data at one path are refused by what differs") {
  const Folder folder("copies");
  for (const char* host : {"h0", "h1"}) fs::create_directories(folder.path / host);
  const auto start = [&](const std::string& command) {  // the ranks of two machines, each in a folder of its own
    return run_shell(mpirun(2) + "sh -c 'cd " + folder.path.string() + "/h$OMPI_COMM_WORLD_RANK && exec " + command +
                     "'");
  };
  const std::string sets = "--set data.train=mine --set data.validation=null";
  const auto copy = [&](const std::string& host, const std::string& text) {
    std::ofstream(folder.path / host / "text.txt") << text;
    REQUIRE(run_shell(zrt + "data build --force --out " + (folder.path / host / "mine").string() + " " +
                      (folder.path / host / "text.txt").string())
                .code == 0);
  };
  const std::string text(20000, 'x');
  copy("h0", text), copy("h1", text);
  const std::string eval = zrt + "eval " + (folder.path / "run").string() + " --data mine";
  for (const std::string& command : {folder.train(sets), eval}) {
    const JobResult same = start(command);
    INFO(same.text);
    CHECK(same.code == 0);
  }
  copy("h1", text + "more");
  const JobResult evaluated = start(eval);
  INFO(evaluated.text);
  CHECK(evaluated.code != 0);
  CHECK(evaluated.text.find("the data differs between process 0 and process 1: data[0].tokens: 20001 and 20005") !=
        std::string::npos);
  const JobResult other = start(folder.train(sets, "other"));
  INFO(other.text);
  CHECK(other.code != 0);
  CHECK(count_of(other.text, "zrt: error:") == 1);
  CHECK(other.text.find("the data differs between process 0 and process 1: train[0].tokens: 20001 and 20005") !=
        std::string::npos);
  CHECK(other.text.find("train[0].xxh3: ") != std::string::npos);
  CHECK(other.text.find("train[0].documents") == std::string::npos);
  // The index is equal, and one token differs.
  std::string turned = text;
  turned[5000] = 'y';
  copy("h1", turned);
  for (const std::string& command : {folder.train(sets, "turned"), eval}) {
    const JobResult differs = start(command);
    INFO(differs.text);
    CHECK(differs.code != 0);
    CHECK(differs.text.find("[0].tokens_xxh3: ") != std::string::npos);
    CHECK(differs.text.find("[0].xxh3: ") == std::string::npos);
  }
}

TEST_CASE("processes that disagree end with one message") {
  const Folder folder("disagree");
  struct Bad {
    std::string command, expected;
  };
  const std::vector<Bad> bad{
      {mpirun(1) + folder.train() + " : -n 1 " + folder.train("--steps 5"), "the configuration differs"},
      {mpirun(2) + folder.train("--ranks 3"), "--ranks is 3"},
      {mpirun(2) + folder.train("--transport thread"), "--transport thread"},
      {mpirun(3) + folder.train("--set data.train=/nonexistent/corpus"), "/nonexistent/corpus"},
      {mpirun(2) + zrt + "generate " + (folder.path / "run").string(), "one process"}};
  for (size_t i = 0; i < bad.size(); ++i) {
    const JobResult result = run_shell(bad[i].command);
    INFO(bad[i].command << "\n" << result.text);
    CHECK(result.code != 0);
    CHECK(result.text.find(bad[i].expected) != std::string::npos);
    // Each process can only speak for itself before MPI runs.
    const bool alone = i == 1 || i == 2 || i == 4;
    CHECK((alone || count_of(result.text, "zrt: error:") == 1));
  }
}

TEST_CASE("processes agree on the first value that is not finite, and leave the last good checkpoint") {
  const Folder folder("skipped");
  for (const char* more : {"--set zero_optimization.stage=3", "--set zero_optimization.stage=1 --set bf16.enabled=true",
                           "--set parallel.pipeline=2 --set run.stress_seed=3"}) {
    fs::remove_all(folder.path / "run");
    const JobResult result =
        run_shell(mpirun(2) + folder.train("--steps 30 --set run.skip_limit=4 --set run.checkpoint_interval=1 --set "
                                           "optimizer.params.lr=1e6 --set optimizer.params.weight_decay=10 --set "
                                           "gradient_clipping=0 " +
                                           std::string(more)));
    INFO(more << "\n" << result.text);
    CHECK(result.code != 0);
    CHECK(count_of(result.text, "zrt: error:") == 1);
    CHECK(
        result.text.find("4 steps in a row were skipped (run.skip_limit). The first value that is not finite: the ") !=
        std::string::npos);
    const nlohmann::json failure = folder.json("run/failure.json");
    CHECK(failure["kind"] == "skipped steps");
    const int64_t last = failure["step"];
    CHECK(fs::exists(folder.path / "run/checkpoints" / ("step_" + std::to_string(last - 4))));
    for (int64_t step = last - 3; step <= last; ++step) {
      CHECK_FALSE(fs::exists(folder.path / "run/checkpoints" / ("step_" + std::to_string(step))));
    }
  }
}

// The process of rank `rank` of the job marked by `mark`, or 0.
int find_rank(const std::string& mark, int rank) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "environ"), name(entry.path() / "comm");
    std::stringstream text;
    text << in.rdbuf();
    std::string program;
    std::getline(name, program);
    const std::string all = std::string(1, '\0') + text.str();
    auto has = [&](const std::string& variable) { return all.find('\0' + variable + '\0') != std::string::npos; };
    if (program == "zrt" && has("ZRT_TEST_MARK=" + mark) && has("OMPI_COMM_WORLD_RANK=" + std::to_string(rank))) {
      return std::stoi(entry.path().filename().string());
    }
  }
  return 0;
}

TEST_CASE("a rank that is stopped or killed in a step ends the run, and is named") {
  const Folder folder("fault");
  const int fault = GENERATE(SIGSTOP, SIGKILL);
  const std::string mark = "fault" + std::to_string(getpid()) + "_" + std::to_string(fault);
  JobResult result{};
  std::atomic<bool> ended = false;
  std::thread job([&] {
    result = run_shell(mpirun(3, "-x ZRT_TEST_MARK=" + mark) +
                       folder.train("--steps 1000000 --set run.timeout_seconds=5 --set run.log_interval=0"));
    ended = true;
  });
  // Training when the metrics file has lines.
  while (!ended &&
         (!fs::exists(folder.path / "run/metrics.jsonl") || fs::file_size(folder.path / "run/metrics.jsonl") == 0)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const int pid = find_rank(mark, 2);
  CHECK(pid > 0);
  if (pid > 0) kill(pid, fault);
  job.join();
  INFO(result.text);
  CHECK(result.code != 0);
  CHECK(result.text.find(fault == SIGSTOP ? "missing ranks: 2; waiting ranks: 0, 1" : "rank 2") != std::string::npos);
  CHECK(count_of(result.text, "zrt: error:") <= 1);
  // mpirun does not wait for those that it kills.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (find_rank(mark, 0) != 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(find_rank(mark, 0) == 0);
}

}  // namespace
}  // namespace zrt::testing::mpi_train_test
