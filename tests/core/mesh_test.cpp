#include "core/mesh.h"

#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "core/error.h"

namespace zrt::mesh_test {

using namespace zrt::core;

namespace {

// Lists the ranks of a group by what a mesh says of each rank.
std::vector<int> members(const RankGroups& groups, int rank, int world) {
  std::vector<int> ranks;
  for (int other = 0; other < world; ++other) {
    if (groups.together(rank, other)) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace

TEST_CASE("a group's ranks make a mesh of their own, in which they have the places that they have in the run") {
  const Mesh mesh(48, 2, 3, 4);
  const Axes axes = Axis::tensor | Axis::inner;
  const Mesh part = mesh.part(axes);
  CHECK(part.world() == 8);
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const int number = mesh.place(axes, rank);
    for (const Axis axis : {Axis::tensor, Axis::inner}) CHECK(part.place(axis, number) == mesh.place(axis, rank));
    CHECK(part.place(Axis::pipeline, number) == 0);
  }
}

TEST_CASE("a mesh numbers tensor ranks fastest, then those of an island, islands and stages") {
  const Mesh mesh(48, 2, 3, 4);
  REQUIRE(mesh.world() == 48);
  REQUIRE(mesh.data() == 8);
  REQUIRE(mesh.stage_ranks() == 16);
  int rank = 0;
  for (int stage = 0; stage < 3; ++stage) {
    CHECK(mesh.first_of(stage) == rank);
    for (int outer = 0; outer < 2; ++outer) {
      for (int inner = 0; inner < 4; ++inner) {
        for (int tensor = 0; tensor < 2; ++tensor, ++rank) {
          CHECK(mesh.place(Axis::tensor, rank) == tensor);
          CHECK(mesh.place(Axis::inner, rank) == inner);
          CHECK(mesh.place(Axis::outer, rank) == outer);
          CHECK(mesh.stage(rank) == stage);
          CHECK(mesh.place(data_axes, rank) == outer * 4 + inner);
          CHECK(mesh.place(Axis::tensor | Axis::inner, rank) == inner * 2 + tensor);
          CHECK(mesh.place(Axis::tensor | Axis::pipeline, rank) == stage * 2 + tensor);
          CHECK(mesh.place(all_axes, rank) == rank);
        }
      }
    }
  }
  const auto of = [&](Axes axes, int one) { return members(mesh.groups(axes), one, 48); };
  CHECK(of(Axis::tensor, 19) == std::vector<int>{18, 19});
  CHECK(of(island_axes, 19) == std::vector<int>{17, 19, 21, 23});
  CHECK(of(Axis::outer, 19) == std::vector<int>{19, 27});
  CHECK(of(data_axes, 19) == std::vector<int>{17, 19, 21, 23, 25, 27, 29, 31});
  CHECK(of(Axis::pipeline, 19) == std::vector<int>{3, 19, 35});
  CHECK(members(mesh.neighbours(false), 19, 48) == std::vector<int>{3, 19});
  CHECK(members(mesh.neighbours(true), 19, 48) == std::vector<int>{19, 35});
  CHECK(members(mesh.neighbours(true), 3, 48) == std::vector<int>{3});
  CHECK(members(mesh.ends(), 3, 48) == std::vector<int>{3, 35});
  CHECK(mesh.everyone() == all_axes);
  CHECK(Mesh(6, 1, 1, 3).everyone() == data_axes);
}

TEST_CASE("groups hold every rank once, and ranks that differ along their axes alone") {
  const auto [ranks, tensor, pipeline, inner] =
      GENERATE(table<int, int, int, int>({{1, 1, 1, 1}, {6, 1, 1, 3}, {8, 4, 2, 1}, {12, 2, 3, 2}, {36, 3, 2, 2}}));
  const Mesh mesh(ranks, tensor, pipeline, inner);
  const Axes known[] = {Axis::tensor, Axis::inner, Axis::outer, Axis::pipeline, data_axes, Axis::tensor | Axis::inner,
                        stage_axes,   all_axes};
  for (const Axes axes : known) {
    const RankGroups groups = mesh.groups(axes);
    CHECK(groups.size == mesh.degree(axes));
    std::map<int, int> seen;  // by the first rank of a group: its ranks
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(mesh.place(axes, rank) == seen[groups.begin(rank)]++);
      for (int other = 0; other < ranks; ++other) {
        bool alike = true;  // along the other axes
        for (const Axis axis : {Axis::tensor, Axis::inner, Axis::outer, Axis::pipeline})
          alike = alike && (axes.has(axis) || mesh.place(axis, rank) == mesh.place(axis, other));
        CHECK(groups.together(rank, other) == alike);
      }
    }
    for (const auto& [first, count] : seen) CHECK(count == groups.size);
  }
}

TEST_CASE("ranks with other experts follow those that share blocks, and are data-parallel ranks") {
  const Mesh mesh(48, 2, 2, 1, 3);
  CHECK(mesh.data() == 12);
  CHECK(mesh.expert() == 3);
  CHECK(mesh.inner() == 1);
  for (int rank = 0; rank < 48; ++rank) {
    CHECK(mesh.place(Axis::expert, rank) == rank / 2 % 3);
    CHECK(mesh.place(zrt::core::expert_data_axes, rank) == rank / 6 % 4);
    CHECK(mesh.place(data_axes, rank) == rank / 2 % 12);
  }
  const auto of = [&](Axes axes, int one) { return members(mesh.groups(axes), one, 48); };
  CHECK(of(Axis::expert, 9) == std::vector<int>{7, 9, 11});
  CHECK(of(zrt::core::expert_data_axes, 9) == std::vector<int>{3, 9, 15, 21});
  CHECK(of(Axis::tensor | Axis::expert, 9) == std::vector<int>{6, 7, 8, 9, 10, 11});
  CHECK_THROWS_WITH(Mesh(16, 2, 1, 1, 3), Catch::Contains("parallel.expert = 3") && Catch::Contains("2 and 4"));
}

TEST_CASE("ranks of axes that others lie between have no common distance") {
  CHECK_THROWS_AS(Mesh(8, 2, 2).groups(Axis::tensor | Axis::pipeline), zrt::core::ProgramError);
  CHECK(Mesh(4, 2, 2).groups(Axis::tensor | Axis::pipeline).size == 4);
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
  CHECK_THROWS_AS(Mesh(6, 1, 1, 4), zrt::core::ConfigError);
  CHECK_THROWS_AS(Mesh(6, 1, 1, 0), zrt::core::ConfigError);
}

}  // namespace zrt::mesh_test
