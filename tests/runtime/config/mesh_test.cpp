#include "runtime/config/mesh.h"

#include <algorithm>
#include <string>

#include "catch.h"
#include "core/error.h"

namespace zrt::mesh_test {

using zrt::runtime::Axis;
using zrt::runtime::Coordinates;
using zrt::runtime::Mesh;

TEST_CASE("a mesh numbers tensor ranks fastest, then data, then pipeline") {
  const Mesh mesh(24, 2, 3);
  REQUIRE(mesh.world() == 24);
  REQUIRE(mesh.data() == 4);
  CHECK(mesh.coordinates(0) == Coordinates{0, 0, 0});
  CHECK(mesh.coordinates(1) == Coordinates{1, 0, 0});
  CHECK(mesh.coordinates(2) == Coordinates{0, 1, 0});
  CHECK(mesh.coordinates(8) == Coordinates{0, 0, 1});
  CHECK(mesh.coordinates(23) == Coordinates{1, 3, 2});
  for (int rank = 0; rank < 24; ++rank) CHECK(mesh.rank(mesh.coordinates(rank)) == rank);
  CHECK(mesh.group(Axis::tensor, 11) == std::vector<int>{10, 11});
  CHECK(mesh.group(Axis::data, 11) == std::vector<int>{9, 11, 13, 15});
  CHECK(mesh.group(Axis::pipeline, 11) == std::vector<int>{3, 11, 19});
}

TEST_CASE("the groups of an axis hold every rank once") {
  const auto [ranks, tensor, pipeline] = GENERATE(table<int, int, int>({{1, 1, 1}, {6, 1, 1}, {8, 4, 2}, {12, 2, 3}}));
  const Mesh mesh(ranks, tensor, pipeline);
  for (const Axis axis : {Axis::tensor, Axis::data, Axis::pipeline}) {
    std::vector<int> seen;
    for (const auto& group : mesh.groups(axis)) {
      CHECK(static_cast<int>(group.size()) == mesh.size(axis));
      CHECK(std::is_sorted(group.begin(), group.end()));
      seen.insert(seen.end(), group.begin(), group.end());
    }
    std::sort(seen.begin(), seen.end());
    REQUIRE(static_cast<int>(seen.size()) == ranks);
    for (int rank = 0; rank < ranks; ++rank) CHECK(seen[rank] == rank);
  }
}

TEST_CASE("ranks that do not fit the degrees are refused with the numbers") {
  try {
    Mesh(6, 2, 2);
    FAIL("accepted");
  } catch (const zrt::core::ConfigError& error) {
    const std::string text = error.what();
    CHECK(text.find("6 ranks") != std::string::npos);
    CHECK(text.find("parallel.tensor = 2") != std::string::npos);
    CHECK(text.find("multiple of 4") != std::string::npos);
  }
  CHECK_THROWS_AS(Mesh(0, 1, 1), zrt::core::ConfigError);
  CHECK_THROWS_AS(Mesh(-4, 1, 1), zrt::core::ConfigError);
  CHECK_THROWS_AS(Mesh(4, 0, 1), zrt::core::ConfigError);
  CHECK_THROWS_AS(Mesh(4, 1, -1), zrt::core::ConfigError);
  CHECK_THROWS_AS(Mesh(1 << 20, 1 << 20, 1 << 20), zrt::core::ConfigError);
  CHECK_THROWS_AS(Mesh(2, 1, 1).coordinates(2), zrt::core::ConfigError);
  CHECK_THROWS_AS(Mesh(2, 1, 1).rank({0, 2, 0}), zrt::core::ConfigError);
}

}  // namespace zrt::mesh_test
