// Compares what `zrt train` prints with the files that a run leaves, its plan and what follows from the configuration:
// each figure is there a second time.
#include "figures.h"

#include <map>
#include <set>
#include <sstream>

namespace zrt::figures_test {

using namespace zrt::testing;

namespace {

void check_first_line(const FiguresRun& run, const json& plan, bool tied) {
  const Match line =
      only(run.printed,
           "(\\d+) parameters in (\\d+) units, .*, ZeRO stage (\\d), bf16; (\\S+ \\w+) per rank(?: of stage "
           "(\\d+), which needs most)?, peak in '(.*)' at '(.*)', packing overhead (\\S+) %;");
  CHECK(real(line[1]) == parameters(tied));
  CHECK(real(line[1]) == plan["parameters"].get<double>());
  const json& rank = largest(plan);
  const json& device = rank["tiers"]["device"];
  CHECK(line[4] == in_units(device["planned_peak_bytes"]));
  if (!line[5].empty()) CHECK(real(line[5]) == rank["stage"].get<double>());
  CHECK(line[6] == device["peak_phase"]);
  CHECK(line[7] == device["peak_op"]);
  CHECK(real(line[8]) == Approx(100 * rank["packing_overhead"].get<double>()).margin(0.0051));
  double overhead = 0;
  for (const json& one : plan["ranks"]) overhead = std::max(overhead, one["packing_overhead"].get<double>());
  CHECK(run.file("summary.json")["packing_overhead"].get<double>() == Approx(overhead));
}

void check_steps(const FiguresRun& run, const json& plan, int ranks, bool tied) {
  const auto metrics = run.lines("metrics.jsonl");
  const auto lines =
      found_in(run.printed,
               "step (\\d+)/6  loss (\\S+)  grad norm (\\S+)  lr (\\S+)  (\\d+) tokens/s  (\\d+) × (\\S+ "
               "\\w+)  ");
  REQUIRE(metrics.size() == 6);
  REQUIRE(lines.size() == 6);
  std::vector<double> seconds;
  for (size_t i = 0; i < 6; ++i) {
    const json& m = metrics[i];
    const auto& line = lines[i];
    INFO(line[0] << " " << m);
    CHECK((m["step"] == i + 1 && real(line[1]) == static_cast<double>(i + 1)));
    CHECK(real(line[2]) == Approx(m["loss"].get<double>()).margin(5.1e-5));
    CHECK(real(line[3]) == Approx(m["grad_norm"].get<double>()).margin(5.1e-4));
    CHECK(real(line[4]) == Approx(m["lr"].get<double>()).epsilon(0.0051));
    // WarmupLR, by the logarithm of the steps taken.
    CHECK(m["lr"].get<double>() == Approx(i == 0 ? 0 : 0.003 * std::min(1.0, std::log(double(i)) / std::log(4.0))));
    CHECK(m["tokens"] == batch * sequence);
    CHECK(m["tokens_per_second"].get<double>() ==
          Approx(batch * sequence / m["step_seconds"].get<double>()).epsilon(1e-4));
    CHECK(real(line[5]) == Approx(m["tokens_per_second"].get<double>()).margin(0.51).epsilon(1e-4));
    CHECK(real(line[6]) == ranks);
    CHECK(line[7] == in_units(largest(plan)["tiers"]["device"]["planned_peak_bytes"]));
    seconds.push_back(m["step_seconds"].get<double>());
  }
  const json summary = run.file("summary.json");
  const Match end = only(run.printed,
                         "(\\w+) after (\\d+) steps; final loss (\\S+), median step (\\S+) s, (\\d+) tokens/s, "
                         "(\\S+) model GFLOP/s");
  CHECK(summary["exit_reason"] == end[1]);
  CHECK((summary["steps"] == 6 && real(end[2]) == 6));
  CHECK(summary["final_loss"].get<double>() == Approx(metrics.back()["loss"].get<double>()));
  CHECK(real(end[3]) == Approx(summary["final_loss"].get<double>()).margin(5.1e-5));
  CHECK(summary["step_seconds"].get<double>() == Approx(median(seconds)).epsilon(1e-4));
  CHECK(real(end[4]) == Approx(summary["step_seconds"].get<double>()).margin(5.1e-4));
  const double rate = batch * sequence / summary["step_seconds"].get<double>();
  CHECK(summary["tokens_per_second"].get<double>() == Approx(rate));
  CHECK(real(end[5]) == Approx(rate).margin(0.51));
  // Six operations a parameter and token, but for positions, and causal attention's.
  const double flops = 6 * (parameters(tied) - sequence * hidden) + 6 * layers * hidden * sequence;
  CHECK(summary["model_flops_per_second"].get<double>() == Approx(rate * flops));
  CHECK(real(end[6]) == Approx(rate * flops / 1e9).margin(0.051));
}

void check_evaluations(const FiguresRun& run) {
  const json meta = read_json(run / "corpus/validation.meta.json");
  const double per_byte = meta["tokens"].get<double>() / meta["bytes"].get<double>();
  std::vector<json> all = run.lines("evaluations.jsonl");
  REQUIRE(all.size() == 2);
  CHECK(all[0]["step"] == 4);
  CHECK(all[1]["step"] == 6);
  const json last = run.file("summary.json")["validation"];
  const auto lines =
      found_in(run.printed,
               "held-out loss (\\S+) nats per token over (\\d+) tokens, perplexity (\\S+), (\\S+) bits per "
               "byte; (\\S+) bits per byte \\((\\d+) %\\) (below|above) the text's unigram entropy of (\\S+)");
  REQUIRE(lines.size() == 3);  // two on the way, the last again
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto& line = lines[i];
    const json e = i < 2 ? all[i] : last;
    INFO(line[0] << " " << e);
    const double loss = e["loss"], bits = loss / std::log(2.0) * per_byte, entropy = meta["unigram_entropy"];
    CHECK(real(line[1]) == Approx(loss).margin(5.1e-5));
    CHECK(real(line[2]) == e["tokens"].get<double>());
    CHECK(e["perplexity"].get<double>() == Approx(std::exp(loss)));
    CHECK(real(line[3]) == Approx(std::exp(loss)).epsilon(1e-5));
    CHECK(e["bits_per_byte"].get<double>() == Approx(bits));
    CHECK(real(line[4]) == Approx(bits).margin(5.1e-5));
    CHECK(e["bytes"].get<double>() == Approx(e["tokens"].get<double>() / per_byte).margin(0.51));
    CHECK(e["unigram_entropy"].get<double>() == entropy);
    CHECK(real(line[5]) == Approx(std::abs(bits - entropy)).margin(1.1e-4));
    CHECK(real(line[6]) == Approx(100 * std::abs(bits - entropy) / entropy).margin(0.51));
    CHECK((line[7] == "below") == (bits <= entropy));
    CHECK(real(line[8]) == Approx(entropy).margin(5.1e-5));
    CHECK(e["tokens"].get<int64_t>() % static_cast<int64_t>(sequence) == 0);
    CHECK(e["tokens"].get<double>() <= meta["tokens"].get<double>());
    // The last evaluation takes every sample of the data once.
    if (i > 0) CHECK(e["tokens"].get<double>() > meta["tokens"].get<double>() - 2 * sequence);
  }
}

// Each stage has a table: a column for each category that is used, then planned and measured bytes.
void check_memory(const FiguresRun& run, const json& plan) {
  const json memory = run.file("memory.json");
  std::map<int, std::vector<std::string>> columns;  // by stage
  int stage = -1;
  size_t rows = 0;
  std::stringstream text(run.printed);
  for (std::string line; std::getline(text, line);) {
    INFO(line);
    std::smatch title;
    if (std::regex_search(line, title,
                          std::regex("^device memory (?:of stage (\\d+) )?at the peak \\('(.*)' in phase "
                                     "'(.*)'\\)"))) {
      stage = title[1].matched ? std::stoi(title[1].str()) : 0;
      for (const json& rank : plan["ranks"]) {
        if (rank["stage"] != stage) continue;
        CHECK(rank["tiers"]["device"]["peak_op"] == title[2].str());
        CHECK(rank["tiers"]["device"]["peak_phase"] == title[3].str());
      }
      std::getline(text, line);
      std::stringstream head(line);
      std::string word;
      head >> word;
      while (head >> word && word != "planned") columns[stage].push_back(word);
      continue;
    }
    if (stage < 0) continue;
    std::smatch row;
    if (std::regex_match(line, row, std::regex(" *(\\d+) ((?: *\\S+ (?:B|KiB|MiB))+) +(\\d+) +(\\d+)(  differs)?"))) {
      ++rows;
      const auto rank = static_cast<size_t>(std::stoi(row[1].str()));
      const json& own = memory["ranks"].at(rank);
      const json& device = own["tiers"]["device"];
      CHECK((own["rank"] == rank && own["stage"] == stage));
      CHECK(device == [&] {
        json planned = plan["ranks"].at(rank)["tiers"]["device"];
        planned["measured_peak_bytes"] = planned["planned_peak_bytes"];
        return planned;
      }());
      CHECK(real(row[3]) == device["planned_peak_bytes"].get<double>());
      CHECK(real(row[4]) == device["measured_peak_bytes"].get<double>());
      CHECK(row[5].matched == (device["planned_peak_bytes"] != device["measured_peak_bytes"]));
      const auto cells = found_in(row[2].str(), "\\S+ (?:B|KiB|MiB)");
      std::set<std::string> used;
      for (const auto& [name, bytes] : device["categories"].items()) {
        if (bytes > 0) used.insert(name);
      }
      REQUIRE(cells.size() == columns[stage].size());
      CHECK(used == std::set<std::string>(columns[stage].begin(), columns[stage].end()));
      for (size_t c = 0; c < cells.size(); ++c) {
        CHECK(cells[c][0] == in_units(device["categories"][columns[stage][c]]));
      }
    } else if (std::regex_match(line, row,
                                std::regex("host memory of every rank .*: (\\d+) bytes planned, (.*) measured"))) {
      std::set<std::string> measured;
      for (const json& own : memory["ranks"]) {
        if (own["stage"] != stage) continue;
        CHECK(real(row[1]) == own["tiers"]["host"]["planned_peak_bytes"].get<double>());
        measured.insert(own["tiers"]["host"]["measured_peak_bytes"].dump());
      }
      CHECK((measured.size() == 1 && row[2] == *measured.begin()));
    } else if (std::regex_match(line, row, std::regex("outside the arenas .*: (.*); process peak (.*)"))) {
      CHECK(row[1] == in_units(memory["processes"][0]["outside_arena_bytes"]));
      CHECK(row[2] == in_units(memory["processes"][0]["rss_peak_bytes"]));
    }
  }
  CHECK(rows == memory["ranks"].size());
}

}  // namespace

TEST_CASE("every figure that a run prints is that of its files, of its plan and of the configuration") {
  for (const FiguresCase& c : figures_cases) {
    INFO(c.name);
    const FiguresRun run(c.name, c.options());
    INFO(run.printed);
    const json plan = run.plan(c.options());
    check_first_line(run, plan, c.tied);
    check_steps(run, plan, c.ranks, c.tied);
    check_evaluations(run);
    check_memory(run, plan);
  }
}

}  // namespace zrt::figures_test
