#include "runtime/train/telemetry/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

constexpr int runs_thread = 0;  // lanes follow

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Writer {
 public:
  Writer(const ProgramSet& set, const models::Model& model, int rank, double origin)
      : set_(set), model_(model), rank_(rank), origin_(origin) {}

  void names() {
    add(R"("name":"process_name","ph":"M","tid":0,"args":{{"name":"rank {}"}})", rank_);
    add(R"("name":"process_sort_index","ph":"M","tid":0,"args":{{"sort_index":{}}})", rank_);
    thread(runs_thread, "programs");
    for (size_t lane = 0; lane < set_.lanes.size(); ++lane) {
      thread(static_cast<int>(lane) + 1, set_.lanes[lane].name());
    }
  }

  void run(const TimedRun& run) {
    double begin = run.ops.front().start_seconds, end = begin;
    for (const TimedOp& op : run.ops) {
      begin = std::min(begin, op.start_seconds);
      end = std::max(end, op.end_seconds);
    }
    slice(run.program->phase, "program", runs_thread, begin, end, fmt::format(R"("step":{})", run.step + 1));
    for (const TimedOp& timed : run.ops) op(run, timed);
    counters(live_series(set_, run));
  }

  std::string text() { return std::move(text_); }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), R"({}{{"pid":{},)", text_.empty() ? "" : ",\n", rank_);
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '}';
  }

  void thread(int number, const std::string& name) {
    add(R"("name":"thread_name","ph":"M","tid":{},"args":{{"name":{}}})", number, quoted(name));
    add(R"("name":"thread_sort_index","ph":"M","tid":{},"args":{{"sort_index":{}}})", number, number);
  }

  void slice(const std::string& name, std::string_view category, int thread, double begin, double end,
             const std::string& args) {
    add(R"("name":{},"cat":"{}","ph":"X","tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}})", quoted(name), category,
        thread, micros(begin), (end - begin) * 1e6, args);
  }

  void op(const TimedRun& run, const TimedOp& timed) {
    const Op& op = run.program->ops[timed.op];
    std::string args = fmt::format(R"("step":{})", run.step + 1);
    const bool of_block = runs_block(op.kind) || op.kind == OpKind::gather;
    if (of_block) args += fmt::format(R"(,"block":{})", quoted(model_.blocks.at(op.block)->name()));
    if (spec(op.kind).of_microbatch) {
      args += fmt::format(R"(,"microbatch":{})", op.microbatch.at(timed.iteration));
    }
    uint64_t bytes = timed.received_bytes;
    if (set_.lanes[op.lane].kind != LaneKind::comm) {
      for (const Access& access : op.accesses) {
        if (access.use != Use::read) bytes += set_.buffers[access.buffer].bytes;
      }
    }
    slice(op.name, op_kind_name(op.kind), op.lane + 1, timed.start_seconds, timed.end_seconds,
          args + fmt::format(R"(,"bytes":{})", bytes));
  }

  // A series that never holds anything is left out, one that holds something now and then is always there: viewers
  // stack the series of an event.
  void counters(const std::vector<LiveBytes>& series) {
    for (size_t t = 0; t < core::tier_count; ++t) {
      std::array<bool, core::category_count> used{};
      for (const LiveBytes& point : series) {
        for (size_t c = 0; c < core::category_count; ++c) used[c] = used[c] || point.live[t][c] > 0;
      }
      if (std::none_of(used.begin(), used.end(), [](bool u) { return u; })) continue;
      const core::CategoryBytes* last = nullptr;
      for (const LiveBytes& point : series) {
        if (last && *last == point.live[t]) continue;
        last = &point.live[t];
        std::string args;
        for (size_t c = 0; c < core::category_count; ++c) {
          if (!used[c]) continue;
          args += fmt::format(R"({}"{}":{})", args.empty() ? "" : ",", core::category_names[c], point.live[t][c]);
        }
        add(R"("name":"{} memory","ph":"C","tid":0,"ts":{:.3f},"args":{{{}}})", core::tier_names[t],
            micros(point.seconds), args);
      }
    }
  }

  double micros(double seconds) const { return std::max(0.0, (seconds - origin_) * 1e6); }

  const ProgramSet& set_;
  const models::Model& model_;
  const int rank_;
  const double origin_;
  std::string text_;
};

}  // namespace

std::string chrome_events(const ProgramSet& set, const models::Model& model, int rank, std::span<const TimedRun> runs,
                          double origin_seconds) {
  Writer writer(set, model, rank, origin_seconds);
  writer.names();
  for (const TimedRun& run : runs) writer.run(run);
  return writer.text();
}

std::string chrome_trace(std::span<const std::string> events) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const std::string& own : events) {
    if (own.empty()) continue;
    if (text.back() != '\n') text += ",\n";
    text += own;
  }
  return text + "\n]}";
}

}  // namespace zrt::runtime
