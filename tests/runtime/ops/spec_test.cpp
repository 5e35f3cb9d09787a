#include "runtime/ops/spec.h"

#include <algorithm>
#include <set>

#include "catch.h"

namespace zrt::op_spec_test {

using namespace zrt;
using runtime::OpSpec;

TEST_CASE("every kind of op has one row, at its place") {
  const auto rows = runtime::op_specs();
  REQUIRE(rows.size() == runtime::op_kind_count);
  std::set<std::string_view> names;
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO(rows[i].name);
    CHECK(static_cast<size_t>(rows[i].kind) == i);
    CHECK(names.insert(rows[i].name).second);
    CHECK(runtime::op_kind_name(rows[i].kind) == rows[i].name);
  }
}

TEST_CASE("every row says what its op does, what it costs or moves, and each of its roles once") {
  for (const OpSpec& row : runtime::op_specs()) {
    INFO(row.name);
    CHECK(row.run != nullptr);
    CHECK((row.cost != nullptr) != (row.volume != nullptr));
    CHECK(!row.operands.empty());
    std::set<runtime::Role> roles;
    for (const runtime::Operand& operand : row.operands) {
      CHECK(roles.insert(operand.role).second);
      CHECK(operand.uses != 0);
    }
    // Blocks are what a step is for, and belong to a microbatch.
    if (row.block) CHECK((row.works && row.of_microbatch && !row.communicates()));
  }
}

}  // namespace zrt::op_spec_test
