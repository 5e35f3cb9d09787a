// A power cut at every point of a save: no checkpoint is half there, and one that a save has reported stays.
#include "tests/faults/power_loss.h"

#include <functional>
#include <set>

#include "core/error.h"
#include "tests/faults/save_points.h"
#include "tests/temporary_folder.h"

namespace zrt::power_loss_test {

using namespace zrt::testing;

namespace {

const fs::path in_store = "run/checkpoints";

// True for all of the store but what a run that starts removes unseen.
bool matters(const fs::path& relative) {
  auto part = relative.begin();
  for (const fs::path& folder : in_store) {
    if (part == relative.end()) return true;
    if (*part++ != folder) return false;
  }
  if (part == relative.end()) return true;
  const std::string name = *part;
  return name[0] != '.' ? name != "latest.tmp" : name.ends_with(".replaced.tmp");
}

// Says what must hold after a cut while a run saves `renewed`, having saved `before`.
struct Expected {
  std::map<int64_t, std::string> files;  // the manifests of all steps
  std::optional<int64_t> before;         // what was the newest
  int64_t renewed;
  bool replaces = false;  // the one of that step is broken at first
};

// "" or what is wrong with a store; `saved`: the save has told that it is done.
std::string fault_of(const fs::path& store, const Expected& expected, bool saved) {
  runtime::checkpoint::restore_replaced(store);
  std::set<int64_t> whole;
  for (const auto& stored : runtime::checkpoint::list_checkpoints(store)) {
    try {
      runtime::checkpoint::Manifest manifest = runtime::checkpoint::verify_checkpoint(stored.folder);
      manifest.planned_samples = 0;
      if (format_manifest(manifest) != expected.files.at(stored.step)) return "another checkpoint than was saved";
      whole.insert(stored.step);
    } catch (const core::DataError& error) {
      const bool was_broken = expected.replaces && stored.step == expected.renewed && !saved;
      if (!was_broken) return error.what();
    }
  }
  if (expected.before && !whole.count(*expected.before)) return "the old checkpoint is gone";
  if (saved && !whole.count(expected.renewed)) return "the new checkpoint is gone";
  const std::string latest = read_file(store / "latest");
  if (saved && latest != "step_" + std::to_string(expected.renewed) + "\n") return "'latest' names another one";
  const bool known = latest.empty() || fs::exists(store / latest.substr(0, latest.find('\n')));
  return known && (latest.empty() || latest.back() == '\n') ? "" : "'latest' names '" + latest + "'";
}

constexpr size_t most_states = 4000;  // of all points together; where nothing is forgotten some dozens

// A run's journal, played once for every question to it.
struct Played {
  const Base& base;
  std::vector<JournalEntry> journal;
  Disk start;
  Expected expected;

  // Returns behind how many entries the save tells that it is done: with the sync of the store that follows the last
  // `latest`.
  size_t told() const {
    const std::string store = (base.path / in_store).string();
    size_t renamed = 0;
    while (renamed < journal.size() && journal[renamed].more != store + "/latest") ++renamed;
    REQUIRE(renamed < journal.size());
    for (size_t at = renamed; at < journal.size(); ++at) {
      if (journal[at].more == store + "/latest") renamed = at;
    }
    size_t at = renamed;
    while (at < journal.size() && !(journal[at].is_sync() && journal[at].path == store)) ++at;
    REQUIRE(at < journal.size());
    return at + 1;
  }

  // Goes through every state at every point; returns the first fault. Without sync number `dropped` those states are
  // enough in which at most two changes are there that need not be.
  std::string first_fault(std::optional<size_t> dropped, const std::function<void(const Disk::State&)>& visit) {
    Disk disk = start;
    std::set<std::string> seen;
    size_t states = 0;
    const size_t done = told();
    for (size_t at = 0; at <= journal.size(); ++at) {
      if (at > 0 && at - 1 != dropped) disk.apply(journal[at - 1]);
      const bool saved = at >= done;
      if (at == done) seen.clear();  // more is expected of them now
      Choices choices(dropped ? 2 : SIZE_MAX);
      do {
        const Disk::State state = disk.state(choices);
        if (!seen.insert(state.name).second) continue;
        if (++states > most_states) return "much is not on disk: more than " + std::to_string(most_states) + " states";
        const TemporaryFolder folder;
        state.make(folder.path);
        const std::string fault = fault_of(folder.path / in_store, expected, saved);
        if (!fault.empty()) {
          return "after " + (at == 0 ? "nothing" : journal[at - 1].text()) + ": " + fault + "\n" + state.name;
        }
        if (visit) visit(state);
      } while (choices.next());
    }
    return "";
  }

  // The syncs of the store, and of folders that were made for it, without which nothing is lost.
  std::vector<std::string> needless() {
    std::vector<std::string> found;
    for (size_t at = 0; at < journal.size(); ++at) {
      const std::string path = fs::path(journal[at].path).lexically_relative(base.path);
      const bool above = path == "." || (path == "run" && at > 0 && journal[at - 1].op == "mkdir");
      if (!journal[at].is_sync() || (!above && path.find(in_store) != 0)) continue;
      if (first_fault(at, {}).empty()) found.push_back(path);
    }
    return found;
  }
};

Played play(const Base& base, Expected expected, const std::string& more, const std::string& variables = "") {
  const TemporaryFolder log;
  Disk start(base.path, matters);
  const Fault journaled{"", 0, "", "", false, "ZRT_FAULT_JOURNAL=" + (log.path / "journal").string() + " " + variables};
  const Result result = base.run(with_fault(base.path.string(), journaled), more);
  INFO(result.text);
  REQUIRE(result.code == 0);
  Played played{base, read_journal(log.path / "journal"), std::move(start), std::move(expected)};
  // The journal tells of all that happened.
  Disk end = played.start;
  for (const JournalEntry& entry : played.journal) end.apply(entry);
  const Disk::State now = end.now();
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(base.store())) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path());
    const auto found = now.files.find(entry.path().lexically_relative(base.path));
    REQUIRE(found != now.files.end());
    CHECK(*found->second == read_file(entry.path()));
    ++files;
  }
  CHECK(files == now.files.size());
  return played;
}

}  // namespace

TEST_CASE("a power cut at any point of a save and of pruning leaves the old or the new checkpoint, each whole") {
  const Base base;
  Moments moments;
  base.reset();
  Played played = play(base, {base.files, 4, 6}, "--steps 6");
  std::vector<Disk::State> left;
  const std::string fault = played.first_fault({}, [&](const Disk::State& state) { left.push_back(state); });
  INFO(fault);
  REQUIRE(fault.empty());
  CHECK(left.size() >= 5);
  CHECK(played.needless() == std::vector<std::string>{});
  for (const size_t one : moments.some(full_tests() ? left.size() : 3, left.size())) {
    INFO("seed " << moments.seed << "; " << left[one - 1].name);
    base.reset();
    fs::remove_all(base.store());
    left[one - 1].make(base.path);
    check_restart(base, "--steps 8");
  }
}

TEST_CASE("the first checkpoint of a run stays after a power cut, with the folders that were made for it") {
  const Base base;
  fs::remove_all(base.path / "run");
  Played played = play(base, {base.files, {}, 2}, "--steps 2");
  const std::string fault = played.first_fault({}, {});
  INFO(fault);
  REQUIRE(fault.empty());
  CHECK(played.needless() == std::vector<std::string>{});
}

TEST_CASE("a power cut while a broken checkpoint is replaced leaves what is whole, with and without an exchange") {
  const Base base;
  for (const std::string variables : {"", "ZRT_FAULT_NO_EXCHANGE=1"}) {
    base.reset();
    fs::resize_file(base.store() / "step_4/manifest.json", 100);
    Played played = play(base, {base.files, 2, 4, true}, "--steps 4", variables);
    const std::string fault = played.first_fault({}, {});
    INFO(variables << " " << fault);
    REQUIRE(fault.empty());
    // `latest` named this step before, too; and where the two are exchanged either of them may be there.
    CHECK(played.needless() == std::vector<std::string>(variables.empty() ? 2 : 1, in_store));
  }
}

}  // namespace zrt::power_loss_test
