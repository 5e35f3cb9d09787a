// The first hour on a GPU (tools/gpu/first_contact.sh), on a machine without one: whatever hangs, crashes or ends it,
// no other result is lost.
#include <chrono>
#include <set>
#include <sstream>
#include <thread>

#include "tests/tools/gpu_bundle.h"

namespace zrt::first_contact_test {

using namespace zrt::testing;
using Catch::Matchers::Contains;

namespace {

std::string first_contact(const Folder& folder, int call, int test_seconds = 6) {
  return "TMPDIR=" + folder.path.string() + " ZRT_TEST_SECONDS=" + std::to_string(test_seconds) + " bash " +
         (folder / "bundle/first_contact.sh") + " " + std::to_string(call) + " --out " + (folder / "out");
}

// results.json of the packed file, and its names in `names`.
nlohmann::json unpack(const Folder& folder, int call, std::string* names = nullptr) {
  const std::string packed = folder / ("out/first_contact_" + std::to_string(call) + ".tar.gz");
  const Result got = run_command("rm -rf " + (folder / "got") + " && mkdir " + (folder / "got") + " && tar -C " +
                                 (folder / "got") + " -xvzf " + packed);
  INFO(got.text);
  REQUIRE(got.code == 0);
  if (names) *names = got.text;
  return read_json(folder / "got/results.json");
}

// Counts processes of the groups that a file names, without those that have ended and only wait to be collected.
int living_now(const std::string& file) {
  std::set<std::string> groups;
  std::ifstream names(file);
  for (std::string name; names >> name;) groups.insert(name);
  REQUIRE(!groups.empty());
  int living = 0;
  for (const auto& process : fs::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(process.path().filename().native()[0]))) continue;
    std::ifstream stat(process.path() / "stat");
    const std::string text{std::istreambuf_iterator<char>(stat), {}};
    const size_t end = text.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream rest(text.substr(end + 1));
    std::string state, parent, group;
    rest >> state >> parent >> group;
    living += state != "Z" && groups.count(group);
  }
  return living;
}

// Returns living_now() once the system has come to those that were killed: it ends each when that would run next. Left
// alone they sleep for much longer than this waits.
int living_of(const std::string& file) {
  for (int i = 0; i < 3000 && living_now(file) > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return living_now(file);
}

std::map<std::string, nlohmann::json> by_program(const nlohmann::json& content) {
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : content["results"]) rows[row["program"]] = row;
  return rows;
}

}  // namespace

TEST_CASE("programs that fail, crash or hang are named in the table, and the rest runs all the same") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_bundle");
  make_bundle(folder);
  const std::string run = "TMPDIR=" + folder.path.string() + " ZRT_TEST_SECONDS=4 " + (folder / "bundle/run.sh") +
                          " --out " + (folder / "out") + " --parts ";
  const Result mixed = run_command(run + "kernels,models");
  INFO(mixed.text);
  CHECK(mixed.code == 1);
  const auto content = read_json(folder / "out/results.json");
  REQUIRE(content["results"].size() == 6);
  auto results = by_program(content);
  CHECK(results["a/good"]["result"] == "passed");
  CHECK(results["a/good"]["passed"] == 3);
  CHECK(results["a/bad"]["result"] == "FAILED");
  CHECK(results["a/bad"]["passed"] == 3);
  CHECK(results["a/bad"]["failed"] == 1);
  CHECK(results["a/bad"]["failures"] == nlohmann::json{"sums are right"});
  CHECK(results["a/hang"]["result"] == "TIMEOUT");
  CHECK(results["a/hang"]["seconds"].get<double>() < 1000);  // as long as it sleeps
  CHECK(results["a/crash"]["result"] == "FAILED");
  CHECK(results["a/crash"]["note"] == "SIGSEGV: last words");
  CHECK(results["a/last"]["result"] == "passed");
  CHECK(results["b/good"]["part"] == "models");
  CHECK_THAT(mixed.text, Contains("! sums are right"));
  std::ifstream log(folder / "out/logs/kernels_a_good.txt");
  const std::string text{std::istreambuf_iterator<char>(log), {}};
  CHECK_THAT(text, Contains("device [#a] --device cuda"));
  CHECK(run_command(run + "models").code == 0);
}

TEST_CASE("first contact: a test that hangs and one that crashes lose no other result, and all are in one file") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact");
  make_bundle(folder);
  // One at a time, so that some tests stand behind the one that hangs.
  const Result call = run_command(first_contact(folder, 1) + " --jobs 1");
  INFO(call.text);
  CHECK(call.code == 1);
  std::string names;
  const auto content = unpack(folder, 1, &names);
  auto results = by_program(content);
  CHECK(results.size() == 6);
  CHECK(results["facts"]["data"]["matrix_flops_per_second"] == 8e14);
  CHECK(results["a/good"]["result"] == "passed");
  CHECK(results["a/bad"]["failures"] == nlohmann::json{"sums are right"});
  CHECK(results["a/hang"]["result"] == "TIMEOUT");
  CHECK(results["a/crash"]["note"] == "SIGSEGV: last words");
  CHECK(results["a/last"]["result"] == "passed");
  CHECK_THAT(names,
             Contains("logs/table.txt") && Contains("logs/kernels_a_hang.txt") && Contains("logs/facts_facts.txt"));
  CHECK(std::distance(fs::directory_iterator(folder / "out"), {}) == 1);
  CHECK_THAT(call.text, Contains("most tests of kernels do not pass") && Contains("first_contact_1.tar.gz"));
  // Their children are gone too.
  for (const char* test : {"hang", "crash"}) {
    const std::string log = folder / "got/logs/kernels_a_", group = folder / "group";
    run_command("awk '/begun/ {print $2}' " + log + test + ".txt >" + group);
    CHECK(living_of(group) == 0);
  }
}

TEST_CASE("first contact: a reader that goes away loses nothing, and a program that tests nothing has not passed") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact_reader");
  make_bundle(folder);
  folder.write("bundle/tests.txt", "kernels|a/good|test_good\nkernels|a/none|test_none\n");
  const Result call =
      run_command("{ " + first_contact(folder, 1) + " --jobs 1; echo $? >" + (folder / "code") + "; } | head -1");
  INFO(call.text);
  auto results = by_program(unpack(folder, 1));
  CHECK(results.size() == 3);
  CHECK(results["a/good"]["result"] == "passed");
  CHECK(results["a/none"]["result"] == "FAILED");
  CHECK_THAT(std::string(results["a/none"]["note"]), Contains("counts no test case"));
  std::ifstream code(folder / "code");
  int exit = 0;
  code >> exit;
  CHECK(exit == 1);
}

TEST_CASE("first contact: what cannot be written is named, and the results are packed all the same") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact_trouble");
  make_bundle(folder);
  // The second of the tests takes the folder of results and logs away, as a disk that is full does.
  make_program(folder, "test_vandal",
               "rm -rf " + (folder / "zrt_first_contact_") + "*; echo 'All tests passed (1 assertion in 1 test case)'");
  REQUIRE(run_command("tar -C " + (folder / "stage") + " -cJf " + (folder / "bundle/programs.tar.xz") + " .").code ==
          0);
  folder.write("bundle/tests.txt",
               "kernels|a/good|test_good\nkernels|a/vandal|test_vandal\nkernels|a/last|test_good\n");
  const Result call = run_command(first_contact(folder, 1) + " --jobs 1");
  INFO(call.text);
  CHECK(call.code == 1);
  const auto content = unpack(folder, 1);
  auto results = by_program(content);
  CHECK(results["facts"]["result"] == "passed");
  CHECK(results["a/good"]["result"] == "passed");
  CHECK(content["trouble"].size() > 0);
  CHECK_THAT(call.text, Contains("trouble: ") && Contains("results: "));
}

TEST_CASE("first contact ends within its seconds, and says what it could not start") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact_seconds");
  make_bundle(folder);
  // Six seconds are left, in which one test hangs for much longer; each test may take longer, too.
  const Result call =
      run_command("ZRT_STARTED=$(($(date +%s) - 30)) " + first_contact(folder, 1, 2000) + " --jobs 1 --seconds 36");
  INFO(call.text);
  auto results = by_program(unpack(folder, 1));
  CHECK(results["a/hang"]["result"] != "passed");
  CHECK(results["a/hang"].value("seconds", 0.0) < 1000);
  CHECK(results["a/last"]["result"] == "NOT RUN");
  CHECK_THAT(run_command(first_contact(folder, 7)).text, Contains("invalid choice: 7"));
}

TEST_CASE("first contact that a signal ends has packed what there was") {
  if (!found("python3") || !found("xz")) return;
  const bool asked = GENERATE(true, false);
  const Folder folder("gpu_first_contact_signal");
  make_bundle(folder);
  const std::string log = folder / "log";
  // When the first tests are through and the one that hangs is at it. Whoever is asked to end packs what is left; who
  // is killed has packed it before, some time after the job.
  const std::string sign =
      asked ? "grep -q 'a/bad' " + log
            : "tar -xzOf " + (folder / "out/first_contact_1.tar.gz") + " results.json 2>/dev/null | grep -q 'a/bad'";
  const Result call = run_command(
      first_contact(folder, 1, 300) + " --jobs 1 >" + log + " 2>&1 & pid=$!; for i in $(seq 3000); do " + sign +
      " && break; sleep 0.1; done; kill -" + (asked ? "TERM" : "KILL") + " $pid; wait $pid; cat " + log);
  INFO(call.text);
  const auto content = unpack(folder, 1);
  auto results = by_program(content);
  CHECK(results.size() == 3);
  CHECK(results["a/good"]["result"] == "passed");
  CHECK(results["a/bad"]["result"] == "FAILED");
  CHECK(content.value("ended_by", "") == (asked ? "SIGTERM" : ""));
}

TEST_CASE("a packing that stalled for minutes keeps the next results from the packed file for ten seconds at most") {
  if (!found("python3")) return;
  const Folder folder("gpu_first_contact_stalled");
  // The clock is the test's: packing takes 100 s of it.
  folder.write("stalled.py",
               "import results, sys\n"
               "now = [0.0]\n"
               "results.time.monotonic = lambda: now[0]\n"
               "def pack(self): now[0] += 100\n"
               "results.Results.pack = pack\n"
               "made = results.Results(sys.argv[1], 'packed')\n"
               "print(made.next_pack - now[0])\n");
  const Result run = run_command("cd " + gpu_tools + " && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. python3 " +
                                 (folder / "stalled.py") + " " + (folder / "work"));
  CHECK(run.text == "10.0\n");
}

TEST_CASE("first contact that a signal ends begins no more tests, and leaves none behind") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact_many");
  const std::string pids = folder / "pids";
  make_program(folder, "test_hangs", "echo $BASHPID >>" + pids + "; sleep 1000");
  make_bundle(folder);
  std::string tests;
  for (int i = 0; i < 9; ++i) tests += "kernels|a/" + std::to_string(i) + "|test_hangs\n";
  folder.write("bundle/tests.txt", tests);
  const Result call = run_command(first_contact(folder, 1, 60) + " --jobs 4 >" + (folder / "log") +
                                  " 2>&1 & pid=$!; for i in $(seq 3000); do [ \"$(wc -l <" + pids +
                                  ")\" = 4 ] && break; sleep 0.1; done; kill -TERM $pid; wait $pid; echo ended $?");
  INFO(call.text);
  CHECK_THAT(call.text, Contains("ended 143"));
  CHECK(living_of(pids) == 0);
  CHECK(run_command("sleep 0.5; wc -l <" + pids).text == "4\n");
  CHECK(unpack(folder, 1).value("ended_by", "") == "SIGTERM");
  // Packing was quick here. Where it is not, jobs that wait could begin meanwhile.
  const Result late =
      run_command("cd " + gpu_tools + " && PYTHONDONTWRITEBYTECODE=1 python3 -c \"import jobs\njobs.end_all()\n" +
                  "jobs.run_limited(['touch', '" + (folder / "late") + "'], 5, '/dev/null')\"");
  CHECK_THAT(late.text, Contains("InterruptedError: the call was ending"));
  CHECK(!fs::exists(folder / "late"));
}

TEST_CASE("first contact runs zrt, PyTorch and zrt again, then times of ops and products, tests, and a large model") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact_calls");
  make_zrt(folder), make_bundle(folder);
  const std::string gpu = "ZRT_DEVICE_BYTES=85899345920 ";
  const Result bench = run_command(gpu + first_contact(folder, 2));
  INFO(bench.text);
  CHECK(bench.code == 0);
  std::vector<std::string> order;
  const auto content = unpack(folder, 2);
  for (const auto& row : content["results"]) {
    if (!row.contains("tried")) order.push_back(row["program"]);
  }
  CHECK(order == std::vector<std::string>{"matrix rate", "zrt gpt2-124m, 32 samples, 20 steps", "PyTorch gpt2-124m",
                                          "zrt gpt2-124m, 32 samples, 20 steps, again",
                                          "zrt gpt2-1.5b, 16 samples, 20 steps", "PyTorch gpt2-1.5b",
                                          "zrt gpt2-1.5b, 16 samples, 20 steps, again", "matrix rate"});
  CHECK_THAT(bench.text, Contains("1.13"));  // 900.5 ÷ 800
  const Result times = run_command(gpu + first_contact(folder, 3));
  INFO(times.text);
  auto rows = by_program(unpack(folder, 3));
  const auto ops = rows["times of ops, GPT-2 124M"]["data"]["times"];
  REQUIRE(ops.size() == 2);
  CHECK(ops[0]["seconds"] == Approx(5e-4));
  CHECK(ops[0]["share"] == Approx(0.5));
  CHECK(rows["zrt bench tune gpt2-1.5b"]["result"] == "passed");
  CHECK(rows.count("zrt gpt2-1.5b, 16 samples, 10 steps, again") == 1);
  CHECK(by_program((run_command(gpu + first_contact(folder, 4)), unpack(folder, 4))).size() == 3);
  CHECK(by_program((run_command(gpu + first_contact(folder, 5)), unpack(folder, 5))).count("c/fp8") == 1);
  const std::string asked = run_command("cat " + (folder / "asked")).text;
  CHECK_THAT(asked, Contains("run.kernel_table=") &&
                        Contains("--model llama-2-7b --ranks 1 --stages 0 --dtype bf16 --micro-batch 1 ") &&
                        Contains("memory.device_budget_bytes=81604378624"));
}

TEST_CASE("first contact compares threads, processes and NCCL on several GPUs, or on one that ranks share") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact_several");
  for (const char* name : {"test_core", "test_comm", "test_runtime"}) {
    make_program(folder, name, R"sh(echo "All tests passed (12 assertions in 3 test cases)")sh");
  }
  // Each run leaves the state of its way: those of zero3 differ, and of ranks that share a GPU those over NCCL in
  // stage 3.
  make_program(folder, "zrt",
               R"sh(
echo "$@" >>")sh" + (folder / "asked") +
                   R"sh("
[ "$1" = data ] && exit
state=a
case "$*" in *stage=3*--transport\ nccl*) state=b ;; esac
while [ $# -gt 0 ] && [ "$1" != --out ]; do shift; done
mkdir -p $2
[ $2 = processes_zero3 ] && state=b
printf '{"ranks": [{"tiers": {"device": {"planned_peak_bytes": 7, "measured_peak_bytes": 7}}}]}' >$2/memory.json
printf '{\n "state_xxh3": "%s",\n "comm_bytes": {},\n "tokens_per_second": 5\n}\n' $state >$2/summary.json)sh");
  make_bundle(folder);
  const auto with_gpus = [&](int gpus) {
    folder.write("smi",
                 "#!/bin/bash\nfor i in $(seq " + std::to_string(gpus) + "); do echo \"GPU $i: some GPU\"; done\n");
    fs::create_directories(folder.path / "path");
    fs::copy_file(folder / "smi", folder / "path/nvidia-smi", fs::copy_options::overwrite_existing);
    fs::permissions(folder / "path/nvidia-smi", fs::perms::owner_all);
    return "PATH=" + (folder / "path") + ":$PATH " + first_contact(folder, 6, 20);
  };
  const Result one = run_command(with_gpus(1));
  INFO(one.text);
  CHECK_THAT(one.text, Contains("this machine has 1"));
  auto shared = by_program(unpack(folder, 6));
  for (const char* name : {"nccl2_zero0", "hosts4", "line8", "processes8"}) {
    INFO(name);
    CHECK(shared[std::string("one GPU shared: ") + name]["result"] == "passed");
  }
  for (const char* name : {"nccl2_zero3", "kill8"}) {  // other bits; nothing that could be killed
    INFO(name);
    CHECK(shared[std::string("one GPU shared: ") + name]["result"] == "FAILED");
  }
  const Result four = run_command(with_gpus(4));
  INFO(four.text);
  auto rows = by_program(unpack(folder, 6));
  CHECK(rows["topology"]["result"] == "passed");
  CHECK(rows["comm/process_gpu"]["result"] == "passed");
  CHECK(rows["zrt train, 4 GPUs, zero0: threads, processes, NCCL"]["result"] == "passed");
  CHECK(rows["zrt train, 4 GPUs, zero3: threads, processes, NCCL"]["result"] == "FAILED");
  const std::string asked = run_command("cat " + (folder / "asked")).text;
  CHECK_THAT(asked, Contains("--ranks 4 --device cuda --set train_batch_size=16") && Contains("ranks 4 train ") &&
                        Contains("--transport nccl"));
}

}  // namespace zrt::first_contact_test
