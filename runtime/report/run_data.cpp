#include "runtime/report/run_data.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>

#include "core/error.h"

namespace zrt::runtime::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t most_steps = int64_t{1} << 50;
constexpr uintmax_t most_bytes = 64 << 20;  // of a file that is read as a whole

// Null, with a note, for a file that is not what it should be.
Json read_object(const fs::path& file, const std::string& if_missing, std::vector<std::string>& notes) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    if (!if_missing.empty()) notes.push_back(fmt::format("There is no {}: {}.", file.filename().string(), if_missing));
    return nullptr;
  }
  if (fs::file_size(file, error) > most_bytes || error) {
    notes.push_back(
        fmt::format("{} is no file of at most {} bytes and was not read.", file.filename().string(), most_bytes));
    return nullptr;
  }
  std::ifstream in(file, std::ios::binary);
  Json json = Json::parse(in, nullptr, false);
  if (json.is_object()) return json;
  notes.push_back(fmt::format("{} is damaged (no JSON object) and was left out.", file.filename().string()));
  return nullptr;
}

// Calls `take` with every object of a file of lines. A last line without its end is one that is being written.
void read_lines(const fs::path& file, std::vector<std::string>& notes, const std::function<void(const Json&)>& take) {
  std::ifstream in(file, std::ios::binary);
  int64_t number = 0, damaged = 0, first_damaged = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (in.eof()) break;
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object()) {
      take(json);
    } else if (++damaged == 1) {
      first_damaged = number;
    }
  }
  if (damaged == 0) return;
  notes.push_back(fmt::format("{}: {} line{} damaged and left out, the first of them line {}.",
                              file.filename().string(), damaged, damaged == 1 ? " is" : "s are", first_damaged));
}

// A step that comes again, as when a run was killed before its log was cut, counts as it was done last.
template <class Row>
void append(std::vector<Row>& rows, Row row) {
  while (!rows.empty() && rows.back().step >= row.step) rows.pop_back();
  rows.push_back(std::move(row));
}

bool is_step(const Json& value) {
  return value.is_number_integer() && value >= 1 && value <= most_steps;
}

void read_steps(RunData& run) {
  int64_t without_step = 0;
  read_lines(run.folder / "metrics.jsonl", run.notes, [&](const Json& line) {
    const auto step = line.find("step");
    if (step == line.end() || !is_step(*step)) {
      ++without_step;
      return;
    }
    append(run.steps,
           StepRow{step->get<int64_t>(), number(line, "loss"), number(line, "grad_norm"), number(line, "lr"),
                   number(line, "loss_scale"), number(line, "tokens"), line.value("skipped", Json()) == true,
                   number(line, "step_seconds"), number(line, "tokens_per_second"),
                   number(line, "exposed_comm_seconds"), number(line, "exposed_io_seconds"),
                   number(line, "router_balance"), number(line, "dropped_choices"), number(line, "expert_peak")});
  });
  if (without_step > 0) {
    run.notes.push_back(fmt::format("metrics.jsonl: {} line(s) without a step were left out.", without_step));
  }
  read_lines(run.folder / "evaluations.jsonl", run.notes, [&](const Json& line) {
    const auto step = line.find("step");
    if (step == line.end() || !is_step(*step)) return;
    append(run.evaluations, EvaluationRow{step->get<int64_t>(), number(line, "loss"), number(line, "bits_per_byte"),
                                          number(line, "tokens")});
  });
}

// Nothing for a list that a run does not write.
std::optional<std::vector<double>> counts(const Json& list) {
  std::vector<double> result;
  if (!list.is_array() || list.empty()) return std::nullopt;
  for (const Json& count : list) {
    if (!count.is_number_unsigned()) return std::nullopt;
    result.push_back(count.get<double>());
  }
  return result;
}

void read_loads(RunData& run) {
  read_lines(run.folder / "expert_loads.jsonl", run.notes, [&](const Json& line) {
    const auto list = [&](const char* name) {
      const auto found = line.find(name);
      return found != line.end() && found->is_array() ? *found : Json::array();
    };
    const Json layers = list("layers"), picked = list("picked"), dropped = list("dropped");
    if (!is_step(line.value("step", Json())) || picked.size() != layers.size() || dropped.size() != layers.size())
      return;
    LoadRow row{line["step"].get<int64_t>(), {}, {}, {}};
    for (size_t l = 0; l < layers.size(); ++l) {
      auto own = counts(picked[l]);
      const auto lost = counts(dropped[l]);
      if (!layers[l].is_number_unsigned() || layers[l] > most_steps || !own || !lost) return;
      row.layers.push_back(layers[l].get<int64_t>());
      row.picked.push_back(std::move(*own));
      row.dropped.push_back(std::accumulate(lost->begin(), lost->end(), 0.0));
    }
    append(run.loads, std::move(row));
  });
}

void note_what_is_strange(RunData& run) {
  if (run.steps.empty()) {
    run.notes.push_back("metrics.jsonl holds no step: the run has not finished its first one.");
    return;
  }
  int64_t bad = 0, first_bad = 0, skipped = 0, first_skipped = 0, missing = 0, first_missing = 0;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    if (!std::isfinite(run.steps[i].loss) && ++bad == 1) first_bad = run.steps[i].step;
    if (run.steps[i].skipped && ++skipped == 1) first_skipped = run.steps[i].step;
    if (i > 0 && run.steps[i].step != run.steps[i - 1].step + 1) {
      missing += run.steps[i].step - run.steps[i - 1].step - 1;
      if (first_missing == 0) first_missing = run.steps[i - 1].step + 1;
    }
  }
  if (bad > 0) {
    run.notes.push_back(
        fmt::format("The loss of {} step{} is not a number or infinite, first at step {}. If it stays so, the run has "
                    "diverged: try "
                    "a lower optimizer.params.lr, or gradient_clipping.",
                    bad, bad == 1 ? "" : "s", first_bad));
  }
  if (skipped > 0) {
    run.notes.push_back(
        fmt::format("{} step{} skipped because loss or gradient were not finite, first step {}: no weight moved in {}.",
                    skipped, skipped == 1 ? " was" : "s were", first_skipped, skipped == 1 ? "it" : "them"));
  }
  if (missing > 0) {
    run.notes.push_back(
        fmt::format("{} step(s) are missing from metrics.jsonl, the first of them step {}.", missing, first_missing));
  }
  if (run.steps.front().step > 1) {
    run.notes.push_back(fmt::format(
        "The first step here is {}: what came before is in the folder that the run was "
        "resumed from{}.",
        run.steps.front().step,
        run.key("run", "resume").is_string() ? " (" + run.key("run", "resume").get<std::string>() + ")" : ""));
  }
}

}  // namespace

double number(const Json& object, const char* name) {
  if (!object.is_object()) return NAN;
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : NAN;
}

Json RunData::key(const std::string& section, const std::string& name) const {
  const Json* at = &config;
  for (const std::string& part :
       section.empty() ? std::vector<std::string>{name, "value"} : std::vector<std::string>{section, name, "value"}) {
    if (!at->is_object() || !at->contains(part)) return nullptr;
    at = &(*at)[part];
  }
  return *at;
}

RunData read_run(const fs::path& folder) {
  RunData run;
  run.folder = folder;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw core::DataError(
        fmt::format("{}: is no folder; name the folder of a run, as `zrt train --out` was given it", folder.string()));
  }
  const fs::path metrics = folder / "metrics.jsonl";
  if (!fs::exists(metrics, error)) {
    throw core::DataError(fmt::format(
        "{}: has no metrics.jsonl, so it is no folder of a run, or of one that has not begun", folder.string()));
  }
  if (!std::ifstream(metrics)) throw core::DataError(fmt::format("{}: cannot be opened", metrics.string()));
  run.config = read_object(folder / "config.resolved.json", "settings are not shown", run.notes);
  read_steps(run);
  read_loads(run);
  run.summary = read_object(folder / "summary.json", "", run.notes);
  run.failure = read_object(folder / "failure.json", "", run.notes);
  run.memory = read_object(folder / "memory.json", "a run writes its memory when it ends", run.notes);
  run.events = Json::array();
  read_lines(folder / "events.jsonl", run.notes, [&](const Json& event) { run.events.push_back(event); });
  const auto beat = fs::last_write_time(folder / "heartbeat", error);
  if (!error) {
    run.heartbeat_age_seconds = std::chrono::duration<double>(fs::file_time_type::clock::now() - beat).count();
  }
  note_what_is_strange(run);
  return run;
}

}  // namespace zrt::runtime::report
