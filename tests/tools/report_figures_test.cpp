// Compares what `zrt report`, a trace and `zrt checkpoint` show of a run with its files, its programs and what lies on
// the disk.
#include <map>
#include <set>
#include <sstream>

#include "figures.h"

namespace zrt::report_figures_test {

using namespace zrt::testing;

namespace {

std::string plain(std::string text) {
  for (size_t at = 0; (at = text.find("&quot;", at)) != std::string::npos; ++at) text.replace(at, 6, "\"");
  return text;
}

void check_report(const FiguresRun& run) {
  // A measured peak that differs must be seen, too.
  json memory = run.file("memory.json");
  json& measured = memory["ranks"][0]["tiers"]["device"]["measured_peak_bytes"];
  measured = measured.get<uint64_t>() + 64;
  run.write("run/memory.json", memory.dump());
  REQUIRE(run_zrt("report " + (run / "run")).code == 0);
  std::ifstream in(run / "run/report.html");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const auto metrics = run.lines("metrics.jsonl");
  const auto curve = [&](const std::string& title) {
    INFO(title);
    const size_t at = page.find("<h2>" + title);
    REQUIRE(at != std::string::npos);
    const size_t from = page.find("data-values=\"", at) + 13;
    return json::parse(plain(page.substr(from, page.find('"', from) - from)));
  };
  for (const auto& [title, keys] : std::map<std::string, std::vector<std::string>>{
           {"Training loss", {"loss"}},
           {"Throughput", {"tokens_per_second"}},
           {"Time of a step", {"step_seconds", "exposed_comm_seconds", "exposed_io_seconds"}},
           {"Learning rate", {"lr"}},
           {"Gradient norm", {"grad_norm"}}}) {
    const json values = curve(title);
    INFO(title);
    REQUIRE(values["series"].size() == keys.size());
    for (size_t i = 0; i < metrics.size(); ++i) {
      CHECK(values["x"][i] == metrics[i]["step"]);
      for (size_t k = 0; k < keys.size(); ++k) CHECK(values["series"][k]["y"][i] == metrics[i][keys[k]]);
    }
  }
  const auto evaluations = run.lines("evaluations.jsonl");
  const json held_out = curve("Held-out loss");
  for (size_t i = 0; i < evaluations.size(); ++i) {
    CHECK(held_out["x"][i] == evaluations[i]["step"]);
    CHECK(held_out["series"][0]["y"][i] == evaluations[i]["loss"]);
  }
  const json summary = run.file("summary.json");
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : found_in(page, "<tr>((?:<td[^>]*>[^<]*</td>)+)</tr>")) {
    rows.emplace_back();
    for (const auto& cell : found_in(row[1], "<td[^>]*>([^<]*)</td>")) rows.back().push_back(cell[1]);
  }
  const auto row = [&](const std::string& first, const std::string& second) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const std::vector<std::string>& cells) {
      return cells.at(0) == first && (second.empty() || cells.at(1) == second);
    });
    INFO(first << " " << second);
    REQUIRE(found != rows.end());
    return *found;
  };
  const bool staged = memory["ranks"].back()["stage"] > 0;
  for (const json& rank : memory["ranks"]) {
    for (const auto& [tier, own] : rank["tiers"].items()) {
      if (own["planned_peak_bytes"] == 0) continue;
      const auto cells = row(rank["rank"].dump() + (staged ? ", stage " + rank["stage"].dump() : ""), tier);
      INFO(rank["rank"] << " " << tier);
      CHECK(cells.at(2) == own["planned_peak_bytes"].dump());
      CHECK(cells.at(3) == own["measured_peak_bytes"].dump());
      CHECK(cells.at(4) == (own["planned_peak_bytes"] == own["measured_peak_bytes"] ? "equal" : "differs"));
      CHECK(plain(cells.at(5)) ==
            own["peak_op"].get<std::string>() + " (" + own["peak_phase"].get<std::string>() + ")");
    }
  }
  CHECK(std::stod(row("last loss", "").at(1)) == Approx(metrics.back()["loss"].get<double>()).epsilon(1e-5));
  const Match held = only(row("held-out loss", "").at(1), "(\\S+) after step 6, (\\S+) bits per byte");
  CHECK(real(held[1]) == Approx(evaluations.back()["loss"].get<double>()).epsilon(1e-5));
  CHECK(real(held[2]) == Approx(evaluations.back()["bits_per_byte"].get<double>()).margin(5.1e-5));
  const Match speed =
      only(row("median speed", "").at(1), "(\\S+) tokens/s, (\\S+) (m?s|µs) per step, (\\S+) model GFLOP/s");
  CHECK(real(speed[1]) == Approx(summary["tokens_per_second"].get<double>()).epsilon(1e-3));
  CHECK(real(speed[2]) * (speed[3] == "ms" ? 1e-3 : 1) == Approx(summary["step_seconds"].get<double>()).epsilon(1e-3));
  CHECK(real(speed[4]) == Approx(summary["model_flops_per_second"].get<double>() / 1e9).epsilon(1e-3));
  CHECK(row("state_xxh3", "").at(1) == summary["state_xxh3"]);

  // The traced step says how long each rank computes.
  std::map<int, double> busy;
  std::map<int, int> compute;
  double first = INFINITY, end = 0;
  const json trace = run.file("trace.json")["traceEvents"];
  for (const json& event : trace) {
    if (event["ph"] == "M" && event["name"] == "thread_name" && event["args"]["name"] == "compute") {
      compute[event["pid"]] = event["tid"];
    }
  }
  for (const json& event : trace) {
    if (event["ph"] != "X" || event["cat"] == "program") continue;
    const double from = event["ts"], to = from + event["dur"].get<double>();
    first = std::min(first, from), end = std::max(end, to);
    if (event["tid"] == compute.at(event["pid"])) busy[event["pid"]] += to - from;
  }
  for (const auto& [rank, micros] : busy) {
    const std::string number = std::to_string(rank);
    const auto cells = std::find_if(rows.begin(), rows.end(), [&](const std::vector<std::string>& one) {
      return one.size() == 3 && one[0] == number && one[2].ends_with("%");
    });
    REQUIRE(cells != rows.end());
    const double unit = cells->at(1).ends_with("ms") ? 1e3 : cells->at(1).ends_with("µs") ? 1 : 1e6;
    CHECK(std::stod(cells->at(1)) * unit == Approx(micros).epsilon(2e-3));
    CHECK(std::stod(cells->at(2)) == Approx(100 * (1 - micros / (end - first))).margin(0.2));
  }
}

// "3", "i", "2+i", "1+2i" in turn `i`.
int turned(const std::string& label, int i) {
  const size_t plus = label.find('+');
  if (!label.ends_with('i')) return std::stoi(label);
  const std::string turns = plus == std::string::npos ? label : label.substr(plus + 1);
  const int first = plus == std::string::npos ? 0 : std::stoi(label.substr(0, plus));
  return first + i * (turns == "i" ? 1 : std::stoi(turns));
}

// Over all turns of its segments the listing has each op of a layer once for each microbatch.
void check_listing(const std::string& listing, int microbatches) {
  std::map<std::string, std::vector<int>> numbers;
  std::stringstream lines(listing);
  int repeat = 1;
  const std::regex segment("segment(?:, (\\d+) times)?"),
      op(" +\\d+ \\S+ +((?:for|back)ward h\\.[^|#]*) #(\\S+)(?: .*)?");
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, segment)) repeat = found[1].matched ? std::stoi(found[1].str()) : 1;
    if (!std::regex_match(line, found, op)) continue;
    for (int i = 0; i < repeat; ++i) numbers[found[1].str()].push_back(turned(found[2].str(), i));
  }
  CHECK(numbers.size() >= 2 * static_cast<size_t>(layers));
  for (auto& [name, all] : numbers) {
    std::sort(all.begin(), all.end());
    CAPTURE(name, all);
    REQUIRE(all.size() == static_cast<size_t>(microbatches));
    for (int m = 0; m < microbatches; ++m) CHECK(all[static_cast<size_t>(m)] == m);
  }
}

// A traced op names each microbatch of its block once, and the bytes that the listing of programs says it writes.
void check_trace(const FiguresRun& run, const std::string& options, int stages, int microbatches) {
  const json plan = run.plan(options);
  const std::string listing = run_command(ZRT_BINARY_DIR "/zrt plan " + (run / "c.json") + " --program --phase step " +
                                          options + " 2>/dev/null")
                                  .text;
  check_listing(listing, microbatches);
  std::map<std::string, double> bytes;
  for (const auto& buffer : found_in(listing,
                                     "\n  (?:device|host|nvme) +(\\d+) B(?: × \\d+)? at \\d+ +(?:transient|reserved|"
                                     "carried) +\\w+ +([^\n]*)")) {
    bytes[buffer[2]] = real(buffer[1]);
  }
  std::map<std::string, std::set<double>> written;
  for (const auto& op :
       found_in(listing, "\n +\\d+ (compute|to_device|host) +([^\n|#]*?)(?: #\\S+)?((?: \\| [^\n]*)?)(?=\n)")) {
    double sum = 0;
    for (const auto& clause : found_in(op[3], "\\| (?:updates|writes) ([^|\n]*)")) {
      const std::string& names = clause[1];
      for (size_t at = 0; at < names.find_last_not_of(' ');) {
        // The longest that stands here: names may have commas.
        std::string name;
        for (const auto& [known, count] : bytes) {
          if (known.size() > name.size() && names.compare(at, known.size(), known) == 0) name = known;
        }
        INFO(op[0] << " writes " << names.substr(at));
        REQUIRE(!name.empty());
        sum += bytes[name];
        at = std::min(names.find(", ", at + name.size()), names.size() - 2) + 2;
      }
    }
    written[op[2]].insert(sum);
  }
  std::map<std::string, std::vector<int>> turns;  // of each op of a rank
  size_t compared = 0;
  std::set<std::pair<int, int>> links;  // lanes between ranks
  std::map<int, std::map<std::string, uint64_t>> received;
  const json events = run.file("trace.json")["traceEvents"];
  for (const json& event : events) {
    if (event["ph"] == "M" && event["name"] == "thread_name" &&
        event["args"]["name"].get<std::string>().starts_with("comm:")) {
      links.insert({event["pid"].get<int>(), event["tid"].get<int>()});
    }
    if (event["ph"] != "X" || event["cat"] == "program") continue;
    const std::string name = event["name"];
    INFO(event);
    if (links.count({event["pid"].get<int>(), event["tid"].get<int>()})) {
      const auto bytes_received = event["args"]["bytes"].get<uint64_t>();
      if (bytes_received > 0) received[event["pid"]][event["cat"]] += bytes_received;
    }
    if (event["args"].contains("microbatch")) {
      turns[event["pid"].dump() + " " + name].push_back(event["args"]["microbatch"].get<int>());
    }
    const auto found = written.find(name);
    if (found == written.end() || stages > 1) continue;  // stages have ops of one name
    ++compared;
    CHECK(found->second.count(event["args"]["bytes"].get<double>()));
  }
  CHECK((compared > 20 || stages > 1));
  // The plan has the bytes of the stage whose ranks receive most.
  std::map<std::string, uint64_t> planned, most;
  uint64_t most_bytes = 0;
  for (const auto& [kind, count] : plan["comm_bytes"].items()) {
    if (count > 0) planned[kind] = count;
  }
  for (const auto& [rank, kinds] : received) {
    uint64_t sum = 0;
    for (const auto& [kind, count] : kinds) sum += count;
    if (sum > most_bytes) most = kinds, most_bytes = sum;
  }
  CHECK(most == planned);
  for (auto& [name, numbers] : turns) {
    INFO(name);
    if (name.find("ward h.") == std::string::npos) continue;
    std::sort(numbers.begin(), numbers.end());
    REQUIRE(numbers.size() == static_cast<size_t>(microbatches));
    for (size_t m = 0; m < numbers.size(); ++m) CHECK(numbers[m] == static_cast<int>(m));
  }
}

// A checkpoint says of the run that made it what the run's configuration says.
void check_maker(const FiguresRun& run, const json& made_by, int ranks) {
  const json config = run.file("config.resolved.json");
  const auto key = [&](const char* section, const char* name) { return config[section][name]["value"]; };
  INFO(made_by);
  CHECK(made_by["ranks"] == ranks);
  CHECK(made_by["pipeline"] == key("parallel", "pipeline"));
  CHECK(made_by["tensor"] == key("parallel", "tensor"));
  CHECK(made_by["sequence"] == key("parallel", "sequence"));
  CHECK(made_by["stage"] == key("zero_optimization", "stage"));
  CHECK(made_by["seed"] == key("run", "seed"));
  CHECK(made_by["train_batch_size"] == batch);
  CHECK(made_by["type"] == "bf16");
}

void check_checkpoints(const FiguresRun& run, int ranks) {
  const std::string step = run / "run/checkpoints/step_6";
  uint64_t bytes = 0, files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(step)) {
    if (!entry.is_regular_file() || entry.path().filename() == "manifest.json") continue;
    bytes += fs::file_size(entry.path()), ++files;
  }
  const std::string text = run_zrt("checkpoint inspect " + step).text;
  const json known = json::parse(run_zrt("checkpoint inspect " + step + " --json").text);
  check_maker(run, known["made_by"], ranks);
  for (const json& row : json::parse(run_zrt("checkpoint list --json " + (run / "run")).text)) {
    check_maker(run, row["made_by"], ranks);
  }
  const Match line = only(text, "step (\\d+), (\\d+) samples consumed, (\\S+ \\w+) in (\\d+) files");
  CHECK((real(line[1]) == 6 && known["step"] == 6));
  CHECK((real(line[2]) == 6 * batch && known["samples"] == 6 * batch));
  CHECK(known["bytes"] == bytes);
  CHECK(line[3] == in_units(static_cast<double>(bytes)));
  CHECK(real(line[4]) == static_cast<double>(files));
  size_t tensors = 0;
  for (const auto& tensor : found_in(text, "\n(\\S+) +(\\w+) (\\[[\\d,]*\\])(?=\n)")) {
    ++tensors;
    const json& own = known["tensors"][tensor[1]];
    CHECK(own["dtype"] == tensor[2]);
    CHECK(own["shape"].dump() == tensor[3]);
  }
  CHECK(tensors == known["tensors"].size());
  const std::string list = run_zrt("checkpoint list " + (run / "run")).text;
  CHECK(list.find(in_units(static_cast<double>(bytes)) + "  " + std::to_string(files) + " files") != std::string::npos);
  const auto saved = found_in(run.printed, "step (\\d+): saved (\\S+) \\((\\S+ \\w+), ");
  REQUIRE(saved.size() == 2);
  CHECK(saved[1][2] == step);
  CHECK(saved[1][3] == in_units(static_cast<double>(bytes)));
}

}  // namespace

TEST_CASE("every figure of a run's report, trace and checkpoints is that of its files and programs") {
  for (const FiguresCase& c : figures_cases) {
    INFO(c.name);
    const FiguresRun run(std::string("report_") + c.name, c.options());
    check_report(run);
    check_trace(run, c.options(), c.stages, c.microbatches);
    check_checkpoints(run, c.ranks);
  }
}

}  // namespace zrt::report_figures_test
