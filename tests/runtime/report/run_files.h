// A folder of a run whose files a test writes, for tests of its page.
#pragma once
#include <cmath>
#include <fstream>
#include <string>

#include "runtime/report/report.h"
#include "tests/temporary_folder.h"

namespace zrt::run_files {

struct Run : testing::TemporaryFolder {
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }
  std::string page() const { return runtime::report::report_page(path); }
};

inline std::string step_line(int64_t step, const std::string& loss) {
  return R"({"step":)" + std::to_string(step) + R"(,"loss":)" + loss +
         R"(,"grad_norm":1.5,"lr":0.001,"loss_scale":1,"tokens":64,"step_seconds":0.5,"tokens_per_second":128,)"
         R"("exposed_comm_seconds":0.125,"exposed_io_seconds":0})"
         "\n";
}

inline std::string steps(int64_t first, int64_t last) {
  std::string text;
  for (int64_t s = first; s <= last; ++s) text += step_line(s, std::to_string(4 / std::sqrt(static_cast<double>(s))));
  return text;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

inline const std::string trace_head = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
inline std::string slice(int pid, int tid, const std::string& name, const std::string& cat, double ts, double dur) {
  return R"({"pid":)" + std::to_string(pid) + R"(,"name":")" + name + R"(","cat":")" + cat + R"(","ph":"X","tid":)" +
         std::to_string(tid) + R"(,"ts":)" + std::to_string(ts) + R"(,"dur":)" + std::to_string(dur) +
         R"(,"args":{"step":7,"bytes":2048,"block":"h.<0>"}},)"
         "\n";
}

}  // namespace zrt::run_files
