// A run whose next save meets a fault at one of its calls that change a file.
#pragma once
#include "tests/faults/faults.h"

namespace zrt::testing {

// A run with the checkpoints of steps 2 and 4, which each case goes on from, and what comes of it without a fault.
struct Base : Folder {
  std::string final_state;
  std::map<int64_t, std::string> files;  // of steps 2, 4, 6, 8

  Base() : Folder("save_points") {
    build_data(*this);
    write("c.json", config());
    REQUIRE(run("", "--steps 4").code == 0);
    fs::copy(path / "run", path / "base", fs::copy_options::recursive);
    files = require_whole(store());
    REQUIRE(run("", "--steps 8").code == 0);
    files.merge(require_whole(store()));
    REQUIRE(files.size() == 4);
    final_state = read_json(*this / "run/summary.json")["state_xxh3"];
  }

  fs::path store() const { return path / "run/checkpoints"; }
  void reset() const {
    fs::remove_all(path / "run");
    fs::copy(path / "base", path / "run", fs::copy_options::recursive);
  }
  Result run(const std::string& before, const std::string& more, const std::string& resume = "auto") const {
    return run_command(before + ZRT_BINARY_DIR "/zrt train " + (*this / "c.json") +
                       " --ranks 2 --set run.checkpoint_interval=2 --set data.validation=null --resume " + resume +
                       " " + more);
  }
  Result faulted(const Fault& fault, const std::string& more, const std::string& resume = "auto") const {
    fs::remove(path / "log");
    return run(with_fault(store().string(), fault, *this / "log"), more, resume);
  }
  // The calls that a run makes where they lie in one order: in a shard, which one thread writes, or in no shard.
  std::vector<std::string> calls(const std::string& match, const std::string& more, const std::string& resume = "auto",
                                 const std::string& variables = "") const {
    reset();
    const Result result = faulted({"", 0, match, "", false, variables}, more, resume);
    INFO(result.text);
    REQUIRE(result.code == 0);
    return read_lines(path / "log");
  }
};

inline const std::vector<std::string> places{"shard-00001", "shard-00002", "!shard-"};

// Goes on without a fault: the same bits as if nothing had happened, and nothing lies about.
inline void check_restart(const Base& base, const std::string& more) {
  const Result again = base.run("", more);
  INFO(again.text);
  REQUIRE(again.code == 0);
  CHECK(read_json(base / "run/summary.json")["state_xxh3"] == base.final_state);
  CHECK(run_zrt("checkpoint verify " + (base / "run")).code == 0);
  check_no_leftovers(base.path / "run");
}

}  // namespace zrt::testing
