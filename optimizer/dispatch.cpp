#include <fmt/format.h>

#include "core/error.h"
#include "optimizer/backend.h"

namespace zrt::optimizer {
namespace {

#define ZRT_ADDRESS(name, ...) &cpu::name,
constexpr Backend cpu_backend{ZRT_OPTIMIZER_KERNELS(ZRT_ADDRESS)};

const Backend& here() {
  return core::place().device == core::DeviceKind::cuda ? cuda::backend : cpu_backend;
}

void require_chunks(const char* who, int64_t n) {
  if (n >= 0 && n % unit_alignment == 0) return;
  throw core::Error(fmt::format("{}: {} elements; legal are multiples of {}", who, n, unit_alignment));
}

void require_float(const char* who, const char* what, DType type) {
  if (type == DType::f32 || type == DType::bf16 || type == DType::f16) return;
  throw core::Error(fmt::format("{}: the {} is {}; legal are fp32, bf16 and fp16", who, what, core::dtype_name(type)));
}

}  // namespace

#define ZRT_DISPATCH(step, name, Name) \
  void step(const Name##Params& params, const Decision& decision, const UnitPart& part) { \
    here().step(params, decision, part); \
  }
ZRT_ELEMENT_RULES(ZRT_DISPATCH)

void adafactor_step(const AdafactorParams& params, const Decision& decision, const UnitPart& part) {
  here().adafactor_step(params, decision, part);
}

void adafactor_sum(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& shard,
                   std::byte* share) {
  here().adafactor_sum(params, round, decision, shard, share);
}

void adafactor_fold(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& part,
                    const std::byte* shares, int ranks) {
  here().adafactor_fold(params, round, decision, part, shares, ranks);
}

void adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                 float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type) {
  require_chunks("adam_update", n);
  require_float("adam_update", "gradient", grad_type);
  if (weight) require_float("adam_update", "weight", weight_type);
  here().adam_update(params, step, n, master, moment1, moment2, grad, grad_type, weight, weight_type);
}

void add_squares(ExactSum& sum, int64_t n, const void* data, core::DType type) {
  require_chunks("add_squares", n);
  require_float("add_squares", "array", type);
  here().add_squares(sum, n, data, type);
}

}  // namespace zrt::optimizer
