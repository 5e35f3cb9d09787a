#include "core/keys/text.h"
#include "optimizer/spec.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

OptimizerConfig build_optimizer(Values& values) {
  const std::string lr = "optimizer.params.lr";
  // DeepSpeed leaves a missing optimizer to its caller's code; here it is AdamW with DeepSpeed's defaults.
  if (values.is_null("optimizer.type")) {
    values.infer("optimizer.type", optimizer::default_type);
    values.check([&] {
      const Value& rate = values.at(lr);
      values.warnings.push_back(std::string("optimizer.type is not given: ") + optimizer::default_type +
                                " is used, with " + lr + " = " + printed(rate.value) + " (" +
                                std::string(from_name(rate.from)) + ").");
    });
  }
  const std::string type = values.text("optimizer.type");
  OptimizerConfig optimizer;
  // A type that is none has been refused already.
  if (const optimizer::OptimizerSpec* spec = optimizer::find_optimizer_spec(type)) {
    values.check([&] { optimizer.algorithm = spec->read(values, in_lower_case(type)); });
  }
  values.check([&] { optimizer.lr = values.is_null(lr) ? 0 : values.real(lr); });
  values.check([&] {
    optimizer.groups = build_parameter_groups(values, optimizer.lr);
    optimizer.algorithm = optimizer::make_grouped(optimizer.algorithm, optimizer.groups);
  });
  return optimizer;
}

}  // namespace zrt::runtime::configuration
