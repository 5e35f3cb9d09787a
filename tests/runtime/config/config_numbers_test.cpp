// Types of numbers: the loss scale of fp16, the types that gradients travel and add up in, and how many microbatches
// do.

#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_numbers_test {

using namespace zrt::runtime;
using zrt::core::DType;

TEST_CASE("fp16 carries DeepSpeed's loss scale, dynamic unless one is given") {
  const auto precision = [](const std::string& more) {
    return parsed(R"("fp16": {"enabled": true)" + more + "},").precision;
  };
  const auto dynamic = precision("");
  CHECK(dynamic.compute == DType::f16);
  CHECK(dynamic.local_grad == DType::f16);
  CHECK(dynamic.loss_scale.dynamic);
  CHECK(dynamic.loss_scale.initial == 65536);
  CHECK(dynamic.loss_scale.window == 1000);
  CHECK(dynamic.loss_scale.hysteresis == 2);
  CHECK(dynamic.loss_scale.minimum == 1);
  CHECK(!dynamic.loss_scale.consecutive);
  const auto other = precision(R"(, "initial_scale_power": 4, "loss_scale_window": 5, "hysteresis": 3,
      "consecutive_hysteresis": true, "min_loss_scale": 2)");
  CHECK(other.loss_scale.initial == 16);
  CHECK(other.loss_scale.window == 5);
  CHECK(other.loss_scale.hysteresis == 3);
  CHECK(other.loss_scale.consecutive);
  CHECK(other.loss_scale.minimum == 2);
  // 0 is no scale: the least one stands for it.
  CHECK(precision(R"(, "min_loss_scale": 0)").loss_scale.minimum == zrt::optimizer::least_loss_scale);
  const auto small = precision(R"(, "min_loss_scale": 0, "initial_scale_power": -3)");
  CHECK(small.loss_scale.initial == 0.125);
  const auto fixed = precision(R"(, "loss_scale": 128)");
  CHECK(!fixed.loss_scale.dynamic);
  CHECK(fixed.loss_scale.initial == 128);
  CHECK(!parsed(R"("bf16": {"enabled": true},)").precision.loss_scale.dynamic);
  CHECK(parsed("").precision.loss_scale.initial == 1);
}

TEST_CASE("gradient types follow accumulation, reduce_every and communication_data_type") {
  struct Case {
    int accumulation, reduce_every;
    std::string wire;         // "own": the name of the weights' type
    bool local, accumulated;  // are of the weights' type, where that is not fp32
  };
  const std::vector<Case> cases{{1, 1, "null", true, true},   {4, 1, "null", true, false},
                                {4, 2, "null", false, false}, {4, 4, "fp32", false, false},
                                {4, 1, "FP32", false, false}, {1, 1, "fp32", false, false},
                                {1, 1, "own", true, true},    {4, 1, "own", true, false}};
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const std::string name(zrt::core::dtype_name(type));
    for (const Case& c : cases) {
      INFO(name << " " << c.accumulation << " " << c.reduce_every << " " << c.wire);
      const std::string wire = c.wire == "null" ? c.wire : "\"" + (c.wire == "own" ? name : c.wire) + "\"";
      const Config config = parsed((type == DType::f32 ? "" : "\"" + name + R"(": {"enabled": true}, )") +
                                   R"("communication_data_type": )" + wire + R"(, "gradient_accumulation_steps": )" +
                                   std::to_string(c.accumulation) + R"(, "parallel": {"reduce_every": )" +
                                   std::to_string(c.reduce_every) + "},");
      CHECK(config.precision.compute == type);
      CHECK(config.precision.local_grad == (c.local ? type : DType::f32));
      CHECK(config.precision.accumulated_grad == (c.accumulated ? type : DType::f32));
    }
  }
}

TEST_CASE("with grad_accum_dtype bf16 gradients are bf16 however many microbatches are summed, and fp32 without it") {
  for (const int every : {1, 2, 4}) {
    for (const char* wire : {"null", "\"bf16\""}) {
      for (const bool narrow : {false, true}) {
        if (!narrow && every > 1 && wire[0] != 'n') continue;
        const Config config =
            parsed(R"("bf16": {"enabled": true}, "gradient_accumulation_steps": 4, "data_types": )" +
                   std::string(narrow ? R"({"grad_accum_dtype": "bf16"})" : "{}") + R"(, "communication_data_type": )" +
                   wire + R"(, "parallel": {"reduce_every": )" + std::to_string(every) + "},");
        CHECK(config.precision.local_grad == (narrow || every == 1 ? DType::bf16 : DType::f32));
        CHECK(config.precision.accumulated_grad == (narrow ? DType::bf16 : DType::f32));
      }
    }
  }
}

TEST_CASE("reduce_every is the whole step at stages 0 and 1, and one microbatch at stages 2 and 3") {
  for (int stage = 0; stage < 4; ++stage) {
    const Config config =
        parsed(R"("gradient_accumulation_steps": 6, "zero_optimization": {"stage": )" + std::to_string(stage) + "},");
    CHECK(config.parallel.reduce_every == (stage <= 1 ? 6 : 1));
    CHECK(config.zero.overlap_comm == (stage == 3));
  }
  CHECK(!parsed(R"("zero_optimization": {"stage": 3, "overlap_comm": false},)").zero.overlap_comm);
}

}  // namespace zrt::config_numbers_test
