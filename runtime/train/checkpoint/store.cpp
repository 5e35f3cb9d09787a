#include "runtime/train/checkpoint/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/held_folder.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* replaced_end = ".replaced.tmp";

std::string step_name(int64_t step) {
  return fmt::format("step_{}", step);
}

// N of "step_N" as step_name writes it, or -1.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  if (name.rfind("step_", 0) != 0) return -1;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return error == std::errc() && step >= 0 && step_name(step) == name ? step : -1;
}

// "step_010", "STEP 10": other tools write and sort steps so.
bool almost_a_step(const std::string& name) {
  std::string letters, digits;
  for (const unsigned char c : name) {
    if (std::isdigit(c)) digits += static_cast<char>(c);
    if (std::isalpha(c) || c == '.') letters += static_cast<char>(std::tolower(c));
  }
  return letters == "step" && !digits.empty() && step_of(name) < 0;
}

// A folder that is not there yet: a link that somebody put in its place is not followed.
void make_new_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return;
  throw core::DataError(fmt::format("{}: cannot be made: {}", path.string(), std::strerror(errno)));
}

// Exchanges two folders at once, so that no moment is without either. False where the file system cannot.
bool exchange(const fs::path& a, const fs::path& b) {
  constexpr unsigned rename_exchange = 2;
  return syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), rename_exchange) == 0;
}

}  // namespace

std::vector<Stored> list_checkpoints(const fs::path& store) {
  std::vector<Stored> found;
  std::error_code error, ignored;
  for (fs::directory_iterator at(store, error), end; !error && at != end; at.increment(error)) {
    const int64_t step = step_of(at->path().filename().string());
    if (step >= 0 && at->is_directory(ignored)) found.push_back({at->path(), step});
  }
  // A folder that is there but cannot be read is not an empty one: a run would start afresh over its checkpoints.
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    throw core::DataError(fmt::format("{}: the checkpoints cannot be listed: {}", store.string(), error.message()));
  }
  std::sort(found.begin(), found.end(), [](const Stored& a, const Stored& b) { return a.step > b.step; });
  return found;
}

std::vector<fs::path> misnamed_checkpoints(const fs::path& store) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(store, error), end; !error && at != end; at.increment(error)) {
    const fs::path& folder = at->path();
    if (almost_a_step(folder.filename().string()) && fs::exists(folder / manifest_name)) found.push_back(folder);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Manifest verify_checkpoint(const fs::path& checkpoint, bool hashes) {
  const fs::path manifest_path = checkpoint / manifest_name;
  Manifest manifest = parse_manifest(core::read_text(manifest_path, max_manifest_bytes), manifest_path.string());
  const fs::path whole = (fs::absolute(checkpoint) / "").lexically_normal().parent_path();
  const int64_t named = step_of(whole.filename().string());
  if ((named >= 0 && named != manifest.step) || almost_a_step(whole.filename().string())) {
    throw core::DataError(fmt::format("{}: its manifest is of step {}; give the folder its own name back, {}",
                                      checkpoint.string(), manifest.step, step_name(manifest.step)));
  }
  for (const auto& [name, record] : manifest.files) {
    const fs::path path = checkpoint / name;
    const core::InputFile file(path);
    if (file.bytes() != record.bytes) {
      throw core::DataError(fmt::format("{}: has {} bytes where the manifest says {}; it {}", path.string(),
                                        file.bytes(), record.bytes,
                                        file.bytes() < record.bytes ? "is truncated" : "was changed"));
    }
    if (!hashes) continue;
    const std::string xxh3 = file.xxh3();
    if (xxh3 != record.xxh3) {
      throw core::DataError(fmt::format("{}: its contents have the hash {} where the manifest says {}; it is corrupt",
                                        path.string(), xxh3, record.xxh3));
    }
  }
  return manifest;
}

std::optional<Stored> newest_valid(const fs::path& store, const std::function<void(const std::string&)>& skipped) {
  for (const fs::path& misnamed : misnamed_checkpoints(store)) {
    try {
      verify_checkpoint(misnamed, false);
    } catch (const core::DataError& error) {
      skipped(error.what());
    }
  }
  std::set<fs::path> broken;
  for (bool gone = true; gone;) {
    gone = false;
    for (const Stored& candidate : list_checkpoints(store)) {
      if (broken.count(candidate.folder)) continue;
      try {
        verify_checkpoint(candidate.folder);
        return candidate;
      } catch (const core::DataError& error) {
        // A run removes old checkpoints when it has saved newer ones, which are in the next list.
        gone = !fs::exists(candidate.folder);
        if (gone) break;
        broken.insert(candidate.folder);
        skipped(error.what());
      }
    }
  }
  return std::nullopt;
}

fs::path find_checkpoint(const fs::path& path) {
  if (fs::exists(path / manifest_name)) {
    verify_checkpoint(path);
    return path;
  }
  std::string reasons;
  for (const fs::path& store : {path / "checkpoints", path}) {
    const auto found = newest_valid(store, [&](const std::string& why) { reasons += "\n  " + why; });
    if (found) return found->folder;
  }
  throw core::DataError(fmt::format(
      "{} holds no checkpoint{}", path.string(),
      reasons.empty() ? " (checkpoints/step_*/manifest.json); name a run that `zrt train` saved, or a checkpoint"
                      : " that is whole:" + reasons));
}

void make_store(const fs::path& store) {
  core::refuse_special(store);
  std::error_code error;
  if (fs::is_directory(store, error)) return;
  make_new_folder(store);
  core::sync_folder(store.parent_path());
}

fs::path begin_checkpoint(const fs::path& store, int64_t step) {
  const fs::path folder = store / fmt::format(".{}.tmp", step_name(step));
  std::error_code error;
  fs::remove_all(folder, error);
  make_store(store);
  make_new_folder(folder);  // the commit brings both to disk
  make_new_folder(folder / "optimizer");
  return folder;
}

void commit_checkpoint(const fs::path& store, const fs::path& folder, const Manifest& manifest) {
  if (std::none_of(manifest.files.begin(), manifest.files.end(),
                   [](const auto& file) { return file.first.rfind("optimizer/", 0) == 0; })) {
    fs::remove(folder / "optimizer");
  } else {
    core::sync_folder(folder / "optimizer");
  }
  core::write_durably(folder / manifest_name, format_manifest(manifest));  // syncs the folder
  const fs::path target = store / step_name(manifest.step);
  if (fs::exists(target)) {
    // The same step again, after training went back behind it.
    if (exchange(folder, target)) {
      core::sync_folder(store);
      fs::remove_all(folder);
    } else {
      const fs::path old = store / fmt::format(".{}{}", step_name(manifest.step), replaced_end);
      fs::remove_all(old);
      core::rename_path(target, old);
      core::rename_path(folder, target);
      core::sync_folder(store);
      fs::remove_all(old);
    }
  } else {
    core::rename_path(folder, target);
    core::sync_folder(store);
  }
  try {
    core::write_durably(store / "latest", step_name(manifest.step) + "\n");
  } catch (const core::DataError&) {
    // Only a hint; the checkpoint is committed.
  }
}

void restore_replaced(const fs::path& store) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(store, error)) {
    const std::string name = entry.path().filename().string();
    if (name.front() == '.' && name.ends_with(replaced_end)) names.push_back(name);
  }
  for (const std::string& name : names) {
    const std::string step = name.substr(1, name.size() - 1 - std::string(replaced_end).size());
    if (step_of(step) >= 0 && !fs::exists(store / step)) fs::rename(store / name, store / step, error);
  }
}

void remove_leftovers(const fs::path& store) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(store, error)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished = name.starts_with(".step_") || name.starts_with(".probe-");
    const bool ours = name == "latest.tmp" || (unfinished && name.ends_with(".tmp"));
    if (ours) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

void prune_checkpoints(const fs::path& store, int64_t saved, int64_t keep_last, int64_t keep_every) {
  std::vector<Stored> all = list_checkpoints(store);
  std::erase_if(all, [&](const Stored& stored) { return stored.step > saved; });
  for (size_t i = 1; i < all.size(); ++i) {
    const bool milestone = keep_every > 0 && all[i].step % keep_every == 0;
    if (static_cast<int64_t>(i) < keep_last || milestone) continue;
    // Out of sight at once: a folder that is half removed must not look like a checkpoint.
    const fs::path dying = store / fmt::format(".{}.old.tmp", all[i].folder.filename().string());
    std::error_code error;
    fs::rename(all[i].folder, dying, error);
    if (!error) core::sync_folder(store);  // so that it does not come back after a power cut
    fs::remove_all(error ? all[i].folder : dying, error);
  }
  remove_leftovers(store);  // what could not be removed the last time
}

}  // namespace zrt::runtime::checkpoint
