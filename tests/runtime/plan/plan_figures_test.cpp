// Every figure that a plan prints beside what is known of it otherwise: its JSON, the configuration, and sums of parts.
// A line of the text that nothing here reads fails, so that no figure is printed without a second one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "catch.h"
#include "runtime/ops/spec.h"
#include "tests/runtime/plan/printed_plan.h"

namespace zrt::plan_figures_test {

using namespace zrt;
using namespace zrt::runtime;
using nlohmann::json;
using testing::check_fit;
using testing::check_homes;
using testing::in_thousands;
using testing::in_units;
using testing::layers_in;
using testing::Planned;
using testing::planned;
using testing::PrintedLines;
using testing::rank_of_stage;

namespace {

struct Case {
  const char* name;
  std::vector<std::string> sets;
  int ranks;
  const char* cluster;
};

const std::string groups =
    R"(parameter_groups=[{"match": "*.bias", "weight_decay": 0}, {"match": ["wte*", "h.0.*"], "lr_scale": 0.5, "optimizer": "Lion"}])";

// Two microbatches at least of 4 on each data-parallel rank.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"one rank", {}, 1, ""},
      {"groups", {"zero_optimization.stage=3", groups}, 2, "dgx-a100"},
      {"untied", {"model.tied=false", "zero_optimization.stage=2", "memory.unit_bytes=65536"}, 4, "dgx-h100"},
      {"tied stages", {"parallel.pipeline=2", groups}, 4, "dgx-a100"},
      {"untied stages", {"parallel.pipeline=4", "model.tied=false", "zero_optimization.stage=3"}, 8, "dgx-a100"},
      {"uneven stages",
       {"parallel.pipeline=2", "parallel.partition=[2,4]", "run.checkpoint_interval=5"},
       2,
       "dgx-a100"},
      {"first stage heavy", {"parallel.pipeline=2", "parallel.partition=[5,1]", "model.vocab=512"}, 2, "dgx-a100"},
      {"interleaved",
       {"parallel.pipeline=2", "parallel.virtual_pipeline=3", "zero_optimization.stage=3", "model.layers=10",
        "parallel.gathered_for=run", groups},
       4,
       "dgx-a100"},
      {"tensor", {"parallel.tensor=2", "zero_optimization.stage=1", groups}, 4, "dgx-a100"},
      {"two hosts",
       {"parallel.tensor=2", "zero_optimization.stage=3", "train_micro_batch_size_per_gpu=1"},
       16,
       "dgx-a100"},
      {"groups of ranks", {"zero_optimization.stage=3", "zero_optimization.mics_shard_size=2"}, 4, "dgx-a100"},
      {"stages on hosts",
       {"parallel.tensor=2", "parallel.pipeline=2", "train_micro_batch_size_per_gpu=1"},
       16,
       "dgx-h100"},
      {"tensor in stages", {"parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence=true", groups}, 8, ""},
      {"host", {"memory.placement=host", "run.checkpoint_interval=5", "data.validation=v"}, 2, "dgx-a100"},
      {"NVMe", {"memory.placement=nvme", "memory.nvme_path=scratch", "zero_optimization.stage=3"}, 2, "dgx-a100"},
      {"layers apart",
       {"memory.placement=auto", "memory.recompute=auto", "memory.device_budget_bytes=46000000", "model.layers=8"},
       2,
       ""},
      {"stages with budgets",
       {"memory.placement=auto", "memory.recompute=auto", "memory.device_budget_bytes=22000000", "parallel.pipeline=2",
        "parallel.partition=[2,4]"},
       4,
       ""},
      {"recomputed", {"memory.recompute=full", "fp8.enabled=true"}, 2, ""},
      {"Muon in fewer bytes",
       {"optimizer.type=Muon", "optimizer.params.lr=0.02", "memory.moments=int8", "run.checkpoint_interval=2"},
       2,
       ""},
      {"too small", {"memory.device_budget_bytes=30000000", "memory.host_budget_bytes=1000"}, 2, "dgx-a100"},
  };
  return all;
}

std::unique_ptr<Planned> plan_of(const Case& c) {
  return planned(c.sets, c.ranks, *c.cluster ? std::optional(find_cluster(c.cluster)) : std::nullopt);
}

// Reads a plan's text line by line.
class Reader : PrintedLines {
 public:
  explicit Reader(const Planned& p)
      : PrintedLines(plan_text(p.plan, {true, {}})), p_(p), json_(json::parse(to_json(p.plan))) {}

  void check() {
    head();
    group_lines();
    if (pipelined()) table();
    for (size_t s = 0; s < p_.plan.stages.size(); ++s) stage(s);
    end();
    CHECK(ended());
    sums();
  }

 private:
  bool pipelined() const { return p_.plan.stages.size() > 1; }

  void head() {
    need(
        "(\\S+) parameters(?:, \\S+ of them for a token,)? in (\\d+) units; (.*), ZeRO stage (\\d), (\\w+)( with fp8 "
        "products)?; (\\d+) "
        "microbatch(?:es)? of (\\d+) × (\\d+) tokens a rank");
    CHECK(part(1) == in_thousands(json_["parameters"]));
    CHECK(json_["parameters"] == p_.model.parameters());
    CHECK(json_["active_parameters"] == p_.model.active_parameters());
    size_t units = 0;
    for (const Layout& layout : make_layouts(p_.config, p_.model)) units += layout.units.units.size();
    CHECK(number(2) == units);
    CHECK(number(4) == static_cast<uint64_t>(p_.config.zero.stage));
    CHECK(part(6).empty() != p_.config.precision.fp8);
    const uint64_t tokens = number(7) * number(8) * number(9);
    const uint64_t sequence = number(9);
    const std::string mesh = part(3);
    std::smatch m;
    REQUIRE(
        std::regex_match(mesh, m,
                         std::regex("(?:(\\d+) stages(?: with (\\d+) chunks each)? in the schedule (\\S+) × )?(\\d+) "
                                    "ranks?(?: × (\\d+) that share blocks)?")));
    const auto or_one = [&](size_t i) { return m[i].matched ? std::stoull(m[i].str()) : 1; };
    CHECK(or_one(1) == json_["pipeline"]["stages"].size());
    CHECK(or_one(2) == json_["pipeline"]["chunks"].get<uint64_t>());
    CHECK((m[3].matched ? json(m[3].str()) : json()) == json_["pipeline"]["schedule"]);
    CHECK(or_one(1) * or_one(4) * or_one(5) == static_cast<uint64_t>(p_.config.mesh.world()));
    CHECK(json_["tokens_per_step"] == tokens * or_one(4));
    CHECK(json_["tokens_per_step"] == 32 * sequence);  // the configuration's batch
  }

  void group_lines() {
    const json& known = json_["parameter_groups"];
    std::map<std::string, int64_t> elements;
    for (const auto& block : p_.model.blocks) {
      for (const models::Param& param : block->params()) elements[param.name] = param.whole_elements();
    }
    size_t lines = 0;
    while (take("  (\\w+), weight decay (\\S+), rate × (\\S+): (\\d+) tensors?, (\\d+) elements: (.*)")) {
      REQUIRE(lines < known.size());
      const json& group = known[lines++];
      CHECK(group["optimizer"] == part(1));
      CHECK(group["weight_decay"].get<double>() == Approx(real(2)));
      CHECK(group["lr_scale"].get<double>() == Approx(real(3)));
      CHECK(group["parameters"].size() == number(4));
      CHECK(group["elements"] == number(5));
      std::string names;
      for (size_t i = 0; i < std::min<size_t>(3, group["parameters"].size()); ++i) {
        names += (i ? ", " : "") + group["parameters"][i].get<std::string>();
      }
      CHECK(part(6) == names + (group["parameters"].size() > 3 ? ", …" : ""));
    }
    CHECK(lines == (known.size() > 1 ? known.size() : 0));
    int64_t all = 0;
    std::set<std::string> names;
    for (const json& group : known) {
      int64_t sum = 0;
      for (const json& name : group["parameters"]) {
        CHECK(names.insert(name).second);
        sum += elements.at(name);
      }
      CHECK(group["elements"] == sum);
      all += sum;
    }
    CHECK(names.size() == elements.size());
    CHECK(all == p_.model.parameters());
  }

  // All stages, one a row; a plan without a cluster has no times.
  void table() {
    const bool timed = !json_["cluster"].is_null();
    const std::string cell = "(\\S.*?)", gap = "  +";
    need(timed ? " *stage +ranks +parameters +device +host +nvme +receives +computes +idle +layers"
               : " *stage +ranks +parameters +device +host +nvme +receives +layers");
    size_t fullest = 0;
    const auto peak = [&](size_t s) {
      return rank_of_stage(json_, s)["tiers"]["device"]["planned_peak_bytes"].get<uint64_t>();
    };
    for (size_t s = 0; s < p_.plan.stages.size(); ++s) {
      if (peak(s) > peak(fullest)) fullest = s;
    }
    const int per_stage = p_.config.mesh.world() / static_cast<int>(p_.plan.stages.size());
    for (size_t s = 0; s < p_.plan.stages.size(); ++s) {
      std::string pattern = " *" + cell;
      for (size_t c = 1; c < (timed ? 10 : 8); ++c) pattern += gap + cell;
      need(pattern);
      std::vector<std::string>& row = rows_.emplace_back();
      for (size_t c = 1; c <= (timed ? 10 : 8); ++c) row.push_back(part(c));
      if (!timed) row.insert(row.end() - 1, 2, "");
      const int first = static_cast<int>(s) * per_stage, last = first + per_stage - 1;
      CHECK(row[0] == std::to_string(s));
      CHECK(row[1] == (first == last ? std::to_string(first) : fmt::format("{}–{}", first, last)));
      const json own = rank_of_stage(json_, s), &known = json_["pipeline"]["stages"][s];
      CHECK(row[2] == in_thousands(known["parameters"]));
      for (size_t t = 0; t < core::tier_count; ++t) {
        const json& bytes = own["tiers"][std::string(core::tier_names[t])]["planned_peak_bytes"];
        CHECK(row[3 + t] == (bytes == 0 ? "–" : in_units(bytes)));
      }
      layers(row[9], known);
      CHECK((row[9].find("; fullest") != std::string::npos) == (s == fullest));
    }
  }

  // A stage's blocks and the parameters of these.
  void layers(const std::string& text, const json& known) {
    std::set<size_t> blocks;
    for (const json& block : known["blocks"]) blocks.insert(block.get<size_t>());
    const size_t last = p_.model.blocks.size() - 1;
    CHECK((text.find("embedding") != std::string::npos) == (blocks.count(0) > 0));
    CHECK((text.find("head") != std::string::npos) == (blocks.count(last) > 0));
    std::map<std::string, int64_t> elements;
    for (const size_t block : blocks) {
      for (const models::Param& param : p_.model.blocks[block]->params()) elements[param.name] = param.whole_elements();
    }
    blocks.erase(0), blocks.erase(last);
    std::set<size_t> numbers;
    for (const size_t block : blocks) numbers.insert(block - 1);
    CHECK(layers_in(text) == numbers);
    int64_t sum = 0;
    for (const auto& [name, count] : elements) sum += count;
    CHECK(known["parameters"] == sum);
  }

  void stage(size_t s) {
    const json own = rank_of_stage(json_, s);
    const StagePlan& plan = p_.plan.stages[s];
    const int per_stage = p_.config.mesh.world() / static_cast<int>(p_.plan.stages.size());
    const std::string ranks = per_stage == 1 ? fmt::format("rank {}", s)
                                             : fmt::format("ranks {}–{}, all alike", static_cast<int>(s) * per_stage,
                                                           (static_cast<int>(s) + 1) * per_stage - 1);
    if (pipelined()) {
      need("stage (\\d+), (ranks? \\d+(?:–\\d+, all alike)?):");
      CHECK(number(1) == s);
      CHECK(part(2) == ranks);
    } else {
      need("(ranks? .*)");
      CHECK(part(1) == ranks);
    }
    for (const char* tier : {"device", "host", "nvme"}) {
      const json& known = own["tiers"][tier];
      if (known["planned_peak_bytes"] == 0) continue;
      need("  (\\w+): peak (.*) in phase '(.*)' at '(.*)'");
      CHECK(part(1) == tier);
      CHECK(part(2) == in_units(known["planned_peak_bytes"]));
      CHECK(known["peak_phase"] == part(3));
      CHECK(known["peak_op"] == part(4));
      need("   (.*); packing overhead (\\S+) %");
      const double overhead = known["planned_peak_bytes"].get<double>() / known["live_peak_bytes"].get<double>() - 1;
      CHECK(part(2) == fmt::format("{:.2f}", 100 * overhead));
      if (tier == std::string("device")) CHECK(own["packing_overhead"].get<double>() == Approx(overhead));
      std::string categories;
      uint64_t sum = 0;
      for (const std::string_view name : core::category_names) {
        const json& bytes = known["categories"][std::string(name)];
        sum += bytes.get<uint64_t>();
        if (bytes > 0) categories += fmt::format(" {} {}", name, in_units(bytes));
      }
      CHECK(part(1) == categories);
      CHECK(known["live_peak_bytes"] == sum);
    }
    phases(own);
    received(plan);
    if (take("  gathered weights stay for a (\\w+)")) {
      CHECK(part(1) == gathered_for_name(plan.compiled.layout.gathered_for));
      CHECK(pipelined());
    }
    check_homes(*this, own, plan);
    times(s);
  }

  void phases(const json& own) {
    need("  device by phase:(.*)");
    std::string text;
    uint64_t most = 0;
    for (const Program& program : p_.plan.stages[own["stage"].get<size_t>()].compiled.set.programs) {
      const json& phase = own["phases"][program.phase];
      text += fmt::format(" {} {}", program.phase, in_units(phase["live_peak_bytes"]));
      most = std::max(most, phase["live_peak_bytes"].get<uint64_t>());
    }
    CHECK(part(1) == text);
    CHECK(own["tiers"]["device"]["live_peak_bytes"] == most);
    const json& peak = own["phases"][own["tiers"]["device"]["peak_phase"].get<std::string>()];
    CHECK(peak["live_peak_bytes"] == most);
    CHECK(peak["peak_op"] == own["tiers"]["device"]["peak_op"]);
  }

  // The text has every stage's, the JSON that of the stage whose ranks receive most.
  void received(const StagePlan& plan) {
    need("  received by each rank in a step: ([^;]*)(.*)");
    const std::string all = part(1), kinds = part(2);
    uint64_t sum = 0;
    std::string text;
    for (const auto& [kind, count] :
         comm_bytes(plan.compiled.set, plan.compiled.set.program("step"), plan.compiled.layout)) {
      sum += count;
      if (count > 0) text += fmt::format("; {} {}", op_kind_name(kind), in_units(static_cast<double>(count)));
    }
    CHECK(all == in_units(static_cast<double>(sum)));
    CHECK(kinds == text);
    if (pipelined()) CHECK(rows_.at(received_.size())[6] == all);
    received_.push_back(sum);
  }

  void times(size_t s) {
    const StagePlan& plan = p_.plan.stages[s];
    if (!plan.step) return;
    const std::string waits = "computation waits (\\S+) s for communication and (\\S+) s for copies";
    const size_t first = pipelined() ? 1 : 4;
    if (pipelined()) {
      need("  " + waits);
      const json& known = json_["pipeline"]["stages"][s];
      CHECK(rows_.at(s)[7] == fmt::format("{:.4g} s", known["busy_seconds"].get<double>()));
      CHECK(rows_.at(s)[8] == fmt::format("{:.1f} %", 100 * known["idle_share"].get<double>()));
      CHECK(known["idle_share"].get<double>() ==
            Approx(1 - known["busy_seconds"].get<double>() / json_["seconds_per_step"].get<double>()));
    } else {
      need("  on (\\S+): (\\S+) s a step, (\\d+) tokens/s; " + waits);
      step_time(1, 2, 3);
    }
    waits_.push_back({real(first), real(first + 1)});
  }

  void step_time(size_t cluster, size_t seconds, size_t rate) {
    CHECK(json_["cluster"] == part(cluster));
    CHECK(json_["seconds_per_step"].get<double>() == Approx(real(seconds)).epsilon(1e-3));
    CHECK(json_["tokens_per_step"].get<double>() / json_["seconds_per_step"].get<double>() ==
          Approx(real(rate)).epsilon(1e-4).margin(0.51));
  }

  // Each group in which several ranks exchange once, with the hosts that its first ranks are on.
  void ways() {
    const json& known = json_["groups"];
    if (!p_.plan.cluster) {
      CHECK(known == json::array());
      return;
    }
    std::map<std::string, std::pair<int, std::set<int>>> written;  // by name: ranks, hosts
    for (const StagePlan& plan : p_.plan.stages) {
      const ProgramSet& set = plan.compiled.set;
      for (size_t g = 0; g < set.groups.size(); ++g) {
        const Group& group = set.groups[g];
        bool used = false;
        for (const Program& program : set.programs) {
          for (const Op& op : program.ops) used = used || (op.group == g && spec(op.kind).communicates());
        }
        if (group.ranks.size == 1 || !used) continue;
        written[group.name].first = group.ranks.size;
        for (int rank = 0; rank < p_.config.mesh.world(); ++rank) {
          if (group.ranks.together(group.ranks.first, rank)) written[group.name].second.insert(rank / 8);
        }
      }
    }
    REQUIRE(known.size() == written.size());
    std::map<std::string, std::string> lines;
    for (const json& entry : known) {
      const auto& [ranks, hosts] = written.at(entry["name"]);
      CAPTURE(entry.dump());
      CHECK(entry["ranks"] == ranks);
      CHECK(entry["hosts"] == hosts.size());
      CHECK(entry["way"] == (hosts.size() == 1 ? "memory" : "nccl"));
      const int staged = hosts.size() == 1 ? 0 : ranks - 1;  // MiB
      CHECK(entry["staging_bytes"] == staged << 20);
      std::string& line = lines[entry["way"]];
      line += fmt::format("{}{} ({} ranks", line.empty() ? "" : ", ", entry["name"].get<std::string>(), ranks);
      line += hosts.size() == 1 ? ")" : fmt::format(" on {} hosts, {}.00 MiB for sums)", hosts.size(), staged);
    }
    for (const auto& [way, text] : {std::pair("memory",
                                              "inside a host, by each other's memory, or as with --transport nccl by "
                                              "processes whose GPUs cannot be connected"),
                                    std::pair("nccl", "between hosts, by NCCL")}) {
      if (!lines.count(way)) continue;
      need(fmt::format("groups {}: (.*)", text));
      CHECK(part(1) == lines[way]);
    }
  }

  void end() {
    ways();
    if (json_["cluster"].is_null()) {
      CHECK(json_["seconds_per_step"].is_null());
    } else {
      // The stage that computes longest gives its waits to the JSON.
      size_t longest = 0;
      for (size_t s = 0; s < waits_.size(); ++s) {
        const auto busy = [&](size_t stage) {
          return pipelined() ? json_["pipeline"]["stages"][stage]["busy_seconds"].get<double>() : 0.0;
        };
        if (busy(s) > busy(longest)) longest = s;
      }
      CHECK(json_["exposed_comm_seconds"].get<double>() == Approx(waits_.at(longest)[0]).epsilon(1e-3).margin(1e-12));
      CHECK(json_["exposed_io_seconds"].get<double>() == Approx(waits_.at(longest)[1]).epsilon(1e-3).margin(1e-12));
      if (pipelined()) {
        need("on (\\S+): (\\S+) s a step, (\\d+) tokens/s");
        step_time(1, 2, 3);
        for (size_t s = 0; s < rows_.size(); ++s) CHECK(rows_[s][9].ends_with("; computes longest") == (s == longest));
      }
    }
    if (take("checkpoints are written while training stands still: .*")) {
      CHECK(json_["saves"] == "foreground");
    } else {
      CHECK(json_["saves"] != "foreground");
    }
    CHECK(json_["saves"].is_null() == (p_.config.run.checkpoint_interval == 0));
    CHECK(json_["cluster"].is_null() == take("no time is predicted without --cluster"));
    uint64_t most = 0;
    for (const uint64_t bytes : received_) most = std::max(most, bytes);
    uint64_t in_json = 0;
    for (const auto& [kind, bytes] : json_["comm_bytes"].items()) in_json += bytes.get<uint64_t>();
    CHECK(in_json == most);
    check_fit(*this, json_);
  }

  void sums() {
    CHECK(json_["ranks"].size() == static_cast<size_t>(p_.config.mesh.world()));
    for (const json& own : json_["ranks"]) {
      uint64_t on_device = 0;
      for (const auto& [name, tiers] : own["homes"].items()) on_device += tiers["device"].get<uint64_t>();
      CHECK(own["model_state_bytes"] == on_device);
      const int per_stage = p_.config.mesh.world() / static_cast<int>(p_.plan.stages.size());
      CHECK(own["stage"] == own["rank"].get<int>() / per_stage);
    }
  }

  const Planned& p_;
  const json json_;
  std::vector<std::vector<std::string>> rows_;  // of the table of stages
  std::vector<uint64_t> received_;
  std::vector<std::array<double, 2>> waits_;
};

}  // namespace

TEST_CASE("every figure of a plan's text is that of its JSON, and every sum that of its parts") {
  for (const Case& c : cases()) {
    const auto p = plan_of(c);
    INFO(c.name << "\n" << plan_text(p->plan, {true, {}}));
    Reader(*p).check();
  }
}

}  // namespace zrt::plan_figures_test
