#include "models/common/counted_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "models/masking.h"

namespace zrt::models {

CountedRows::CountedRows(const int32_t* targets, int64_t rows) : rows_(rows) {
  const auto counts = [](int32_t target) { return target >= 0; };
  const auto counted = std::count_if(targets, targets + rows, counts);
  if (counted == rows) return;
  // One granule at least, so that gradients of weights are written where no row has a target.
  rows_ = std::min(rows, std::max<int64_t>(1, (counted + granule - 1) / granule) * granule);
  for (int32_t row = 0; row < rows; ++row) {
    if (!counts(targets[row])) continue;
    picked_.push_back(row), targets_.push_back(targets[row]);
  }
  targets_.resize(static_cast<size_t>(rows_), not_counted);
  if (picked_.empty()) picked_.push_back(0);  // its target does not count
}

void CountedRows::pick(const void* all, uint64_t row_bytes, int64_t begin, int64_t count, void* to) const {
  const auto* from = static_cast<const std::byte*>(all);
  auto* place = static_cast<std::byte*>(to);
  const auto picked = static_cast<int64_t>(picked_.size());
  for (int64_t i = begin; i < begin + count; ++i, place += row_bytes) {
    if (i < picked) {
      std::memmove(place, from + static_cast<uint64_t>(picked_[static_cast<size_t>(i)]) * row_bytes, row_bytes);
    } else {
      std::memset(place, 0, row_bytes);
    }
  }
}

void CountedRows::spread(void* data, uint64_t row_bytes, int64_t all_rows) const {
  auto* rows = static_cast<std::byte*>(data);
  // No row goes in front of its place, so the last one goes first.
  int64_t next = all_rows;
  for (auto i = static_cast<int64_t>(picked_.size()); i-- > 0;) {
    const int64_t row = picked_[static_cast<size_t>(i)];
    std::memset(rows + static_cast<uint64_t>(row + 1) * row_bytes, 0,
                static_cast<uint64_t>(next - row - 1) * row_bytes);
    std::memmove(rows + static_cast<uint64_t>(row) * row_bytes, rows + static_cast<uint64_t>(i) * row_bytes, row_bytes);
    next = row;
  }
  std::memset(rows, 0, static_cast<uint64_t>(next) * row_bytes);
}

}  // namespace zrt::models
