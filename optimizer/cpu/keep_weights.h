// Does what an update does on a skipped step, on the CPU.
#pragma once
#include "core/parallel.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer::cpu {

// Writes the weights as the master has them, once more: what holds them may be memory that nobody has written to.
inline void keep_weights(const UnitPart& part) {
  if (!part.weight || !part.master) return;
  core::parallel_for(part.count, unit_alignment, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (part.weight_type == core::DType::bf16)
        static_cast<core::bf16*>(part.weight)[i] = core::to_bf16(part.master[i]);
      if (part.weight_type == core::DType::f16) static_cast<core::f16*>(part.weight)[i] = core::to_f16(part.master[i]);
      if (part.weight_type == core::DType::f32) static_cast<float*>(part.weight)[i] = part.master[i];
    }
  });
}

}  // namespace zrt::optimizer::cpu
