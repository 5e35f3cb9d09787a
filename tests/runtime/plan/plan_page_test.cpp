// The drawn page of a plan, read again: bars, curves, tables and sentences beside the plan's JSON and the programs.
#include "runtime/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "catch.h"
#include "tests/runtime/plan/printed_plan.h"

namespace zrt::plan_page_test {

using namespace zrt;
using namespace zrt::runtime;
using nlohmann::json;
using testing::in_thousands;
using testing::planned;

namespace {

std::string plain(std::string text) {
  for (const auto& [from, to] : std::initializer_list<std::pair<std::string, std::string>>{
           {"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&amp;", "&"}}) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

// "1.5 ms" in seconds, "2.00 KiB" in bytes; a number without a unit as it is.
double number_of(const std::string& text) {
  std::stringstream in(text);
  double value = 0;
  std::string unit;
  in >> value >> unit;
  const std::map<std::string, double> units{
      {"ms", 1e-3}, {"µs", 1e-6}, {"KiB", 1024.0}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  return value * (units.count(unit) ? units.at(unit) : 1);
}

struct DrawnBar {
  int lane;
  std::string name;  // with its microbatch
  double start, seconds;
};
struct DrawnCurve {
  std::string tier, title;
  std::vector<double> x;
  std::vector<std::string> labels;
  std::map<std::string, std::vector<double>> bytes;
  std::string limit;  // what its line says; empty without one
  double total(size_t i) const {
    double sum = 0;
    for (const auto& [name, y] : bytes) sum += y.at(i);
    return sum;
  }
};
struct DrawnLanes {
  std::string title;
  std::vector<std::string> names;
  std::vector<DrawnBar> bars;
};
struct DrawnStage {
  std::string heading, text;
  std::vector<std::vector<std::string>> table;
  std::vector<DrawnLanes> lanes;
  std::vector<DrawnCurve> curves;
};

std::vector<std::string> matches(const std::string& text, const std::string& begin, const std::string& end) {
  std::vector<std::string> all;
  for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    all.push_back(text.substr(at, text.find(end, at) - at));
  }
  return all;
}

DrawnLanes lanes_of(const std::string& part) {
  DrawnLanes lanes{part.substr(0, part.find("</h2>")), {}, {}};
  for (const std::string& tag : matches(part, "text-anchor=\"end\">", "</text>")) {
    if (part.find("class=\"tick\"") > part.find(tag)) lanes.names.push_back(plain(tag));
  }
  for (const std::string& tag : matches(part, "<rect x=\"", "/>")) {
    const size_t y = tag.find("y=\"") + 3, shown = tag.find("data-t=\"") + 8;
    const std::string text = plain(tag.substr(shown, tag.rfind('"') - shown));
    const size_t line = text.rfind('\n'), from = text.rfind(" from ");
    REQUIRE(line != std::string::npos);
    lanes.bars.push_back({(std::stoi(tag.substr(y)) - 3) / 26, text.substr(0, line), number_of(text.substr(from + 6)),
                          number_of(text.substr(line + 1, from - line - 1))});
  }
  return lanes;
}

DrawnCurve curve_of(const std::string& part) {
  DrawnCurve curve;
  std::smatch found;
  const std::string title = part.substr(0, part.find("</h2>"));
  REQUIRE(std::regex_match(title, found, std::regex("Live bytes of the (\\w+) tier: (.*)")));
  curve.tier = found[1], curve.title = found[2];
  const json values = json::parse(plain(matches(part, "data-values=\"", "\"").front()));
  curve.x = values["x"].get<std::vector<double>>();
  curve.labels = values["labels"].get<std::vector<std::string>>();
  for (const json& series : values["series"]) {
    curve.bytes[series["name"]] = series["y"].get<std::vector<double>>();
    CHECK(series["y"].size() == curve.x.size());
  }
  if (const size_t line = part.find("class=\"limit\""); line != std::string::npos) {
    curve.limit = plain(matches(part.substr(line), "data-t=\"", "\"").front());
  }
  return curve;
}

// The charts of all stages at a page's begin, by title.
std::map<std::string, DrawnLanes> read_overview(const std::string& page) {
  std::map<std::string, DrawnLanes> charts;
  const std::string body = page.substr(page.find("<h1>"), page.find("<script>") - page.find("<h1>"));
  for (const std::string& part : matches(body, "<h2>", "<h2>")) {
    const DrawnLanes lanes = lanes_of(part);
    if (!lanes.names.empty() && lanes.names[0] == "stage 0") charts[plain(lanes.title)] = lanes;
  }
  return charts;
}

std::vector<DrawnStage> read_page(const std::string& page) {
  std::vector<DrawnStage> stages;
  const std::string body = page.substr(page.find("<h1>"), page.find("<script>") - page.find("<h1>"));
  for (const std::string& part : matches(body, "<h2>", "<h2>")) {
    const std::string title = part.substr(0, part.find("</h2>"));
    if (title.starts_with("Lanes: ")) {
      stages.back().lanes.push_back(lanes_of(part));
    } else if (title.starts_with("Live bytes")) {
      stages.back().curves.push_back(curve_of(part));
    } else if (title.starts_with("Stage ") || title.starts_with("Ranks ")) {
      DrawnStage& stage = stages.emplace_back();
      stage.heading = plain(title);
      stage.text = plain(matches(part, "<p>", "</p>").front());
      for (const std::string& row : matches(part, "<tr>", "</tr>")) {
        std::vector<std::string> cells;
        for (const std::string& cell : matches(row, "<td", "</td>"))
          cells.push_back(plain(cell.substr(cell.find('>') + 1)));
        if (!cells.empty()) stage.table.push_back(cells);
      }
    }
  }
  return stages;
}

json of_stage(const json& plan, size_t stage) {
  for (const json& rank : plan["ranks"]) {
    if (rank["stage"] == stage) return rank;
  }
  return nullptr;
}

struct Case {
  std::vector<std::string> sets;
  int ranks;
  const char* cluster;
};

}  // namespace

TEST_CASE("a page's bars are each op of each microbatch once, and its sentences and tables are the JSON's") {
  for (const Case& c :
       std::vector<Case>{{{}, 2, "dgx-a100"},
                         {{"zero_optimization.stage=3", "train_batch_size=64"}, 2, "dgx-a100"},
                         {{"parallel.pipeline=2", "train_batch_size=64"}, 2, "dgx-h100"},
                         {{"parallel.pipeline=2", "parallel.virtual_pipeline=3", "model.layers=10"}, 4, "dgx-a100"},
                         {{"parallel.pipeline=2", "parallel.partition=[2,4]", "memory.placement=host"}, 4, "dgx-a100"},
                         {{"parallel.tensor=2", "memory.recompute=full", "train_batch_size=64"}, 4, "dgx-a100"}}) {
    const auto p = planned(c.sets, c.ranks, find_cluster(c.cluster));
    const json plan = json::parse(to_json(p->plan));
    const std::string page = plan_page(p->plan);
    CAPTURE(c.sets);
    CHECK(page.find(fmt::format("<h1>Plan of {} parameters on {} ranks</h1>", in_thousands(plan["parameters"]),
                                c.ranks)) != std::string::npos);
    const std::vector<DrawnStage> stages = read_page(page);
    REQUIRE(stages.size() == p->plan.stages.size());
    for (size_t s = 0; s < stages.size(); ++s) {
      CAPTURE(s);
      const DrawnStage& drawn = stages[s];
      const json rank = of_stage(plan, s), known = plan["pipeline"]["stages"][s];
      // "Stage 1, ranks 2 to 3: layers 3–5, head", "Ranks 0 to 1".
      const int per_stage = c.ranks / static_cast<int>(stages.size()), first = static_cast<int>(s) * per_stage;
      const std::string ranks = fmt::format("anks {} to {}", first, first + per_stage - 1);
      CHECK(drawn.heading.find(ranks) != std::string::npos);
      if (stages.size() > 1) CHECK(drawn.heading.find(fmt::format("Stage {}, r", s)) == 0);
      std::smatch found;
      REQUIRE(std::regex_match(drawn.text, found,
                               std::regex("(\\S+): (\\S+) s a step, of which computation waits (\\S+) s for "
                                          "communication; a rank computes nothing in (\\S+) % of it.")));
      CHECK(found[1] == c.cluster);
      CHECK(std::stod(found[2]) == Approx(plan["seconds_per_step"].get<double>()).epsilon(1e-3));
      CHECK(std::stod(found[3]) == Approx(p->plan.stages[s].step->exposed_comm_seconds).epsilon(1e-3).margin(1e-12));
      CHECK(std::stod(found[4]) == Approx(100 * known["idle_share"].get<double>()).margin(0.051));
      size_t row = 0;
      for (const char* tier : {"device", "host", "nvme"}) {
        const json& own = rank["tiers"][tier];
        if (own["planned_peak_bytes"] == 0) continue;
        REQUIRE(row < drawn.table.size());
        const auto& cells = drawn.table[row++];
        CHECK(cells.at(0) == tier);
        CHECK(cells.at(1) == own["planned_peak_bytes"].dump());
        CHECK(cells.at(3) == own["peak_phase"]);
        CHECK(cells.at(4) == own["peak_op"]);
      }
      CHECK(row == drawn.table.size());

      // Bars of the whole step.
      REQUIRE(drawn.lanes.size() == 1);
      std::map<std::string, std::vector<int>> turns;  // of each op of a layer
      double busy = 0, end = 0;
      for (const DrawnBar& bar : drawn.lanes[0].bars) {
        if (drawn.lanes[0].names.at(static_cast<size_t>(bar.lane)) == "compute") busy += bar.seconds;
        end = std::max(end, bar.start + bar.seconds);
        std::smatch op;
        if (!std::regex_match(bar.name, op, std::regex("((?:for|back)ward h\\.\\d+.*), microbatch (\\d+)"))) continue;
        turns[op[1]].push_back(std::stoi(op[2]));
      }
      CHECK(busy == Approx(known["busy_seconds"].get<double>()).epsilon(1e-3));
      CHECK(end <= plan["seconds_per_step"].get<double>() * 1.001);
      const auto microbatches = static_cast<int>(p->plan.layout().microbatches);
      REQUIRE(microbatches > 1);
      std::set<std::string> layers;
      for (auto& [name, numbers] : turns) {
        CAPTURE(name, numbers);
        std::sort(numbers.begin(), numbers.end());
        REQUIRE(numbers.size() == static_cast<size_t>(microbatches));
        for (int m = 0; m < microbatches; ++m) CHECK(numbers[static_cast<size_t>(m)] == m);
        layers.insert(name.substr(0, name.find_first_of(" ", name.find("h."))));
      }
      size_t own = 0;
      for (const json& block : known["blocks"]) own += block > 0 && block < p->model.blocks.size() - 1;
      CHECK(layers.size() == 2 * own);
      for (const DrawnCurve& curve : drawn.curves) {
        CAPTURE(curve.tier);
        REQUIRE(curve.x.size() > 1);
        CHECK(std::is_sorted(curve.x.begin(), curve.x.end()));
        double most = 0;
        for (size_t i = 0; i < curve.x.size(); ++i) most = std::max(most, curve.total(i));
        CHECK(most <= rank["tiers"][curve.tier]["planned_peak_bytes"].get<double>());
        CHECK(most > 0);
      }
    }
  }
}

namespace {

double sum_of(const DrawnLanes& chart, size_t row, const std::string& begin = "") {
  double sum = 0;
  for (const DrawnBar& bar : chart.bars) {
    if (bar.lane == static_cast<int>(row) && bar.name.find(begin) != std::string::npos) sum += bar.seconds;
  }
  return sum;
}

}  // namespace

TEST_CASE("A pipeline's page begins with all stages over the step, where its seconds go, and bytes of each tier") {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const auto p = planned({"parallel.pipeline=3", "parallel.partition=[1,3,2]", "memory.placement=host",
                            std::string("parallel.schedule=") + schedule},
                           6, find_cluster("dgx-a100"));
    const json plan = json::parse(to_json(p->plan));
    const std::string page = plan_page(p->plan);
    const auto charts = read_overview(page);
    CAPTURE(schedule);
    CHECK(charts.size() == 4);
    const DrawnLanes& step = charts.at("All stages: the step");
    const DrawnLanes& seconds = charts.at("Where the seconds of a step go");
    for (size_t s = 0; s < 3; ++s) {
      CAPTURE(s);
      const StagePlan& stage = p->plan.stages[s];
      CHECK(step.names.at(s) == fmt::format("stage {}", s));
      CHECK(sum_of(step, s) == Approx(stage.step->busy_seconds.front()).epsilon(1e-3));
      for (uint32_t m = 0; m < p->plan.layout().microbatches; ++m) {
        CHECK(sum_of(step, s, fmt::format("forward, microbatch {}", m)) > 0);
        CHECK(sum_of(step, s, fmt::format("backward, microbatch {}", m)) > 0);
        // The first stage of this schedule has nobody who waits for its gradients.
        const bool apart = sum_of(step, s, fmt::format("gradients of weights, microbatch {}", m)) > 0;
        CHECK(apart == (s > 0 && schedule == std::string("zb-h1")));
      }
      CHECK(sum_of(seconds, s) == Approx(plan["seconds_per_step"].get<double>()).epsilon(2e-3));
      CHECK(sum_of(seconds, s, "computes") == Approx(stage.step->busy_seconds.front()).epsilon(1e-3));
      CHECK(sum_of(seconds, s, "communication") == Approx(stage.step->exposed_comm_seconds).epsilon(1e-3).margin(1e-9));
      CHECK(sum_of(seconds, s, "copies") == Approx(stage.step->exposed_io_seconds).epsilon(1e-3).margin(1e-9));
      const json own = of_stage(plan, s);
      for (const char* tier : {"device", "host"}) {
        bool drawn = false;
        for (const auto& [title, chart] : charts) {
          if (!title.starts_with(fmt::format("Bytes of the {} tier at each stage's peak; ", tier))) continue;
          drawn = true;
          CHECK(sum_of(chart, s) == Approx(own["tiers"][tier]["live_peak_bytes"].get<double>()).epsilon(0.01));
        }
        CHECK(drawn);
      }
    }
    CHECK(page.find("<h2>Groups of ranks on hosts of dgx-a100</h2>") != std::string::npos);
    CHECK(read_page(page).size() == 3);
    CHECK(read_page(plan_page(p->plan, {false, 1})).size() == 1);
  }
}

TEST_CASE("A page draws lanes that an op of the step runs on, and an op's kind has one colour in all of its charts") {
  const auto p = planned({"parallel.pipeline=2", "zero_optimization.stage=2", "run.checkpoint_interval=1"}, 4,
                         find_cluster("dgx-a100"));
  const std::string page = plan_page(p->plan);
  for (const DrawnStage& stage : read_page(page)) {
    for (size_t l = 0; l < stage.lanes.at(0).names.size(); ++l) {
      INFO(stage.lanes[0].names[l]);
      CHECK(sum_of(stage.lanes[0], l) > 0);
    }
  }
  std::map<std::string, std::set<std::string>> colours;
  for (const std::string& part : matches(page, "<h2>Lanes: ", "</p>")) {
    for (const std::string& name : matches(part, "<span>", "</span>")) {
      colours[name.substr(name.find("</i>") + 4)].insert(matches(name, "background:", "\"").front());
    }
  }
  CHECK(colours.size() > 4);
  for (const auto& [kind, seen] : colours) {
    INFO(kind);
    CHECK(seen.size() == 1);
  }
}

TEST_CASE("a page in program order has the plan's live peak, at the plan's op, and every category resident as it is") {
  for (const char* stage : {"0", "1", "3"}) {
    for (const char* more : {"memory.recompute=none", "memory.recompute=full", "memory.placement=host"}) {
      for (const char* pipeline : {"1", "2"}) {
        const std::vector<std::string> sets{std::string("zero_optimization.stage=") + stage,
                                            more,
                                            std::string("parallel.pipeline=") + pipeline,
                                            "train_batch_size=8",
                                            "train_micro_batch_size_per_gpu=2",
                                            "zero_optimization.overlap_comm=false"};
        const auto p = planned(sets, 2);
        const json plan = json::parse(to_json(p->plan));
        CAPTURE(sets);
        const auto stages = read_page(plan_page(p->plan));
        REQUIRE(stages.size() == p->plan.stages.size());
        for (size_t s = 0; s < stages.size(); ++s) {
          const json rank = of_stage(plan, s);
          CAPTURE(s);
          CHECK(stages[s].text.find("The axes count ops in program order") == 0);
          size_t ops = 0;
          for (const Segment& segment : p->plan.stages[s].compiled.set.program("step").segments) {
            ops += size_t{segment.count} * std::min(2u, segment.repeat);
          }
          CHECK(stages[s].lanes.at(0).bars.size() == ops);
          for (const DrawnCurve& curve : stages[s].curves) {
            size_t highest = 0;
            for (size_t i = 0; i < curve.x.size(); ++i) {
              if (curve.total(i) > curve.total(highest)) highest = i;
            }
            if (curve.tier == "device") {
              CHECK(curve.total(highest) == rank["phases"]["step"]["live_peak_bytes"].get<double>());
              CHECK(curve.labels.at(highest) == rank["phases"]["step"]["peak_op"]);
            }
            const size_t end = curve.x.size() - 1;
            for (const char* name : {"weights", "grads", "master", "moment1", "moment2"}) {
              CAPTURE(curve.tier, name);
              const auto found = curve.bytes.find(name);
              CHECK((found == curve.bytes.end() ? 0.0 : found->second[end]) ==
                    rank["homes"][name][curve.tier].get<double>());
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the chart of each tier has the line of its own limit, and none where no limit is known") {
  const std::vector<std::string> base{"memory.placement=nvme", "memory.nvme_path=scratch"};
  const TierBytes peaks = peak_bytes(planned(base, 2)->plan.stages[0].compiled.plan);
  // Each of the three tiers has a limit or has none.
  for (size_t which = 0; which < 8; ++which) {
    std::vector<std::string> sets = base;
    std::map<std::string, std::string> expected;
    for (size_t t = 0; t < core::tier_count; ++t) {
      const std::string tier(core::tier_names[t]);
      const uint64_t bytes = peaks[t] + (t + 1) * 4096;
      if ((which >> t & 1) == 0) continue;
      sets.push_back(fmt::format("memory.{}_budget_bytes={}", tier, bytes));
      expected[tier] = fmt::format("memory.{}_budget_bytes {}", tier, core::format_bytes(bytes));
    }
    const auto p = planned(sets, 2);
    CAPTURE(sets);
    const auto stages = read_page(plan_page(p->plan));
    std::set<std::string> drawn;
    for (const DrawnCurve& curve : stages.at(0).curves) {
      CAPTURE(curve.tier);
      CHECK(curve.limit == expected[curve.tier]);
      drawn.insert(curve.tier);
    }
    CHECK(drawn.size() == core::tier_count);
  }
}

TEST_CASE("the two ends of a long step are as many ops as their titles say") {
  const auto p = planned({"train_batch_size=4096"}, 2, find_cluster("dgx-a100"));
  const auto stages = read_page(plan_page(p->plan));
  REQUIRE(stages.at(0).lanes.size() == 2);
  for (const DrawnLanes& lanes : stages[0].lanes) {
    std::smatch found;
    INFO(lanes.title);
    REQUIRE(std::regex_match(lanes.title, found, std::regex("Lanes: the (first|last) (\\d+) ops of the step")));
    CHECK(lanes.bars.size() == std::stoul(found[2]));
  }
}

}  // namespace zrt::plan_page_test
