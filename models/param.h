// A tensor that a block learns, as a rank has it: whole, or the part of it that is its own where tensor-parallel ranks
// share the work of the block.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace zrt::models {

enum class Init : uint8_t { zeros, ones, normal };

// Tensor-parallel ranks share a tensor along one dimension: each of its equal `sections` (queries, keys and values in
// one matrix are three) is cut into as many equal parts as there are ranks. The last parts may reach beyond the tensor:
// padding, which is zero and stays so.
struct Slice {
  size_t dimension = 0;
  int64_t extent = 0;  // of the whole tensor along it
  int64_t sections = 1;
  int ranks = 1;
  bool operator==(const Slice&) const = default;
};

// Ranks along core::Axis::expert have a tensor each in the same place: that of another expert. The tensors of all
// experts of a layer follow one another in the model's canonical order, expert by expert.
struct Spread {
  int places = 1;       // ranks
  int64_t expert = 0;   // on the first of them, as the name says in front of its last `behind` characters
  int64_t experts = 1;  // of a layer on each
  size_t behind = 0;
  uint32_t tensors = 1;  // of all these experts
  bool operator==(const Spread&) const = default;
};

struct Param {
  std::string name;            // Hugging Face name; two blocks naming the same tensor share it
  std::vector<int64_t> shape;  // of a rank's part, its dimensions as Hugging Face stores them
  Init init = Init::zeros;
  float deviation = 0;           // of Init::normal
  std::optional<Slice> slice{};  // nothing: every rank has all of it
  // True for a tensor that every rank has: each makes a part of its gradient, and these are added up.
  bool summed = false;
  bool adapter = false;  // of a LowRank
  double share = 1;  // of all rows, those that are multiplied by it, where a router picks experts and all get as many
  // Nothing: ranks along Axis::expert have the same; else shape and slice are of each one's tensor.
  std::optional<Spread> spread{};

  int places() const { return spread ? spread->places : 1; }
  std::string name_at(int place) const;  // along Axis::expert
  Param at(int place) const;             // the tensor by itself
  int64_t elements() const;
  std::vector<int64_t> whole_shape() const;
  int64_t whole_elements() const;
  int64_t elements_of_all() const { return whole_elements() * places(); }
};

// True if both have the same shape and ranks hold the same parts of it.
bool alike(const Param& a, const Param& b);

// Cuts a whole tensor; with one rank it stays as it is. `sections` divide the dimension.
Param sliced(Param whole, size_t dimension, int ranks, int64_t sections = 1);

// Elements of a rank's part that lie one behind the other in the whole tensor too.
struct Piece {
  int64_t begin = 0;  // in the part
  int64_t whole = 0;  // in the whole tensor; -1: padding
  int64_t count = 0;
};
// Calls visit with the pieces of elements [begin, end) of what tensor rank `rank` has, in order.
void for_each_piece(const Param& param, int rank, int64_t begin, int64_t end,
                    const std::function<void(const Piece&)>& visit);

// All of a rank's part but padding, for kernels: a run in each of `rows`, which are `stride` elements apart in the part
// and `whole_stride` in the whole tensor.
struct PartRows {
  int64_t begin = 0, whole = 0;
  int64_t rows = 1, count = 0;
  int64_t stride = 0, whole_stride = 0;
};
std::vector<PartRows> rows_of_part(const Param& param, int rank);  // one for each section

}  // namespace zrt::models
