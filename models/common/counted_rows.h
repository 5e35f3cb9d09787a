// The rows of a head that have a target. On a processor its products run over these alone: of a conversation a fifth of
// the tokens may count, and of masked text one in seven. A GPU's kernels have all rows, since what the host would have
// to know of targets lies in device memory.
#pragma once
#include <cstdint>
#include <vector>

namespace zrt::models {

class CountedRows {
 public:
  // Sizes of products are multiples of this many rows, so that few are to be found; rows of zeros fill the last one.
  static constexpr int64_t granule = 64;

  // Takes all of `rows`.
  explicit CountedRows(int64_t rows) : rows_(rows) {}
  // Takes those whose targets are ids. Reads targets[0, rows), which must be in memory of the host.
  CountedRows(const int32_t* targets, int64_t rows);

  bool all() const { return picked_.empty(); }
  int64_t rows() const { return rows_; }  // of the products
  // The targets of these rows, where not all are counted.
  const int32_t* targets() const { return targets_.data(); }
  // Copies rows [begin, begin + count) of the products from where they lie among all; `to` may be where all lie, when
  // rows are picked in ascending order.
  void pick(const void* all, uint64_t row_bytes, int64_t begin, int64_t count, void* to) const;
  // Puts rows() rows that lie one behind the other at their places among `all_rows`, in place; the others become zeros.
  void spread(void* data, uint64_t row_bytes, int64_t all_rows) const;

 private:
  int64_t rows_;
  std::vector<int32_t> picked_, targets_;  // targets_ is as long as rows_
};

}  // namespace zrt::models
