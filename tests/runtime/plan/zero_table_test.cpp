// Table 1 and Figure 1 of the ZeRO paper (arXiv 1910.02054), from the buffers of compiled programs. tests/data holds
// the printed cells with one unit of their last digit as tolerance; some are rounded, others cut off.
//
// The models are GPT-2 layouts with 128 elements per head, the vocabulary and sequence of GPT-2, tied embeddings, and
// layers × hidden chosen so that the parameters come as close to the paper's sizes as its digits need: 7.5B within
// 2.6e-4 (a cell of 52.5 needs 1.9e-3), 128B within 4.2e-5 (257 stands for 257.75: 9.7e-4), 1T within 2.0e-6 (4046
// stands for 4046.875: 3.0e-5). What units add in padding stays below all of these, so nothing is scaled or subtracted.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "catch.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "tests/csv.h"

namespace zrt::zero_table_test {

using namespace zrt;
using namespace zrt::runtime;
using optimizer::Extent;

namespace {

struct Cell {
  std::string model;
  int dp, stage;
  double gb, tolerance;
};

std::vector<Cell> cells() {
  std::vector<Cell> all;
  for (auto& row : test::read_csv("zero_table1.csv")) {
    all.push_back(
        {row["model"], std::stoi(row["dp"]), std::stoi(row["stage"]), std::stod(row["gb"]), std::stod(row["tol_gb"])});
  }
  for (auto& row : test::read_csv("zero_fig1.csv")) {
    all.push_back({row["params_billion"] + "B", std::stoi(row["dp"]), std::stoi(row["stage"]), std::stod(row["gb"]),
                   std::stod(row["tol_gb"])});
  }
  return all;
}

Config config_of(const std::string& model, int dp, int stage) {
  struct Size {
    int layers, hidden;
  };
  const std::map<std::string, Size> sizes{{"7.5B", {32, 4352}}, {"128B", {80, 11520}}, {"1T", {96, 29440}}};
  const Size size = sizes.at(model);
  const std::string text = fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {{"enabled": true}},
  "zero_optimization": {{"stage": {}}}, "optimizer": {{"type": "Adam"}}, "parallel": {{"reduce_every": 1}},
  "model": {{"type": "gpt2", "layers": {}, "hidden": {}, "heads": {}, "sequence": 1024, "vocab": 50304}}}})",
      stage, size.layers, size.hidden, size.hidden / 128);
  return parse_config(text, "table.json", {}, dp);
}

// Decimal gigabytes of weights, gradients and optimizer states that a rank's compiled programs keep.
double state_gb(const ProgramSet& set) {
  const core::CategoryBytes bytes = make_memory_plan(set).device().model_states;
  uint64_t sum = 0;
  for (const core::Category category : {core::Category::weights, core::Category::grads, core::Category::master,
                                        core::Category::moment1, core::Category::moment2}) {
    sum += bytes[static_cast<size_t>(category)];
  }
  return static_cast<double>(sum) / 1e9;
}

double state_gb(const Cell& cell, void (*change)(optimizer::Extents&) = nullptr) {
  const Config config = config_of(cell.model, cell.dp, cell.stage);
  const models::Model model = config.model.make();
  Layout layout = make_layouts(config, model).front();
  if (change) {
    change(layout.zero);
    for (optimizer::Unit& unit : layout.units.units) change(unit.held);
  }
  return state_gb(compile(layout, training_phases(config, "init")).set);
}

std::string text(const Cell& cell) {
  return fmt::format("{} stage {} dp {}: printed {} ± {}", cell.model, cell.stage, cell.dp, cell.gb, cell.tolerance);
}

}  // namespace

TEST_CASE("every cell of ZeRO's Table 1 and Figure 1 comes out of compiled programs") {
  const std::vector<Cell> all = cells();
  REQUIRE(all.size() == 54 + 4);
  for (const Cell& cell : all) {
    const double gb = state_gb(cell);
    INFO(text(cell) << ", planned " << gb);
    CHECK(std::abs(gb - cell.gb) <= cell.tolerance);
  }
}

TEST_CASE("without one part of the partitioning exactly the cells that rest on it break") {
  const auto matches = [](const Cell& cell, void (*change)(optimizer::Extents&)) {
    return std::abs(state_gb(cell, change) - cell.gb) <= cell.tolerance;
  };
  for (const Cell& cell : cells()) {
    if (cell.model != "7.5B") continue;
    INFO(text(cell));
    const bool shared = cell.dp > 1;
    CHECK(matches(cell, [](auto& zero) { zero.states = zero.grads = Extent::full; }) == !(shared && cell.stage >= 1));
    CHECK(matches(cell, [](auto& zero) { zero.grads = Extent::full; }) == !(shared && cell.stage >= 2));
    CHECK(matches(cell, [](auto& zero) { zero.weights = Extent::full; }) == !(shared && cell.stage >= 3));
  }
}

TEST_CASE("the table is read from the buffers of the programs") {
  const Config config = config_of("7.5B", 64, 3);
  const models::Model model = config.model.make();
  const Layout layout = make_layouts(config, model).front();
  ProgramSet set = compile(layout, training_phases(config, "init")).set;
  CHECK(state_gb(set) == Approx(1.875).epsilon(1e-3));
  for (Buffer& buffer : set.buffers) {
    if (buffer.category == core::Category::moment1) buffer.bytes = 0;
  }
  CHECK(state_gb(set) == Approx(1.875 * 12 / 16).epsilon(1e-3));
}

TEST_CASE("the plan's JSON states the same bytes") {
  const Config config = config_of("1T", 1024, 3);
  const models::Model model = config.model.make();
  const std::string json = to_json(make_plan(config, model, training_phases(config, "init"), std::nullopt));
  const size_t at = json.find("\"model_state_bytes\": ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(json.substr(at + 21)) / 1e9 == Approx(15.6).margin(0.1));
}

}  // namespace zrt::zero_table_test
