#include "optimizer/unit.h"

#include <map>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "optimizer/groups.h"
#include "optimizer/zero.h"
#include "tests/runtime/toy_model.h"

namespace zrt::unit_test {

using namespace zrt;
using namespace zrt::testing;
using optimizer::make_units;
using optimizer::Unit;
using optimizer::unit_alignment;
using optimizer::UnitTable;

namespace {

std::string text(const models::Model& model, int dp, int64_t unit_elements) {
  return std::to_string(model.blocks.size()) + " blocks, dp " + std::to_string(dp) + ", unit " +
         std::to_string(unit_elements);
}

// Calls check(model, dp, unit_elements, table) for models with and without shared parameters.
template <class Check>
void for_each_table(Check check) {
  for (bool tied : {false, true}) {
    for (bool shared : {false, true}) {
      const models::Model model = make_toy(4, 12, 17, 5, tied, shared);
      for (int dp : {1, 2, 3, 4, 8, 48}) {
        for (int64_t unit_elements :
             {int64_t{1}, int64_t{64}, int64_t{100}, int64_t{256}, int64_t{1000}, int64_t{1} << 40}) {
          INFO(text(model, dp, unit_elements) << ", tied " << tied << ", shared " << shared);
          check(model, dp, unit_elements, make_units(model, dp, unit_elements));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("units hold every parameter once, whole, aligned and in canonical order") {
  for_each_table([](const models::Model& model, int dp, int64_t, const UnitTable& table) {
    std::vector<std::string> names;
    uint32_t number = 0;
    for (const Unit& unit : table.units) {
      int64_t end = 0;
      for (const optimizer::UnitParam& place : unit.params) {
        names.push_back(place.param->name);
        CHECK(place.number == number++);
        CHECK(place.offset == (end + unit_alignment - 1) / unit_alignment * unit_alignment);
        end = place.offset + place.param->elements();
      }
      CHECK(end <= unit.elements);
      // No more padding than the last shard's alignment asks for.
      CHECK(unit.elements - end < unit_alignment * (dp + 1));
    }
    std::vector<std::string> canonical;
    for (const auto& ref : model.canonical_params()) {
      canonical.push_back(model.blocks[ref.block]->params()[ref.index].name);
    }
    CHECK(names == canonical);
  });
}

TEST_CASE("a unit divides into equal aligned shards, and padding adds up") {
  for_each_table([](const models::Model& model, int dp, int64_t, const UnitTable& table) {
    int64_t elements = 0, parameters = 0;
    for (const auto& ref : model.canonical_params()) {
      parameters += model.blocks[ref.block]->params()[ref.index].elements();
    }
    for (const Unit& unit : table.units) {
      CHECK(unit.shard * dp == unit.elements);
      CHECK(unit.shard % unit_alignment == 0);
      CHECK(unit.shard > 0);
      elements += unit.elements;
    }
    CHECK(elements == parameters + table.padding());
  });
}

TEST_CASE("a unit stays within its limit unless one parameter alone is larger") {
  for_each_table([](const models::Model&, int dp, int64_t limit, const UnitTable& table) {
    for (const Unit& unit : table.units) {
      const auto& last = unit.params.back();
      const int64_t used =
          (last.offset + last.param->elements() + unit_alignment - 1) / unit_alignment * unit_alignment;
      CHECK((used <= limit || unit.params.size() == 1));
      CHECK(unit.elements < std::max(used, int64_t{1}) + dp * unit_alignment);
    }
    // Neighbours that have the same users and fit together are one unit.
    for (size_t u = 0; u + 1 < table.units.size(); ++u) {
      const Unit &a = table.units[u], &b = table.units[u + 1];
      if (a.blocks != b.blocks) continue;
      const auto& last = a.params.back();
      const auto up = [](int64_t n) { return (n + unit_alignment - 1) / unit_alignment * unit_alignment; };
      CHECK(last.offset + up(last.param->elements()) + up(b.params.front().param->elements()) > limit);
    }
  });
}

TEST_CASE("a unit lists exactly the blocks that use its parameters") {
  for_each_table([](const models::Model& model, int, int64_t, const UnitTable& table) {
    std::map<std::string, std::vector<uint32_t>> users;
    for (uint32_t b = 0; b < model.blocks.size(); ++b) {
      for (const auto& param : model.blocks[b]->params()) users[param.name].push_back(b);
    }
    for (const Unit& unit : table.units) {
      for (const auto& place : unit.params) CHECK(unit.blocks == users.at(place.param->name));
    }
    REQUIRE(table.blocks.size() == model.blocks.size());
    REQUIRE(table.params.size() == model.blocks.size());
    for (uint32_t b = 0; b < model.blocks.size(); ++b) {
      std::set<uint32_t> units;
      REQUIRE(table.params[b].size() == model.blocks[b]->params().size());
      for (size_t p = 0; p < table.params[b].size(); ++p) {
        const optimizer::ParamPlace& place = table.params[b][p];
        units.insert(place.unit);
        const Unit& unit = table.units.at(place.unit);
        const auto found = std::find_if(unit.params.begin(), unit.params.end(),
                                        [&](const auto& one) { return one.offset == place.offset; });
        REQUIRE(found != unit.params.end());
        CHECK(found->param->name == model.blocks[b]->params()[p].name);
      }
      CHECK(table.blocks[b] == std::vector<uint32_t>(units.begin(), units.end()));
    }
  });
}

TEST_CASE("tied and shared parameters are units of their own with all their users") {
  const models::Model model = make_toy(4, 12, 17, 5, true, true);
  const UnitTable table = make_units(model, 2, int64_t{1} << 40);
  std::vector<std::vector<uint32_t>> users;
  std::vector<std::string> names;
  for (const Unit& unit : table.units) users.push_back(unit.blocks), names.push_back(unit.name);
  CHECK(users == std::vector<std::vector<uint32_t>>{{0, 5}, {1, 3}, {1}, {2}, {3}, {4}});
  CHECK(names == std::vector<std::string>{"embed.weight", "linear.0.weight", "linear.0.bias",
                                          "linear.1.weight … linear.1.bias", "linear.2.bias",
                                          "linear.3.weight … linear.3.bias"});
  CHECK(table.blocks[3] == std::vector<uint32_t>{1, 4});
}

TEST_CASE("a unit holds parameters of one group, in canonical order") {
  const optimizer::OptimizerPtr biases =
      optimizer::make_grouped(make_optimizer(optimizer::AdamParams{}), {{{"*.bias"}, {}, 2}});
  const models::Model model = make_toy(2, 12, 17, 5, false, false);
  const UnitTable table = make_units(model, {core::Mesh(2, 1, 1)}, int64_t{1} << 40, {}, biases.get());
  std::vector<std::pair<std::string, uint32_t>> units;
  for (const Unit& unit : table.units) units.emplace_back(unit.name, unit.group);
  using Units = std::vector<std::pair<std::string, uint32_t>>;
  CHECK(units == Units{{"embed.weight", 0},
                       {"linear.0.weight", 0},
                       {"linear.0.bias", 1},
                       {"linear.1.weight", 0},
                       {"linear.1.bias", 1},
                       {"head.weight", 0}});
  CHECK(table.blocks[1] == std::vector<uint32_t>{1, 2});
}

TEST_CASE("padding is exact in a case worked out by hand") {
  // embed 204 → 256; linear 144 + 12 → 192 + 64 = 256; head 204 → 256; dp 3 rounds each to a multiple of 192.
  const models::Model model = make_toy(1, 12, 17, 5, false, false);
  const UnitTable table = make_units(model, 3, 1000);
  REQUIRE(table.units.size() == 3);
  for (const Unit& unit : table.units) {
    CHECK(unit.elements == 384);
    CHECK(unit.shard == 128);
  }
  CHECK(table.units[1].params[1].offset == 192);
  CHECK(table.units[1].parameters() == 156);
  CHECK(table.padding() == 3 * 384 - 204 - 156 - 204);
}

TEST_CASE("a stage outside 0 to 3 is refused with the legal ones") {
  CHECK_THROWS_AS(optimizer::zero_strategy(4), core::ConfigError);
  CHECK_THROWS_AS(optimizer::zero_strategy(-1), core::ConfigError);
  const optimizer::Extent full = optimizer::Extent::full;
  for (int stage = 0; stage < 4; ++stage) {
    const optimizer::ZeroStrategy zero = optimizer::zero_strategy(stage);
    CHECK(zero.stage == stage);
    CHECK((zero.states == full) == (stage < 1));
    CHECK((zero.grads == full) == (stage < 2));
    CHECK((zero.weights == full) == (stage < 3));
  }
}

}  // namespace zrt::unit_test
