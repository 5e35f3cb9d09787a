// Checkpoints that a run removes while another process reads them: they are gone, not broken.
#include "faults/process.h"

namespace zrt::vanishing_test {

using namespace zrt::testing;

namespace {

// A command that stops itself before it opens the manifest of step 2, which is removed then, as pruning does it.
Result vanishing(
    const Folder& folder, const std::string& command, const std::function<void()>& meanwhile = [] {}) {
  const fs::path store = folder.path / "run/checkpoints";
  const Fault fault{"stop", 1, "step_2/manifest.json", "read"};
  const std::string log = folder / "log";
  Process process(with_fault(store.string(), fault) + ZRT_BINARY_DIR "/zrt " + command, log);
  int status = 0;
  REQUIRE(waitpid(process.pid(), &status, WUNTRACED) == process.pid());
  INFO(process.text());
  REQUIRE(WIFSTOPPED(status));
  fs::rename(store / "step_2", store / ".step_2.old.tmp");
  fs::remove_all(store / ".step_2.old.tmp");
  meanwhile();
  process.send(SIGCONT);
  const int code = process.wait();
  return {code, process.text()};
}

struct Saved : Folder {
  Saved() : Folder("vanishing") {
    build_data(*this);
    write("c.json", config());
    const Result result = run_zrt("train " + (*this / "c.json") +
                                  " --steps 4 --set run.checkpoint_interval=2 --set data.validation=null");
    INFO(result.text);
    REQUIRE(result.code == 0);
    fs::rename(path / "run/checkpoints/step_4", path / "step_4");
  }
  // The run has saved step 4 meanwhile.
  std::function<void()> newer() const {
    return [this] { fs::rename(path / "step_4", path / "run/checkpoints/step_4"); };
  }
};

}  // namespace

TEST_CASE("verify, list and inspect take a checkpoint that is removed meanwhile for gone, and find the newer one") {
  const Saved saved;
  const auto copy = [&](const fs::path& from, const fs::path& to) {
    for (const char* name : {"run", "step_4"}) {
      fs::remove_all(to / name);
      fs::create_directories(to);
      fs::copy(from / name, to / name, fs::copy_options::recursive);
    }
  };
  copy(saved.path, saved.path / "copy");
  for (const std::string verb : {"verify", "list", "inspect", "export"}) {
    INFO(verb);
    copy(saved.path / "copy", saved.path);
    const std::string out = verb == "export" ? " --out " + (saved / "exported") : "";
    const Result result = vanishing(saved, "checkpoint " + verb + " " + (saved / "run") + out, saved.newer());
    INFO(result.text);
    CHECK(result.code == 0);
    CHECK_FALSE(contains(result.text, "broken"));
    CHECK_FALSE(contains(result.text, "step_2"));
    CHECK(contains(result.text, verb == "export" ? "exported" : "step_4"));
  }
  copy(saved.path / "copy", saved.path);
  const Result none = vanishing(saved, "checkpoint verify " + (saved / "run"));
  INFO(none.text);
  CHECK(none.code == 1);
  CHECK(contains(none.text, "holds no checkpoints"));
}

TEST_CASE("a run that starts from another run's checkpoints takes the newer one when the first is removed meanwhile") {
  const Saved saved;
  const std::string train = "train " + (saved / "c.json") + " --steps 6 --set data.validation=null --out " +
                            (saved / "second") + " --resume " + (saved / "run");
  const Result result = vanishing(saved, train, saved.newer());
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(contains(result.text, "going on after step 4 "));
  CHECK_FALSE(contains(result.text, "passed over"));
}

TEST_CASE("verify calls a folder broken whose number is not its step, as a resume does, and names both") {
  const Saved saved;
  const fs::path store = saved.path / "run/checkpoints";
  fs::rename(store / "step_2", store / "step_9");
  for (const std::string& path :
       {saved / "run", (store / "step_9").string(), (store / "step_9/").string(), (store / "step_9/.").string()}) {
    const Result result = run_zrt("checkpoint verify " + path);
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(contains(result.text, "its manifest is of step 2; give the folder its own name back, step_2"));
  }
  const Result listed = run_zrt("checkpoint list " + (saved / "run"));
  INFO(listed.text);
  CHECK(contains(listed.text, "broken: "));
  const std::string train =
      "train " + (saved / "c.json") + " --steps 6 --set data.validation=null --out " + (saved / "second");
  for (const std::string& resume : {saved / "run", (store / "step_9").string()}) {
    const Result result = run_zrt(train + " --resume " + resume);
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(contains(result.text, "its manifest is of step 2"));
  }
  // A checkpoint says nothing wrong under a name that is no step's.
  fs::rename(store / "step_9", saved.path / "best");
  CHECK(run_zrt("checkpoint verify " + (saved / "best")).code == 0);
}

}  // namespace zrt::vanishing_test
