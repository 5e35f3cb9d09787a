#include "runtime/ops/expand.h"

#include "core/kernel_convert.h"
#include "core/parallel.h"
#include "core/weight_form.h"

namespace zrt::runtime::cpu {
namespace {

template <class T>
void expand_blocks(core::Form form, const std::byte* from, T* to, int64_t blocks) {
  core::parallel_for(blocks, 64, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * core::weight_block;
      const auto* block = reinterpret_cast<const uint8_t*>(from + core::form_bytes(form, first));
      const float scale = core::weight_scale(form, block);
      for (uint32_t i = 0; i < core::weight_block; ++i) {
        core::narrow(core::read_weight(form, block, i, scale), to[first + i]);
      }
    }
  });
}

}  // namespace

void expand_weights(core::Form form, const std::byte* from, core::DType type, std::byte* to, int64_t n) {
  const int64_t blocks = n / core::weight_block;
  if (type == core::DType::bf16) return expand_blocks(form, from, reinterpret_cast<core::bf16*>(to), blocks);
  if (type == core::DType::f16) return expand_blocks(form, from, reinterpret_cast<core::f16*>(to), blocks);
  expand_blocks(form, from, reinterpret_cast<float*>(to), blocks);
}

}  // namespace zrt::runtime::cpu
