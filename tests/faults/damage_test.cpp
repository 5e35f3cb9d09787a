// Checkpoints that were whole once: a truncated file or a flipped bit costs the newest one, not the run.
#include "tests/faults/save_points.h"

namespace zrt::damage_test {

using namespace zrt::testing;

TEST_CASE("a run whose newest checkpoint is damaged anywhere says where and goes on from the one before") {
  const Base base;
  Moments moments;
  for (int turn = 0; turn < (full_tests() ? 200 : 20); ++turn) {
    base.reset();
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(base.store() / "step_4")) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    const fs::path& file = files[moments.below(files.size())];
    std::string bytes = read_file(file);
    const size_t at = moments.below(bytes.size());
    if (turn % 2 == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << moments.below(8)));
    }
    std::ofstream(file, std::ios::binary) << bytes;
    INFO("seed " << moments.seed << ", " << file << (turn % 2 ? " bit of byte " : " cut at ") << at);
    const Result verified = run_zrt("checkpoint verify " + (base / "run"));
    INFO(verified.text);
    CHECK(verified.code == 1);
    CHECK(contains(verified.text, "1 of 2 checkpoints are broken"));
    const Result result = base.run("", "--steps 8");
    INFO(result.text);
    REQUIRE(result.code == 0);
    CHECK(contains(result.text, "a checkpoint is passed over: "));
    CHECK(contains(result.text, file.filename().string()));
    CHECK(contains(result.text, "going on after step 2 "));
    CHECK(read_json(base / "run/summary.json")["state_xxh3"] == base.final_state);
    check_no_leftovers(base.path / "run");
  }
}

TEST_CASE("a run without a whole checkpoint is refused and nothing of it is lost, however many are broken") {
  const Base base;
  for (const bool both : {true, false}) {
    base.reset();
    if (!both) fs::remove_all(base.store() / "step_4");
    for (const char* step : {"step_2", "step_4"}) {
      const fs::path manifest = base.store() / step / "manifest.json";
      if (fs::exists(manifest)) fs::resize_file(manifest, 20);
    }
    const std::string metrics = read_file(base / "run/metrics.jsonl");
    const Result result = base.run("", "--steps 8");
    INFO(result.text);
    CHECK(result.code != 0);
    CHECK(contains(result.text, both ? "holds 2 checkpoint(s), none of them whole" : "holds 1 checkpoint(s)"));
    CHECK(read_file(base / "run/metrics.jsonl") == metrics);
    CHECK(fs::exists(base.store() / "step_2/manifest.json"));
    CHECK_FALSE(fs::exists(base.store() / "step_8"));
  }
  // None at all is a start.
  base.reset();
  fs::remove_all(base.store());
  CHECK(base.run("", "--steps 1").code == 0);
}

}  // namespace zrt::damage_test
