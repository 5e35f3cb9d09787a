// A GPU bundle of shell scripts in place of its programs, for tests on a machine without a GPU.
#pragma once
#include "program.h"

namespace zrt::testing {

inline const std::string gpu_tools = std::string(ZRT_SOURCE_DIR) + "/tools/gpu/";

inline bool found(const std::string& program) {
  return run_command("command -v " + program).code == 0;
}

inline void make_program(const Folder& folder, const std::string& name, const std::string& text) {
  const fs::path bin = folder / "stage/bin";
  fs::create_directories(bin);
  folder.write("stage/bin/" + name, "#!/bin/bash\n" + text);
  fs::permissions(bin / name, fs::perms::owner_all);
}

// A bundle of shell scripts in place of the test programs; its facts and peers are scripts too.
inline void make_bundle(const Folder& folder) {
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
  // These have children of their own, which are deaf to being asked; so is the one that hangs.
  make_program(folder, "test_hang", "trap '' TERM\necho begun $BASHPID; sleep 1000 & wait; sleep 1000");
  make_program(folder, "test_crash",
               "echo begun $BASHPID; (trap '' TERM; exec sleep 1000) & echo last words; kill -SEGV $$");
  make_program(folder, "test_none", "echo No test cases matched; echo No tests ran");
  folder.write("bundle/tests.txt",
               "kernels|a/good|test_good|[#a]\nkernels|a/bad|test_bad\nkernels|a/hang|test_hang\n"
               "kernels|a/crash|test_crash\nkernels|a/last|test_good\nmodels|b/good|test_good\n"
               "runtime|c/fp8|test_good\n");
  folder.write("bundle/commit.txt", "abc\n"), folder.write("bundle/programs.id", "id\n");
  const Result copied = run_command("cp " + gpu_tools + "*.sh " + gpu_tools + "*.py " + gpu_tools + "*.json " + bundle);
  INFO(copied.text);
  REQUIRE(copied.code == 0);
  folder.write("bundle/facts.py",
               "print('{\"copy_bytes_per_second\": {\"host_to_device\": 5e10}, \"matrix_flops_per_second\": 8e14}')\n");
  folder.write("bundle/peer_pytorch.py", "print('{\"tokens_per_second\": 800.0, \"batch\": 32}')\n");
  const Result packed = run_command("tar -C " + (folder / "stage") + " -cJf " + bundle + "/programs.tar.xz .");
  INFO(packed.text);
  REQUIRE(packed.code == 0);
}

// Makes a program that prints and writes in zrt's place, and notes what it is asked.
inline void make_zrt(const Folder& folder) {
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

}  // namespace zrt::testing
