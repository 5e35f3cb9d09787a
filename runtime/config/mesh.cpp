#include "runtime/config/mesh.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace zrt::runtime {
namespace {

void check_degree(const char* name, int value) {
  if (value >= 1 && value <= Mesh::max_ranks) return;
  throw core::ConfigError(std::string(name) + " = " + std::to_string(value) + " is no size of a mesh; legal: 1 to " +
                          std::to_string(Mesh::max_ranks) + ".");
}

// "3 and 6": the divisors nearest to `degree` of what the other degree leaves.
std::string nearest_divisors(int ranks, int other, int degree) {
  const int most = ranks / other;
  int below = std::min(degree, most), above = degree;
  while (below > 1 && most % below != 0) --below;
  while (above < most && most % above != 0) ++above;
  return std::to_string(below) + (above <= most && above != below ? " and " + std::to_string(above) : "");
}

// " (nearest that the ranks fit: parallel.tensor 2 and 4)"; of each degree, with the other as it is; "": of none. The
// model may rule them out.
std::string nearest_degrees(int ranks, int tensor, int pipeline) {
  std::string text;
  const auto add = [&](const char* key, int degree, int other) {
    if (degree == 1 || ranks % other != 0) return;
    text += (text.empty() ? " (nearest that the ranks fit: " : ", ") + std::string(key) + " " +
            nearest_divisors(ranks, other, degree);
  };
  add("parallel.pipeline", pipeline, tensor);
  add("parallel.tensor", tensor, pipeline);
  return text.empty() ? "" : text + ")";
}

}  // namespace

Mesh::Mesh(int ranks, int tensor, int pipeline) : tensor_(tensor), pipeline_(pipeline) {
  check_degree("ranks", ranks);
  check_degree("parallel.tensor", tensor);
  check_degree("parallel.pipeline", pipeline);
  const int64_t model = int64_t{tensor} * pipeline;
  if (ranks % model != 0) {
    const int64_t fewer = ranks / model * model;
    throw core::ConfigError(std::to_string(ranks) + (ranks == 1 ? " rank does" : " ranks do") +
                            " not fit parallel.tensor = " + std::to_string(tensor) +
                            " times parallel.pipeline = " + std::to_string(pipeline) +
                            ": the number of ranks must be a multiple of " + std::to_string(model) + ". Start with " +
                            (fewer > 0 ? std::to_string(fewer) + " or " : "") + std::to_string(fewer + model) +
                            " ranks, or change a degree" + nearest_degrees(ranks, tensor, pipeline) + ".");
  }
  data_ = static_cast<int>(ranks / model);
}

int Mesh::size(Axis axis) const {
  return axis == Axis::tensor ? tensor_ : axis == Axis::data ? data_ : pipeline_;
}

Coordinates Mesh::coordinates(int rank) const {
  if (rank < 0 || rank >= world()) {
    throw core::ConfigError("rank " + std::to_string(rank) + " is not in the mesh; legal: 0 to " +
                            std::to_string(world() - 1) + ".");
  }
  return {rank % tensor_, rank / tensor_ % data_, rank / tensor_ / data_};
}

int Mesh::rank(const Coordinates& at) const {
  if (at.tensor < 0 || at.tensor >= tensor_ || at.data < 0 || at.data >= data_ || at.pipeline < 0 ||
      at.pipeline >= pipeline_) {
    throw core::ConfigError("coordinates (tensor " + std::to_string(at.tensor) + ", data " + std::to_string(at.data) +
                            ", pipeline " + std::to_string(at.pipeline) + ") are not in the mesh of " +
                            std::to_string(tensor_) + " x " + std::to_string(data_) + " x " +
                            std::to_string(pipeline_) + " ranks.");
  }
  return (at.pipeline * data_ + at.data) * tensor_ + at.tensor;
}

std::vector<int> Mesh::group(Axis axis, int rank) const {
  Coordinates at = coordinates(rank);
  int& moving = axis == Axis::tensor ? at.tensor : axis == Axis::data ? at.data : at.pipeline;
  std::vector<int> ranks;
  for (moving = 0; moving < size(axis); ++moving) ranks.push_back(this->rank(at));
  return ranks;
}

std::vector<std::vector<int>> Mesh::groups(Axis axis) const {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < world(); ++rank) {
    std::vector<int> ranks = group(axis, rank);
    if (ranks.front() == rank) all.push_back(std::move(ranks));
  }
  return all;
}

}  // namespace zrt::runtime
