// Runs of zrt that meet faults, and what must hold after each: see README.md.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "program.h"
#include "runtime/train/checkpoint/store.h"

namespace zrt::testing {

// Says where and how a call that changes a file below `prefix` fails; the fields are the shim's variables.
struct Fault {
  std::string kind;
  size_t at = 0;  // 1: the first call
  std::string match = "", ops = "";
  bool sticky = false;
  std::string more = "";  // variables, NAME=VALUE
};

// Returns what goes before a command for it to meet the fault; without a kind its calls are only listed in `log`.
inline std::string with_fault(const std::string& prefix, const Fault& fault, const std::string& log = "") {
  std::string text = "env ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_PRELOAD=" ZRT_BINARY_DIR
                     "/libfault_shim.so ZRT_FAULT_PREFIX=" +
                     prefix + " ZRT_FAULT_KIND=" + fault.kind + " ZRT_FAULT_AT=" + std::to_string(fault.at) +
                     " ZRT_FAULT_MATCH='" + fault.match + "' ZRT_FAULT_OPS=" + fault.ops + " " + fault.more;
  if (fault.sticky) text += " ZRT_FAULT_STICKY=1";
  if (!log.empty()) text += " ZRT_FAULT_LOG=" + log;
  return text + " ";
}

// "" where there is none, also where it goes meanwhile, as files of processes do.
inline std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline bool full_tests() {
  return std::getenv("ZRT_FULL_TESTS") != nullptr;
}

// Random moments, whose seed is printed with every failure; ZRT_FAULT_SEED repeats them.
struct Moments {
  uint32_t seed;
  std::mt19937 random;
  Moments()
      : seed(std::getenv("ZRT_FAULT_SEED") ? static_cast<uint32_t>(std::atoll(std::getenv("ZRT_FAULT_SEED")))
                                           : std::random_device()()),
        random(seed) {}
  double between(double low, double high) { return std::uniform_real_distribution<>(low, high)(random); }
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random); }
  // `count` of the numbers 1 … n, or all.
  std::vector<size_t> some(size_t count, size_t n) {
    std::vector<size_t> all(n);
    for (size_t i = 0; i < n; ++i) all[i] = i + 1;
    std::shuffle(all.begin(), all.end(), random);
    all.resize(std::min(count, n));
    return all;
  }
};

// Every checkpoint in sight is whole, by its hashes. Returns their manifests by step.
inline std::map<int64_t, std::string> require_whole(const fs::path& store) {
  std::map<int64_t, std::string> found;
  for (const auto& stored : runtime::checkpoint::list_checkpoints(store)) {
    runtime::checkpoint::Manifest manifest;
    REQUIRE_NOTHROW(manifest = runtime::checkpoint::verify_checkpoint(stored.folder));
    manifest.planned_samples = 0;  // what the run was planned for may differ
    found[stored.step] = runtime::checkpoint::format_manifest(manifest);
  }
  return found;
}

// Nothing unfinished lies in the folder of a run, or in its checkpoints.
inline void check_no_leftovers(const fs::path& run) {
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    INFO(entry.path());
    CHECK(entry.path().extension() != ".tmp");
  }
}

}  // namespace zrt::testing
