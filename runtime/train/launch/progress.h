// Reads a run's progress from its folder while the run goes on.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_set>

#include "core/held_folder.h"

namespace zrt::runtime {

// Reads steps from metrics.jsonl, however a restarted run treats that file: it may go on at its end, cut it to the
// step it resumes from, or start it anew; and whoever removes that file while the run lives. Signs of life between
// steps are changes of the modification times of the file `heartbeat` and of everything under checkpoints/. What the
// folder holds at construction counts as old.
class RunProgress {
 public:
  explicit RunProgress(const std::filesystem::path& out);  // exists; throws DataError
  ~RunProgress();
  RunProgress(const RunProgress&) = delete;
  RunProgress& operator=(const RunProgress&) = delete;

  bool poll();  // whether anything moved since the last call
  // Says why a start under the folder's name would not go on in it: it was renamed or removed. "" while it is there.
  std::string gone();

  // The step of the newest line, or of the newest checkpoint if metrics.jsonl was removed and nothing has run since; 0
  // means none.
  int64_t step() const { return step_ > 0 ? step_ : std::max<int64_t>(checkpoint_, 0); }
  int64_t highest_step() const { return highest_; }   // of those run since construction
  int64_t checkpoint() const { return checkpoint_; }  // highest N of checkpoints/step_N; or -1
  int64_t lost_steps() const { return lost_; }        // run a second time since construction
  // Counts the steps since construction that no checkpoint holds: another start would run them again.
  int64_t unsaved_steps() const {
    return std::min(taken_, std::max<int64_t>(highest_ - std::max<int64_t>(checkpoint_, 0), 0));
  }
  double productive_seconds() const { return productive_; }  // of the steps since construction, each step once
  double longest_step_seconds() const { return longest_; }

 private:
  bool poll_metrics();
  bool read_metrics();
  bool poll_files();
  void add(int64_t step, double seconds);

  core::HeldFolder folder_;
  std::filesystem::path out_;          // where the folder lies
  std::unordered_set<uint64_t> seen_;  // hashes of lines; those of a step that ran twice differ in their times
  int metrics_ = -1;                   // the file read, which may have no name any more
  uint64_t offset_ = 0;                // of the first byte not read yet
  std::string last_line_;              // ends at offset_
  uint64_t file_times_ = 0;            // stands for the times of all files looked at
  int64_t step_ = 0, highest_ = 0, checkpoint_ = -1, lost_ = 0, taken_ = 0;
  double productive_ = 0, longest_ = 0;
};

}  // namespace zrt::runtime
