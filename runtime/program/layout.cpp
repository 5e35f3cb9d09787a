#include "runtime/program/layout.h"

namespace zrt::runtime {

uint64_t Layout::boundary_bytes(int64_t width, const models::Shape& shape) const {
  if (shares_rows()) return stream_bytes(width, shape);
  const int tensor = mesh.tensor();
  const int64_t share = (shape.rows() * width + tensor - 1) / tensor;
  return static_cast<uint64_t>(share * tensor) * core::dtype_size(shape.type);
}

Sharing Layout::sharing() const {
  Sharing result = Sharing::none;
  for (const optimizer::Unit& unit : units.units) {
    if (unit.blocks.size() < 2) continue;
    if (unit.blocks.size() > 2 || unit.blocks[0] != 0) return Sharing::elsewhere;
    result = Sharing::first_block;
  }
  return result;
}

uint32_t Layout::together() const {
  if (stage.pipelined()) return 1;
  return order->together(
      {microbatches, reduce_every, zero.grads == optimizer::Extent::full, sharing() == Sharing::elsewhere});
}

}  // namespace zrt::runtime
