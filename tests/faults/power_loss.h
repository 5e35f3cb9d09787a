// Models what a disk may hold after a power cut. A Disk replays the journal of the fault shim; at any moment of it,
// what was not brought to disk may be there or not, each change by itself: entries of a folder that was not synced
// since, and of a file as it was synced last, nothing newer, half of it, all of it, or as many zeros. A rename inside a
// folder is there as a whole or not at all. (The model of Pillai et al., "All file systems are not created equal", OSDI
// 2014, with no order among changes that no sync puts in order.)
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/faults.h"

namespace zrt::testing {

// A line of the journal, and the data of a write.
struct JournalEntry {
  std::string op, path, more;  // more: a rename's target, a write's offset, a truncation's size
  std::string data;
  bool is_sync() const { return op == "fsync"; }
  std::string text() const { return op + " " + path + (more.empty() ? "" : " " + more); }
};
std::vector<JournalEntry> read_journal(const fs::path& file);

// Goes through every sequence of choices, or those with at most `most` that are not 0:
// `do { … choose(n) … } while (next());`
class Choices {
 public:
  explicit Choices(size_t most = SIZE_MAX) : most_(most) {}
  size_t choose(size_t count) {
    if (at_ == taken_.size()) taken_.emplace_back(0, others_ < most_ ? count : 1);
    others_ += taken_[at_].first > 0;
    return taken_[at_++].first;
  }
  bool next() {
    while (!taken_.empty() && ++taken_.back().first == taken_.back().second) taken_.pop_back();
    at_ = others_ = 0;
    return !taken_.empty();
  }

 private:
  std::vector<std::pair<size_t, size_t>> taken_;
  size_t most_, at_ = 0, others_ = 0;
};

class Disk {
 public:
  // True for paths below the root that anybody looks at after the cut: others are no part of a state.
  using Matters = std::function<bool(const fs::path& relative)>;

  // All that lies in `root` now is on disk.
  Disk(fs::path root, Matters matters);
  void apply(const JournalEntry& entry);
  // One of the states that a cut now may leave, by path below the root.
  struct State {
    std::map<std::string, std::shared_ptr<const std::string>> files;
    std::vector<std::string> folders;
    std::string name;  // equal names: equal states
    void make(const fs::path& at) const;
  };
  State state(Choices& choices) const;
  State now() const;  // with all changes

 private:
  struct Node {
    bool folder = true;
    std::map<std::string, int> entries, kept;         // now; when it was synced last
    std::vector<std::map<std::string, int>> changes;  // since then, one by one; gone: none
    std::shared_ptr<const std::string> data, synced;  // of a file
    size_t version = 0, synced_version = 0;
  };
  int load(const fs::path& path);
  int make(bool folder);
  int find(const fs::path& path) const;
  void set(const fs::path& folder, const std::map<std::string, int>& change);
  void add(State& state, int node, const fs::path& path, Choices* choices) const;

  fs::path root_;
  Matters matters_;
  std::vector<Node> nodes_;
};

}  // namespace zrt::testing
