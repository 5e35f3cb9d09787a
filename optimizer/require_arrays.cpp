#include "optimizer/require_arrays.h"

#include <fmt/format.h>

#include "core/error.h"
#include "optimizer/unit.h"

namespace zrt::optimizer {

using core::DType;

void require_chunks(const char* who, int64_t n) {
  if (n >= 0 && n % unit_alignment == 0) return;
  throw core::Error(fmt::format("{}: {} elements; legal are multiples of {}", who, n, unit_alignment));
}

void require_float(const char* who, const char* what, DType type) {
  if (type == DType::f32 || type == DType::bf16 || type == DType::f16) return;
  throw core::Error(fmt::format("{}: the {} is {}; legal are fp32, bf16 and fp16", who, what, core::dtype_name(type)));
}

}  // namespace zrt::optimizer
