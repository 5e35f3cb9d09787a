#include "core/mesh.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace zrt::core {
namespace {

void check_degree(const char* name, int value) {
  if (value >= 1 && value <= Mesh::max_ranks) return;
  throw ConfigError(std::string(name) + " = " + std::to_string(value) + " is no size of a mesh; legal: 1 to " +
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

Mesh::Mesh(int ranks, int tensor, int pipeline, int inner, int expert) : Mesh() {
  check_degree("ranks", ranks);
  check_degree("parallel.tensor", tensor);
  check_degree("parallel.pipeline", pipeline);
  const int64_t model = int64_t{tensor} * pipeline;
  if (ranks % model != 0) {
    const int64_t fewer = ranks / model * model;
    throw ConfigError(std::to_string(ranks) + (ranks == 1 ? " rank does" : " ranks do") +
                      " not fit parallel.tensor = " + std::to_string(tensor) +
                      " times parallel.pipeline = " + std::to_string(pipeline) +
                      ": the number of ranks must be a multiple of " + std::to_string(model) + ". Start with " +
                      (fewer > 0 ? std::to_string(fewer) + " or " : "") + std::to_string(fewer + model) +
                      " ranks, or change a degree" + nearest_degrees(ranks, tensor, pipeline) + ".");
  }
  const int data = static_cast<int>(ranks / model);
  check_degree("parallel.expert", expert);
  if (data % expert != 0) {
    throw ConfigError("parallel.expert = " + std::to_string(expert) + " does not divide the " + std::to_string(data) +
                      " data-parallel ranks; nearest that do: " + nearest_divisors(data, 1, expert) + ".");
  }
  if (inner < 1 || data / expert % inner != 0)
    throw ConfigError("islands of " + std::to_string(inner) + " ranks do not divide " + std::to_string(data) +
                      " data-parallel ranks.");
  degrees_[static_cast<int>(Axis::tensor)] = tensor;
  degrees_[static_cast<int>(Axis::inner)] = inner;
  degrees_[static_cast<int>(Axis::expert)] = expert;
  degrees_[static_cast<int>(Axis::outer)] = data / expert / inner;
  degrees_[static_cast<int>(Axis::pipeline)] = pipeline;
}

Mesh Mesh::part(Axes axes) const {
  Mesh part = *this;
  for (int a = 0; a < axis_count; ++a) {
    if (!axes.has(a)) part.degrees_[a] = 1;
  }
  return part;
}

RankGroups Mesh::groups(Axes axes) const {
  RankGroups groups;
  bool ended = false;
  for (int a = 0; a < axis_count; ++a) {
    if (degrees_[a] == 1) continue;
    if (!axes.has(a)) {
      ended = groups.size > 1;
      if (!ended) groups.stride *= degrees_[a];
      continue;
    }
    if (ended) throw ProgramError("ranks of axes that are not next to each other have no common distance");
    groups.size *= degrees_[a];
  }
  return groups;
}

int RankGroups::begin(int rank) const {
  if (rank < first) return rank;
  const int at = rank - first;
  return first + at / (size * stride) * size * stride + at % stride;
}

bool RankGroups::leave(int reach, int world) const {
  const int last = (size - 1) * stride;  // from a group's first rank to its last
  for (int rank = first; rank + last < world; ++rank) {
    if (begin(rank) == rank && rank / reach != (rank + last) / reach) return true;
  }
  return false;
}

}  // namespace zrt::core
