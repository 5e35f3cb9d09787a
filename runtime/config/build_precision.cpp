// Types of numbers: bf16, fp16 with its loss scale, fp8, and what gradients travel and are summed in.
#include <algorithm>
#include <cmath>

#include "core/keys/text.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

using core::DType;

// "fp32", "fp16" or "bf16", in any case; no value for null.
std::optional<DType> optional_type(const Values& values, std::string_view path) {
  if (values.is_null(path)) return std::nullopt;
  const std::string name = values.choice(path);
  return name == core::dtype_name(DType::bf16)  ? DType::bf16
         : name == core::dtype_name(DType::f16) ? DType::f16
                                                : DType::f32;
}

void build_loss_scale(const Values& values, optimizer::LossScaleParams& scale) {
  scale.initial = values.real("fp16.loss_scale");
  scale.dynamic = scale.initial == 0;
  if (!scale.dynamic && scale.initial < optimizer::least_loss_scale) {
    refuse(values.at("fp16.loss_scale"),
           "is too small: gradients would vanish in fp16. Legal: 0, which lets it follow "
           "overflows, and " +
               printed(optimizer::least_loss_scale) + " to 2^127.");
  }
  if (!scale.dynamic) return;
  scale.initial = std::ldexp(1.0, static_cast<int>(values.integer("fp16.initial_scale_power")));
  scale.window = values.integer("fp16.loss_scale_window");
  scale.hysteresis = values.integer("fp16.hysteresis");
  scale.consecutive = values.flag("fp16.consecutive_hysteresis");
  const int64_t minimum = values.integer("fp16.min_loss_scale");
  scale.minimum = minimum == 0 ? optimizer::least_loss_scale : static_cast<double>(minimum);
  if (scale.minimum > scale.initial) {
    refuse(values.at("fp16.min_loss_scale"),
           "is above the first scale, 2^fp16.initial_scale_power = " + printed(scale.initial) +
               ". Choose a smaller minimum; 0 is the least.");
  }
}

// A launcher would have filled these; without one neither is on.
void warn_of_open_type(Values& values) {
  const Value *bf16 = values.left_out("bf16.enabled"), *fp16 = values.left_out("fp16.enabled");
  if (bf16 == nullptr && fp16 == nullptr) return;
  const std::string which =
      bf16 && fp16 ? shown(*bf16) + " and " + shown(*fp16) + " count" : shown(bf16 ? *bf16 : *fp16) + " counts";
  values.warnings.push_back(which +
                            " as left out: weights and activations are fp32. For others set bf16.enabled or "
                            "fp16.enabled to true.");
}

// The type of weights, activations and operands of products, and fp16's loss scale.
void build_compute(Values& values, PrecisionConfig& precision) {
  const bool bf16 = values.flag("bf16.enabled"), fp16 = values.flag("fp16.enabled");
  precision.compute = bf16 ? DType::bf16 : fp16 ? DType::f16 : DType::f32;
  values.check([&] {
    if (bf16 && fp16) refuse(values.at("fp16.enabled"), "contradicts bf16.enabled = true; enable one of them.");
  });
  if (!bf16 && !fp16) warn_of_open_type(values);
  values.check([&] {
    precision.fp8 = values.flag("fp8.enabled");
    if (!precision.fp8 || values.flag("bf16.enabled")) return;
    refuse(values.at("fp8.enabled"),
           "needs weights and activations of bf16, which linear layers round. Set bf16.enabled = true too.");
  });
  if (!fp16) return;
  for (const char* key : {"fp16.auto_cast", "fp16.fp16_master_weights_and_grads"}) {
    values.check([&] {
      if (values.flag(key)) refuse(values.at(key), "is not supported; legal: false.");
    });
  }
  values.check([&] { build_loss_scale(values, precision.loss_scale); });
}

// Says whether microbatches are summed in bf16, where there are several.
bool sums_bf16(const Values& values, const PrecisionConfig& precision) {
  const bool asked = optional_type(values, "data_types.grad_accum_dtype") == DType::bf16;
  return precision.compute == DType::bf16 && asked;
}

void build_wire(const Values& values, int64_t every, PrecisionConfig& precision) {
  const std::string compute(core::dtype_name(precision.compute));
  const auto wire = optional_type(values, "communication_data_type");
  const Value& asked = values.at("communication_data_type");
  if (wire && *wire != DType::f32 && *wire != precision.compute) {
    const std::string legal =
        precision.compute == DType::f32 ? "null and \"fp32\"" : "null, \"fp32\" and \"" + compute + "\"";
    refuse(asked, "is not supported with " + compute + " weights; legal: " + legal + ".");
  }
  const bool narrow = every > 1 && wire != DType::f32 && sums_bf16(values, precision);
  if (wire && *wire != DType::f32 && every > 1 && !narrow) {
    refuse(asked, "cannot be honoured: with parallel.reduce_every = " + std::to_string(every) +
                      " a rank sums its microbatches in fp32 and reduces the sum. Legal: null and \"fp32\"; or set "
                      "parallel.reduce_every to 1" +
                      (precision.compute == DType::bf16 ? ", or data_types.grad_accum_dtype to \"bf16\"." : "."));
  }
  precision.local_grad = (every > 1 && !narrow) || wire == DType::f32 ? DType::f32 : precision.compute;
}

void build_accumulation(Values& values, int64_t accumulation, PrecisionConfig& precision) {
  constexpr const char* key = "data_types.grad_accum_dtype";
  // Gradients that arrive in fp32 stay fp32.
  const bool narrow = precision.local_grad == DType::bf16 && sums_bf16(values, precision);
  precision.accumulated_grad = accumulation == 1 || narrow ? precision.local_grad : DType::f32;
  const auto wanted = optional_type(values, key);
  if (!wanted || *wanted == precision.accumulated_grad) return;
  // A gradient that is the only one of its step has the same value in the wider type.
  if (accumulation == 1 && *wanted == DType::f32) return warn_without_effect(values, values.at(key));
  const std::string compute(core::dtype_name(precision.compute)), actual(core::dtype_name(precision.accumulated_grad));
  const bool sent_wide = optional_type(values, "communication_data_type") == DType::f32;
  const bool narrows = precision.compute == DType::bf16 && !sent_wide && precision.accumulated_grad != DType::bf16;
  const std::string sent =
      sent_wide ? " that are sent in fp32 (" + shown(values.at("communication_data_type")) + ")" : "";
  refuse(values.at(key), "cannot be honoured: with " + std::to_string(accumulation) + " microbatches per step and " +
                             compute + " weights, gradients" + sent + " are kept in " + actual +
                             ". Legal: null and \"" + actual + "\"" + (narrows ? ", and \"bf16\"." : "."));
}

}  // namespace

bool build_precision(Values& values, std::optional<int64_t> accumulation, int64_t every, PrecisionConfig& precision) {
  const bool typed = values.check([&] { build_compute(values, precision); });
  const bool wired = values.check([&] { build_wire(values, every, precision); });
  values.check([&] { optional_type(values, "data_types.grad_accum_dtype"); });
  if (wired && accumulation) values.check([&] { build_accumulation(values, *accumulation, precision); });
  return typed;
}

}  // namespace zrt::runtime::configuration
