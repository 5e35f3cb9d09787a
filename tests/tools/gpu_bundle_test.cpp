// The scripts of the GPU bundle, on a machine without a GPU: what they say is missing, and how they judge programs.
#include <set>
#include <sstream>

#include "program.h"

namespace zrt::gpu_bundle_test {

using namespace zrt::testing;
using Catch::Matchers::Contains;

namespace {

const std::string tools = std::string(ZRT_SOURCE_DIR) + "/tools/gpu/";

bool found(const std::string& program) {
  return run_command("command -v " + program).code == 0;
}

void make_program(const Folder& folder, const std::string& name, const std::string& text) {
  const fs::path bin = folder / "stage/bin";
  fs::create_directories(bin);
  folder.write("stage/bin/" + name, "#!/bin/bash\n" + text);
  fs::permissions(bin / name, fs::perms::owner_all);
}

// A bundle of shell scripts in place of the test programs; its facts and peers are scripts too.
void make_bundle(const Folder& folder) {
  const std::string bundle = folder / "bundle";
  fs::create_directories(bundle);
  make_program(folder, "test_good", R"sh(echo "device $*"; echo "All tests passed (12 assertions in 3 test cases)")sh");
  make_program(folder, "test_bad", R"sh(cat <<'X'
-------------------------------------------------------------------------------
sums are right
-------------------------------------------------------------------------------
a_test.cpp:3
...............................................................................

a_test.cpp:5: FAILED:
  CHECK( 1 == 2 )

===============================================================================
test cases:  4 |  3 passed | 1 failed
assertions: 20 | 19 passed | 1 failed
X
exit 1)sh");
  // With children of their own, which are deaf to being asked; so is the one that hangs.
  make_program(folder, "test_hang", "trap '' TERM\necho begun $BASHPID; sleep 61 & wait; sleep 61");
  make_program(folder, "test_crash",
               "echo begun $BASHPID; (trap '' TERM; exec sleep 62) & echo last words; kill -SEGV $$");
  make_program(folder, "test_none", "echo No test cases matched; echo No tests ran");
  folder.write("bundle/tests.txt",
               "kernels|a/good|test_good|[#a]\nkernels|a/bad|test_bad\nkernels|a/hang|test_hang\n"
               "kernels|a/crash|test_crash\nkernels|a/last|test_good\nmodels|b/good|test_good\n"
               "runtime|c/fp8|test_good\n");
  folder.write("bundle/commit.txt", "abc\n"), folder.write("bundle/programs.id", "id\n");
  const Result copied = run_command("cp " + tools + "*.sh " + tools + "*.py " + tools + "*.json " + bundle);
  INFO(copied.text);
  REQUIRE(copied.code == 0);
  folder.write("bundle/facts.py",
               "print('{\"copy_bytes_per_second\": {\"host_to_device\": 5e10}, \"matrix_flops_per_second\": 8e14}')\n");
  folder.write("bundle/peer_pytorch.py", "print('{\"tokens_per_second\": 800.0, \"batch\": 32}')\n");
  const Result packed = run_command("tar -C " + (folder / "stage") + " -cJf " + bundle + "/programs.tar.xz .");
  INFO(packed.text);
  REQUIRE(packed.code == 0);
}

// What zrt prints, writes and is asked.
void make_zrt(const Folder& folder) {
  make_program(folder, "zrt", "asked=" + (folder / "asked") + R"sh(
echo "$@" >>"$asked"
case "$1 $2" in
"bench tune") while [ "$1" != --out ]; do shift; done; echo table >"$2"; echo '{"products": []}'; exit ;;
"data build") exit ;;
"train "*) mkdir -p run; cat >run/trace.json <<'X'
[{"ph":"X","cat":"program","name":"step","dur":900},{"ph":"X","cat":"compute","name":"forward","dur":300},
 {"ph":"X","cat":"compute","name":"forward","dur":200},{"ph":"X","cat":"comm","name":"reduce","dur":500}]
X
exit ;;
esac
cat <<'X'
{"parameters": 17000000000, "stages": [{"tokens_per_second": 900.5, "step_seconds": {"median": 4.5}, "setup_seconds": 80,
 "exposed_io_seconds": 2.25, "moved_bytes": {"to_device": 5000000000, "to_host": 6000000000, "read": 7000000000,
 "written": 8000000000}, "copy_bytes_per_second": {"to_device": 4e10, "to_host": 3e10}, "model_flops_per_second": 4e14,
 "of_gemm_ceiling": {"median": 0.5, "low": 0.4, "high": 0.6}, "tiers": {"device": {"planned_bytes": 1073741824, "measured_bytes": 1073741824}}}]}
X
)sh");
}

std::string first_contact(const Folder& folder, int call, int test_seconds = 2) {
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

// Processes of the groups that a file names, without those that have ended and only wait to be collected.
int living_of(const std::string& file) {
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

std::map<std::string, nlohmann::json> by_program(const nlohmann::json& content) {
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : content["results"]) rows[row["program"]] = row;
  return rows;
}

}  // namespace

TEST_CASE("the scripts of the GPU bundle are scripts, and say without a GPU what there is and what is missing") {
  for (const char* script : {"run.sh", "pack.sh", "first_contact.sh", "environment.sh"}) {
    CHECK(run_command("bash -n " + tools + script).code == 0);
  }
  if (!found("python3")) {
    CHECK_THAT(run_command(tools + "run.sh --list").text, Contains("python3 is missing"));
    return;
  }
  const Result syntax = run_command("cd " + tools +
                                    " && python3 -c \"import ast, glob\nfor f in glob.glob('*.py'): "
                                    "ast.parse(open(f, encoding='utf-8').read(), f)\"");
  INFO(syntax.text);
  CHECK(syntax.code == 0);
  const Result list = run_command("env -u ZRT_PROGRAMS " + tools + "run.sh --list");
  CHECK(list.code == 0);
  for (const char* part : {"facts", "kernels", "models", "runtime", "sanitizer", "bench", "peers", "offload"}) {
    CHECK_THAT(list.text, Contains("\n" + std::string(part) + ' ') || Catch::Matchers::StartsWith(part));
  }
  CHECK_THAT(list.text, Contains("target gpu_bundle"));
  CHECK(run_command(tools + "run.sh --help").code == 0);
  const Result refused = run_command(tools + "run.sh --parts kernels,kernel");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, Contains("names 'kernel'") && Contains("sanitizer"));
  CHECK_THAT(run_command(tools + "run.sh").text, Contains("--parts is missing") && Contains("first_contact.sh"));
  CHECK_THAT(run_command(tools + "run.sh --parts facts --seconds 900").text, Contains("at most at 470"));
  CHECK_THAT(run_command(tools + "run.sh --parts offload --runs 17b,18b").text,
             Contains("names '18b'") && Contains("40b"));
}

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
  CHECK(results["a/hang"]["seconds"].get<double>() < 15);
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
  const auto begin = std::chrono::steady_clock::now();
  const Result call =
      run_command("ZRT_STARTED=$(($(date +%s) - 30)) " + first_contact(folder, 1, 60) + " --jobs 1 --seconds 36");
  INFO(call.text);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  CHECK(by_program(unpack(folder, 1))["a/last"]["result"] == "NOT RUN");
  CHECK_THAT(run_command(first_contact(folder, 6)).text, Contains("invalid choice: 6"));
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
      first_contact(folder, 1, 60) + " --jobs 1 >" + log + " 2>&1 & pid=$!; for i in $(seq 300); do " + sign +
      " && break; sleep 0.1; done; kill -" + (asked ? "TERM" : "KILL") + " $pid; wait $pid; cat " + log);
  INFO(call.text);
  const auto content = unpack(folder, 1);
  auto results = by_program(content);
  CHECK(results.size() == 3);
  CHECK(results["a/good"]["result"] == "passed");
  CHECK(results["a/bad"]["result"] == "FAILED");
  CHECK(content.value("ended_by", "") == (asked ? "SIGTERM" : ""));
}

TEST_CASE("first contact that a signal ends begins no more tests, and leaves none behind") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_first_contact_many");
  const std::string pids = folder / "pids";
  make_program(folder, "test_hangs", "echo $BASHPID >>" + pids + "; sleep 61");
  make_bundle(folder);
  std::string tests;
  for (int i = 0; i < 9; ++i) tests += "kernels|a/" + std::to_string(i) + "|test_hangs\n";
  folder.write("bundle/tests.txt", tests);
  const Result call = run_command(first_contact(folder, 1, 60) + " --jobs 4 >" + (folder / "log") +
                                  " 2>&1 & pid=$!; for i in $(seq 300); do [ \"$(wc -l <" + pids +
                                  ")\" = 4 ] && break; sleep 0.1; done; kill -TERM $pid; wait $pid; echo ended $?");
  INFO(call.text);
  CHECK_THAT(call.text, Contains("ended 143"));
  CHECK(run_command("sleep 0.5; wc -l <" + pids).text == "4\n");
  CHECK(living_of(pids) == 0);
  CHECK(unpack(folder, 1).value("ended_by", "") == "SIGTERM");
  // Packing was quick here. Where it is not, jobs that wait could begin meanwhile.
  const Result late =
      run_command("cd " + tools + " && PYTHONDONTWRITEBYTECODE=1 python3 -c \"import jobs\njobs.end_all()\n" +
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

TEST_CASE("runs of models larger than a GPU are sized for the machine at hand, and their copies are told") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_bundle_offload");
  make_zrt(folder), make_bundle(folder);
  const auto run = [&](const std::string& device_gib, const std::string& host_gib, const std::string& runs) {
    return run_command("ZRT_DEVICE_BYTES=$((" + device_gib + " << 30)) ZRT_HOST_BYTES=$((" + host_gib +
                       " << 30)) TMPDIR=" + folder.path.string() + " " + (folder / "bundle/run.sh") + " --out " +
                       (folder / "out") + " --parts offload --runs " + runs);
  };
  const Result large = run("140", "128", "14b");
  INFO(large.text);
  REQUIRE(large.code == 0);
  CHECK_THAT(large.text, Contains("17.00B parameters, 900 tokens/s") && Contains("exposed io 2.25 s") &&
                             Contains("device 1.00/1.00 GiB") && Contains("written 8.0 GB") &&
                             Contains("to_device 40.0 GB/s (0.80 of pinned), to_host 30.0 GB/s\n"));
  const auto row = read_json(folder / "out/results.json")["offload"].at(0);
  // 0.97 of 136 GiB at 2.69 each, and of 99.84 GiB of the host at 2.40: the host has the last word.
  const std::string command = row["command"];
  for (const char* part : {"zrt bench train --device cuda", "model.layers=40",
                           "memory.device_budget_bytes=146028888064", "memory.host_budget_bytes=107202383708"}) {
    CHECK_THAT(command, Contains(part));
  }
  CHECK(row["of_pinned"].size() == 1);
  REQUIRE(run("80", "64", "40b").code == 0);  // 0.97 of 76 and 49.92 GiB at 1.84 each
  CHECK_THAT(read_json(folder / "out/results.json")["offload"].at(0)["command"].get<std::string>(),
             Contains("model.layers=66"));
}

TEST_CASE("a bundle that cannot be carried together with the source is refused") {
  if (!found("xz") || !found("git")) return;
  const Folder folder("gpu_bundle_pack");
  fs::create_directories(folder / "build/share/zrt");
  folder.write("tests.txt", "kernels|a/one|test_one\nkernels|a/two|test_one|[#two]\n");
  const std::string build = folder / "build";
  REQUIRE(run_command("cp /bin/true " + build + "/zrt && cp /bin/true " + build + "/test_one").code == 0);
  const std::string pack = tools + "pack.sh " + build + " " + (folder / "out") + " " + (folder / "tests.txt");
  const Result fits = run_command(pack);
  INFO(fits.text);
  CHECK(fits.code == 0);
  CHECK_THAT(fits.text, Contains("2 programs"));
  CHECK(fs::exists(folder / "out/first_contact.sh"));
  const Result large = run_command("ZRT_GPU_BUNDLE_MIB=1 " + pack);
  CHECK(large.code == 1);
  CHECK_THAT(large.text, Contains("cannot be carried in one go"));
}

TEST_CASE("native builds are for the GPUs that the driver lists, and are refused where it lists none") {
  const Folder folder("native_chips");
  folder.write("ask.cmake", std::string("include(") + ZRT_SOURCE_DIR +
                                "/cmake/zrt_native_chips.cmake)\nzrt_native_chips(chips)\nmessage(\"for ${chips}\")\n");
  const auto ask = [&](const std::string& listed) {
    folder.write("nvidia-smi", "#!/bin/sh\n" + listed + "\n");
    fs::permissions(folder / "nvidia-smi", fs::perms::owner_all);
    return run_command("cmake -DZRT_NVIDIA_SMI=" + (folder / "nvidia-smi") + " -P " + (folder / "ask.cmake"));
  };
  CHECK(ask("echo 9.0; echo 8.6; echo 9.0").text == "for 90;86\n");
  CHECK(ask("echo 12.0").text == "for 120\n");
  const Result none = ask("echo 'No devices were found'");
  CHECK(none.code != 0);
  CHECK_THAT(none.text, Contains("lists no GPU here") && Contains("-DZRT_CUDA=OFF"));
  CHECK(ask("echo 9.0; exit 9").code != 0);
}

}  // namespace zrt::gpu_bundle_test
