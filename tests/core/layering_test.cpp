// Reads the source tree and checks the rules that the compiler cannot: includes point only downward, vendor headers
// stay in .cpp files and inside the folders of the back ends that need them, back ends are files, not #ifdefs, the mesh
// alone calculates with ranks, and a configuration that was checked is not changed.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"

namespace zrt::layering_test {

namespace {

using Sources = std::map<std::string, std::string>;  // path from the root → text

// Level of each room; a room may include itself and lower levels. Where a folder has rooms, all its files lie in one.
const std::map<std::string, int> levels = [] {
  const std::vector<std::set<std::string>> from_below{
      {"core"},           {"core/keys", "comm", "offload"},
      {"models"},         {"optimizer", "runtime/data", "runtime/train/checkpoint"},
      {"runtime/config"}, {"runtime/program"},
      {"runtime/cost"},   {"runtime/ops"},
      {"runtime/verify"}, {"runtime/passes"},
      {"runtime/plan"},   {"runtime/search", "runtime/engine"},
      {"runtime/train"},  {"runtime/report", "runtime/bench"},
      {"tools"}};
  std::map<std::string, int> all;
  for (size_t level = 0; level < from_below.size(); ++level) {
    for (const std::string& room : from_below[level]) all[room] = static_cast<int>(level);
  }
  return all;
}();

// The room that a path lies in: the longest of the names above that it begins with; "" for none.
std::string room_of(const std::string& path) {
  std::string room;
  for (const auto& [name, level] : levels) {
    if (path.starts_with(name + "/") && name.size() > room.size()) room = name;
  }
  return room;
}

bool may_include(const std::string& from, const std::string& to) {
  return from == to || levels.at(to) < levels.at(from);
}

// Folders whose own files may share vendor headers through headers of theirs.
bool in_back_end(const std::string& path) {
  return path.find("/cuda/") != std::string::npos || path.find("/nccl/") != std::string::npos;
}

// The one header that says __host__ and __device__ to all others.
constexpr const char* marks_functions = "core/host_device.h";

const std::regex vendor_header(
    R"((^|(?!.*/cuda/).*/)(dnnl|mpi|nccl|cuda_|cublas|cudnn|liburing|sentencepiece_processor|sentencepiece_trainer|pcre2|unicode/)[^/]*\.(h|hpp))");

std::vector<std::string> includes_of(const std::string& text) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<std::string> found;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, include)) found.push_back(match[1]);
  }
  return found;
}

// Headers of back ends that bring a vendor's along, by themselves or by others.
std::set<std::string> vendors_behind(const Sources& sources) {
  std::set<std::string> behind;
  for (size_t before = sources.size() + 1; before != behind.size();) {
    before = behind.size();
    for (const auto& [path, text] : sources) {
      if (!in_back_end(path) || !(path.ends_with(".h") || path.ends_with(".cuh"))) continue;
      for (const std::string& target : includes_of(text)) {
        if (std::regex_match(target, vendor_header) || behind.contains(target)) behind.insert(path);
      }
    }
  }
  return behind;
}

// Numbers that ranks are divided or multiplied by, and hosts that they are dealt to.
const std::regex arithmetic_of_ranks(
    R"((\brank_?(\.number)?|\b(ranks_per_host|stage_ranks\(\)))\s*[/%]\s*\w|[*/%]\s*(\w+\.)*(ranks_per_host|stage_ranks\(\)))");

// A configuration that was checked is another one by runtime/config/config.h alone.
const std::regex assignment_to_config(
    R"(\bconfig_?(\.|->)((run|zero|memory|batch|parallel|precision|optimizer|data)\.\w+|ranks|ranks_in_reach|mesh) = |\b\w+(\.|->)(zero|memory|batch|parallel|precision)\.\w+( = |\.(clear|push_back)\())");

// Files that work with numbers inside a group, and with GPUs, which are no axis.
bool may_calculate_ranks(const std::string& path) {
  return path.starts_with("core/mesh.") || path.starts_with("core/host_spread.") || path.starts_with("comm/") ||
         path.starts_with("models/") || path == "runtime/plan/gpus.cpp";
}

std::vector<std::string> violations(const Sources& sources) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  // The chip that a kernel's code is for (__CUDA_ARCH…) is no back end.
  static const std::regex back_end_switch(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b(?!.*__CUDA_ARCH).*(CUDA|NCCL))");
  const std::set<std::string> behind = vendors_behind(sources);
  std::vector<std::string> found;
  for (const auto& [path, text] : sources) {
    const std::string room = room_of(path);
    if (room.empty()) found.push_back(path + ": in no room");
    const bool header = path.ends_with(".h") || path.ends_with(".cuh");
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string where = path + ":" + std::to_string(number) + ": ";
      std::smatch match;
      if (std::regex_search(line, match, include)) {
        const std::string target = match[1];
        const std::string to = room_of(target);
        if (!room.empty() && !to.empty() && !may_include(room, to))
          found.push_back(where + room + " includes " + target);
        if (in_back_end(path)) continue;
        if (header && std::regex_match(target, vendor_header)) found.push_back(where + "vendor header " + target);
        if (behind.contains(target)) found.push_back(where + "vendor header behind " + target);
      }
      if (!may_calculate_ranks(path) && std::regex_search(line.substr(0, line.find("//")), arithmetic_of_ranks))
        found.push_back(where + "arithmetic of ranks outside of the mesh: " + line);
      if (!path.starts_with("runtime/config/") && std::regex_search(line, assignment_to_config))
        found.push_back(where + "a configuration changed after its check: " + line);
      if (path != marks_functions && std::regex_search(line, back_end_switch))
        found.push_back(where + "back end chosen by " + line);
    }
  }
  return found;
}

Sources read_tree() {
  namespace fs = std::filesystem;
  Sources sources;
  const fs::path root = ZRT_SOURCE_DIR;
  std::set<std::string> folders;
  for (const auto& [room, level] : levels) folders.insert(room.substr(0, room.find('/')));
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      std::ifstream file(entry.path());
      std::ostringstream text;
      text << file.rdbuf();
      sources[entry.path().lexically_relative(root).generic_string()] = text.str();
    }
  }
  return sources;
}

TEST_CASE("the source tree keeps the layering rules") {
  const Sources sources = read_tree();
  CHECK(sources.contains("core/dtype.h"));
  CHECK(sources.contains("comm/communicator.h"));
  for (const std::string& violation : violations(sources)) FAIL_CHECK(violation);
}

TEST_CASE("the scanner finds a planted violation of each rule") {
  const auto count = [](const std::string& path, const std::string& text) { return violations({{path, text}}).size(); };
  CHECK(count("core/a.h", "#include \"comm/communicator.h\"\n") == 1);
  CHECK(count("comm/a.cpp", "int x;\n  #  include <runtime/config/config.h>\n") == 1);
  CHECK(count("comm/a.cpp", "#include \"offload/nvme.h\"\n") == 1);
  CHECK(count("offload/a.cpp", "#include \"comm/communicator.h\"\n") == 1);
  CHECK(count("models/a.cpp", "#include \"optimizer/schedule.h\"\n") == 1);
  CHECK(count("optimizer/a.cpp", "#include \"runtime/program/a.h\"\n#include \"tools/x.h\"\n") == 2);
  CHECK(count("runtime/bench/a.cpp", "#include \"tools/x.h\"\n") == 1);
  CHECK(count("runtime/a.cpp", "#include \"core/error.h\"\n") == 1);
  CHECK(count("runtime/config/a.cpp", "#include \"runtime/program/a.h\"\n") == 1);
  CHECK(count("runtime/passes/a.cpp", "#include \"runtime/engine/a.h\"\n") == 1);
  CHECK(count("runtime/train/checkpoint/a.cpp", "#include \"runtime/train/a.h\"\n") == 1);
  CHECK(count("runtime/bench/a.cpp", "#include \"runtime/report/a.h\"\n") == 1);
  CHECK(count("models/a.h", "#include <oneapi/dnnl/dnnl.hpp>\n") == 1);
  CHECK(count("models/a.h", "#include <dnnl.hpp>\n") == 1);
  CHECK(count("comm/a.h", "#include <mpi.h>\n#include <nccl.h>\n#include <cuda_runtime.h>\n") == 3);
  CHECK(count("offload/a.h", "#include <liburing.h>\n") == 1);
  CHECK(count("core/cuda/a.cuh", "#include <cuda_runtime.h>\n#include <nccl.h>\n") == 0);
  CHECK(violations({{"core/cuda/a.h", "#include <cuda_runtime_api.h>\n"},
                    {"core/cuda/b.h", "#include \"core/cuda/a.h\"\n"},
                    {"core/cuda/c.cpp", "#include \"core/cuda/b.h\"\n"},
                    {"core/d.cpp", "#include \"core/cuda/b.h\"\n"}})
            .size() == 1);
  CHECK(count("core/a.cpp", "#ifdef ZRT_CUDA\n#endif\n") == 1);
  CHECK(count("runtime/ops/a.cpp", "int shard = call.rank.number / inner;\nif (rank % tensor != 0) return;\n") == 2);
  CHECK(count("runtime/plan/a.cpp", "int first = stage * mesh.stage_ranks();\nint host = rank_ / per_host;\n") == 2);
  CHECK(count("runtime/cost/a.cpp", "hosts = (world + 7) / cluster.ranks_per_host;\n") == 1);
  CHECK(count("runtime/bench/a.cpp", "c->config.zero.stage = stage;\nconfig_.memory.update = side;\n") == 2);
  CHECK(count("tools/a.cpp", "config.ranks_in_reach = 1;\n") == 1);
  CHECK(count("runtime/train/a.cpp", "one.zero.stage = 0;\none.memory.rules.clear();\n") == 2);
  CHECK(count("models/kernels/cuda/a.cuh", "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n#endif\n") == 0);
  CHECK(count("core/a.cpp", "#if defined(__CUDACC__)\n") == 1);
}

TEST_CASE("the scanner lets legal files pass") {
  const auto count = [](const std::string& path, const std::string& text) { return violations({{path, text}}).size(); };
  CHECK(count("comm/a.cpp", "#include \"core/error.h\"\n#include \"comm/call.h\"\n") == 0);
  CHECK(count("optimizer/a.h", "#include \"models/model.h\"\n#include \"comm/communicator.h\"\n") == 0);
  CHECK(count("tools/a.cpp", "#include \"runtime/plan/plan.h\"\n") == 0);
  CHECK(count("models/a.cpp", "#include <dnnl.hpp>\n") == 0);
  CHECK(count("core/mesh.cpp", "number += rank % degree;\n") == 0);
  CHECK(count("runtime/ops/a.cpp", "part = unit.elements / mesh.inner();  // a rank / a shard\n") == 0);
  CHECK(count("models/a.h", "#include \"models/kernels/cuda/gemm.h\"\n// the CUDA back end\n") == 0);
}

}  // namespace

}  // namespace zrt::layering_test
