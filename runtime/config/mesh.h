// The mesh of ranks: world = pipeline x data x tensor. Tensor-parallel neighbours have consecutive ranks, then come the
// data-parallel replicas, then the pipeline stages.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace zrt::runtime {

enum class Axis : uint8_t { tensor, data, pipeline };
inline constexpr std::array<std::string_view, 3> axis_names{"tp", "dp", "pp"};

struct Coordinates {
  int tensor = 0, data = 0, pipeline = 0;
  bool operator==(const Coordinates&) const = default;
};

class Mesh {
 public:
  Mesh() = default;  // one rank
  // The data-parallel size is ranks / (tensor * pipeline). Throws ConfigError naming the numbers when that is not a
  // whole number of at least 1, or when a number is outside 1..max_ranks.
  Mesh(int ranks, int tensor, int pipeline);

  static constexpr int max_ranks = 1 << 20;

  int world() const { return tensor_ * data_ * pipeline_; }
  int tensor() const { return tensor_; }
  int data() const { return data_; }
  int pipeline() const { return pipeline_; }
  int size(Axis axis) const;

  // Both throw ConfigError when the rank or a coordinate lies outside the mesh.
  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& at) const;

  // The ranks that differ from `rank` only along `axis`, itself included, in the order of that coordinate.
  std::vector<int> group(Axis axis, int rank) const;
  // All groups along `axis`, ordered by their first rank; every rank is in exactly one.
  std::vector<std::vector<int>> groups(Axis axis) const;

  bool operator==(const Mesh&) const = default;

 private:
  int tensor_ = 1, data_ = 1, pipeline_ = 1;
};

}  // namespace zrt::runtime
