// The scripts of the GPU bundle, on a machine without a GPU: what they say is missing, and how they judge programs.
#include "program.h"

namespace zrt::gpu_bundle_test {

using namespace zrt::testing;
using Catch::Matchers::Contains;

namespace {

const std::string tools = std::string(ZRT_SOURCE_DIR) + "/tools/gpu/";

bool found(const std::string& program) {
  return run_command("command -v " + program).code == 0;
}

// A bundle of shell scripts in place of the test programs.
void make_bundle(const Folder& folder) {
  const std::string bin = folder / "stage/bin", bundle = folder / "bundle";
  fs::create_directories(bin), fs::create_directories(bundle);
  const auto program = [&](const std::string& name, const std::string& text) {
    folder.write("stage/bin/" + name, "#!/bin/bash\n" + text);
    fs::permissions(fs::path(bin) / name, fs::perms::owner_all);
  };
  program("test_good", R"sh(echo "device $2"; echo "All tests passed (12 assertions in 3 test cases)")sh");
  program("test_bad", R"sh(cat <<'X'
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
  program("test_hang", "echo begun; sleep 60");
  program("test_crash", "echo last words; kill -SEGV $$");
  folder.write("bundle/tests.txt",
               "kernels:test_good\nkernels:test_bad\nkernels:test_hang\nkernels:test_crash\nmodels:test_good\n");
  folder.write("bundle/commit.txt", "abc\n"), folder.write("bundle/programs.id", "id\n");
  const Result packed = run_command("cp " + tools + "run.sh " + tools + "*.py " + bundle + " && tar -C " +
                                    (folder / "stage") + " -cJf " + bundle + "/programs.tar.xz .");
  INFO(packed.text);
  REQUIRE(packed.code == 0);
}

}  // namespace

TEST_CASE("the scripts of the GPU bundle are scripts, and say without a GPU what there is and what is missing") {
  for (const char* script : {"run.sh", "pack.sh"}) CHECK(run_command("bash -n " + tools + script).code == 0);
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
  CHECK_THAT(run_command(tools + "run.sh --seconds 900").text, Contains("at most at 470"));
  CHECK_THAT(run_command(tools + "run.sh --runs 17b,18b").text, Contains("names '18b'") && Contains("40b"));
}

TEST_CASE("programs that fail, crash or hang are named in the table, and the rest runs all the same") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_bundle");
  make_bundle(folder);
  const std::string run = "TMPDIR=" + folder.path.string() + " " + (folder / "bundle/run.sh") + " --out " +
                          (folder / "out") + " --seconds 4 --parts ";
  const Result mixed = run_command(run + "kernels,models");
  INFO(mixed.text);
  CHECK(mixed.code == 1);
  const auto results = read_json(folder / "out/results.json")["results"];
  REQUIRE(results.size() == 5);
  CHECK(results[0]["result"] == "passed");
  CHECK(results[0]["passed"] == 3);
  CHECK(results[1]["result"] == "FAILED");
  CHECK(results[1]["passed"] == 3);
  CHECK(results[1]["failed"] == 1);
  CHECK(results[1]["failures"] == nlohmann::json{"sums are right"});
  CHECK(results[2]["result"] == "TIMEOUT");
  CHECK(results[2]["seconds"].get<double>() < 10);
  CHECK(results[3]["result"] == "FAILED");
  CHECK(results[3]["note"] == "last words");
  CHECK(results[4]["part"] == "models");
  CHECK(results[4]["result"] == "passed");
  CHECK_THAT(mixed.text, Contains("! sums are right"));
  std::ifstream log(folder / "out/logs/kernels_test_good.txt");
  const std::string text{std::istreambuf_iterator<char>(log), {}};
  CHECK_THAT(text, Contains("device cuda"));
  CHECK(run_command(run + "models").code == 0);
}

TEST_CASE("Runs of models larger than a GPU are those that the plans were made of, and their copies are told") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_bundle_offload");
  fs::create_directories(folder / "stage/bin");
  folder.write("stage/bin/zrt", R"sh(#!/bin/bash
echo "$@" >>"$(dirname "$0")/asked"
cat <<'X'
{"parameters": 17000000000, "stages": [{"tokens_per_second": 900.5, "step_seconds": {"median": 4.5}, "setup_seconds": 80,
 "exposed_io_seconds": 2.25, "moved_bytes": {"to_device": 5000000000, "to_host": 6000000000, "read": 7000000000,
 "written": 8000000000}, "copy_bytes_per_second": {"to_device": 4e10, "to_host": 3e10},
 "tiers": {"device": {"planned_bytes": 1073741824, "measured_bytes": 1073741824}}}]}
X
)sh");
  fs::permissions(folder / "stage/bin/zrt", fs::perms::owner_all);
  make_bundle(folder);
  // In place of PyTorch's rates on a GPU.
  folder.write("bundle/facts.py", "print('{\"copy_bytes_per_second\": {\"host_to_device\": 5e10}}')\n");
  const Result run = run_command("TMPDIR=" + folder.path.string() + " " + (folder / "bundle/run.sh") + " --out " +
                                 (folder / "out") + " --parts offload --runs 17b");
  INFO(run.text);
  REQUIRE(run.code == 0);
  CHECK_THAT(run.text, Contains("17.00B parameters, 900 tokens/s") && Contains("exposed io 2.25 s") &&
                           Contains("device 1.00/1.00 GiB") && Contains("written 8.0 GB") &&
                           Contains("to_device 40.0 GB/s (0.80 of pinned), to_host 30.0 GB/s\n"));
  const auto row = read_json(folder / "out/results.json")["offload"].at(0);
  const std::string command = row["command"];
  for (const char* part : {"zrt bench train --device cuda", "model.layers=54",
                           "memory.device_budget_bytes=146028888064", "memory.host_budget_bytes=126701535232"}) {
    CHECK_THAT(command, Contains(part));
  }
  CHECK(row["of_pinned"].size() == 1);
}

}  // namespace zrt::gpu_bundle_test
