// The folder of a run's checkpoints: step_<N> for each that was committed, and `latest`, a hint for people.
//
// A checkpoint is written into .step_<N>.tmp. When every file in it is on disk the manifest follows, then the folder is
// renamed. A crash at any point leaves either no step_<N> or a whole one; what is left over is removed by the next run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/checkpoint/manifest.h"

namespace zrt::runtime::checkpoint {

struct Stored {
  std::filesystem::path folder;
  int64_t step;
};
// step_<N> folders, newest first, not checked. None when `store` does not exist; DataError when it cannot be read.
std::vector<Stored> list_checkpoints(const std::filesystem::path& store);

// Folders with checkpoints whose names are almost those of steps ("step_010", "Step 10"): others count them as theirs.
std::vector<std::filesystem::path> misnamed_checkpoints(const std::filesystem::path& store);

// Reads the manifest; with `hashes` all files too, else only their sizes. Throws DataError naming the file; also for a
// folder step_<N> whose manifest is of another step, or with almost such a name.
Manifest verify_checkpoint(const std::filesystem::path& checkpoint, bool hashes = true);

// The newest checkpoint that verifies; `skipped` hears why newer ones do not, and of misnamed ones. One that a run
// removes meanwhile counts as if it had never been there.
std::optional<Stored> newest_valid(const std::filesystem::path& store,
                                   const std::function<void(const std::string& why)>& skipped);

// The checkpoint that PATH means: a checkpoint itself, or the newest valid one of a run's folder; verified. Throws
// DataError.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

// Makes the folder `store` in one that exists: what is gone is not made again. It may be there. Throws DataError.
void make_store(const std::filesystem::path& store);
// Makes the folder to write into, and `optimizer` in it. Removes what an earlier try left there.
std::filesystem::path begin_checkpoint(const std::filesystem::path& store, int64_t step);
// Writes the manifest and moves the folder into place. Afterwards the checkpoint survives a power cut.
void commit_checkpoint(const std::filesystem::path& store, const std::filesystem::path& folder,
                       const Manifest& manifest);
// Puts back what a run that died between two renames had taken away to replace it, where the file system cannot
// exchange two folders.
void restore_replaced(const std::filesystem::path& store);
void remove_leftovers(const std::filesystem::path& store);  // of runs that died while saving

// Removes old checkpoints after that of `saved`, which has been read back and is whole: kept are the newest `keep_last`
// up to it (at least itself) and those whose step is a multiple of `keep_every`, when that is not 0. Ones of later
// steps do not count and stay: the run went back behind them because they are broken.
void prune_checkpoints(const std::filesystem::path& store, int64_t saved, int64_t keep_last, int64_t keep_every);

}  // namespace zrt::runtime::checkpoint
