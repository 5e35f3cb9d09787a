// Threads that the system does not let begin. Sanitizers take more memory than is left here.
#include "program.h"

namespace zrt::thread_limit_test {

using namespace zrt::testing;

TEST_CASE("threads that the system does not let begin are an error that says how many") {
  const Folder folder("thread_limit");
  const Result result = run_command("(ulimit -v 3000000; " ZRT_BINARY_DIR "/zrt data build --threads 1024 --out " +
                                    (folder / "x") + " " + (folder / "text.txt") + ")");
  INFO(result.text);
  CHECK(result.code == 2);
  CHECK(result.text.find("threads is 1024, but the system lets no more than ") != std::string::npos);
  CHECK(!fs::exists(folder.path / "x.bin"));
}

TEST_CASE("a process that the system ends with a bus error says what that means first") {
  const Folder folder("bus_error");
  REQUIRE(run_zrt("data build --tokenizer bytes --out " + (folder / "x") + " " + (folder / "text.txt")).code == 0);
  folder.write("run.json", R"({"model": {"preset": "gpt2-tiny", "vocab": 300, "sequence": 32}, "train_batch_size": 4,
    "run": {"steps": 1000000}})");
  const Result result =
      run_command("(" ZRT_BINARY_DIR "/zrt train " + (folder / "run.json") + " --set data.train=" + (folder / "x") +
                  " --out " + (folder / "run") + " & run=$!; while [ ! -s " + (folder / "run/metrics.jsonl") +
                  " ]; do sleep 0.05; done; kill -BUS $run; wait $run)");
  INFO(result.text);
  CHECK(result.code != 0);
  CHECK(result.text.find("zrt: error: memory that this process was given is not there (Bus error)") !=
        std::string::npos);
}

}  // namespace zrt::thread_limit_test
