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

}  // namespace zrt::thread_limit_test
