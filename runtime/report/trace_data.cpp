#include "runtime/report/trace_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/ledger.h"

namespace zrt::runtime::report {
namespace {

using Json = nlohmann::json;

constexpr int most_ranks = 1 << 20;

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Cuts a number to what a count can hold.
int64_t count_of(double value) {
  return static_cast<int64_t>(std::clamp(value, 0.0, 1e15));
}

double number_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string details_of(const Json& args) {
  std::string text;
  for (const auto& [name, value] : args.items()) {
    if (name == "bytes" || name == "step") continue;
    text += fmt::format("{} {}, ", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text + core::format_bytes(static_cast<uint64_t>(count_of(number_of(args, "bytes"))));
}

// Takes the events of a file in their order, in which the events of a run follow the slice of the run itself.
class TraceReader {
 public:
  void take(const Json& event) {
    static const Json none = Json::object();
    const auto found = event.find("args");
    const Json& args = found != event.end() && found->is_object() ? *found : none;
    const int rank = static_cast<int>(count_of(number_of(event, "pid")) % most_ranks);
    const int lane = static_cast<int>(count_of(number_of(event, "tid")) % most_ranks);
    TracedRank& own = ranks_[rank];
    own.rank = rank;
    const std::string kind = text_of(event, "ph"), name = text_of(event, "name");
    const double start = number_of(event, "ts") * 1e-6;
    if (kind == "M") {
      if (name == "thread_name") own.lanes[lane] = text_of(args, "name");
    } else if (kind == "X" && text_of(event, "cat") == "program") {
      in_step_[rank] = name == "step";
      if (!in_step_[rank]) return;
      own.step = count_of(number_of(args, "step"));
      own.ops.clear();
      own.memory.clear();
    } else if (!in_step_[rank]) {
      return;
    } else if (kind == "X") {
      own.ops.push_back(
          {name, text_of(event, "cat"), details_of(args), lane, start, start + number_of(event, "dur") * 1e-6});
    } else if (kind == "C") {
      TracedMemory point{start, {}};
      for (const auto& [category, value] : args.items()) {
        if (value.is_number()) point.bytes[category] = value.get<double>();
      }
      own.memory[name.substr(0, name.find(' '))].push_back(std::move(point));
    }
  }

  std::vector<TracedRank> ranks() {
    double first = std::numeric_limits<double>::infinity();
    for (const auto& [number, rank] : ranks_) {
      for (const TracedOp& op : rank.ops) first = std::min(first, op.start_seconds);
    }
    std::vector<TracedRank> result;
    for (auto& [number, rank] : ranks_) {
      for (TracedOp& op : rank.ops) {
        op.start_seconds -= first;
        op.end_seconds -= first;
      }
      for (auto& [tier, points] : rank.memory) {
        for (TracedMemory& point : points) point.seconds -= first;
      }
      result.push_back(std::move(rank));
    }
    return result;
  }

 private:
  std::map<int, TracedRank> ranks_;
  std::map<int, bool> in_step_;
};

}  // namespace

std::vector<TracedRank> read_trace(const std::filesystem::path& file, std::vector<std::string>& notes) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    notes.push_back("There is no trace.json: run.trace writes one, and this page then shows a step's timeline.");
    return {};
  }
  // One event per line, so that a file of any size is read without holding it.
  std::ifstream in(file, std::ios::binary);
  TraceReader reader;
  bool whole = false;
  int64_t number = 0, damaged = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (number == 1 && line.ends_with("[")) continue;
    if (line == "]}") whole = true;
    if (whole) break;
    if (line.ends_with(",")) line.pop_back();
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_object()) {
      damaged = number;
      break;
    }
    reader.take(event);
  }
  if (damaged > 0) {
    notes.push_back(fmt::format("trace.json is damaged from line {} on, or was not written by zrt.", damaged));
  } else if (!whole) {
    notes.push_back("trace.json ends too early.");
  }
  return reader.ranks();
}

}  // namespace zrt::runtime::report
