#include "core/keys/text.h"
#include "optimizer/spec.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

OptimizerConfig build_optimizer(Values& values) {
  const Value& lr = values.at("optimizer.params.lr");
  // DeepSpeed leaves a missing optimizer to its caller's code; here it is AdamW with DeepSpeed's defaults.
  if (values.is_null("optimizer.type")) {
    values.infer("optimizer.type", "AdamW");
    values.warnings.push_back("optimizer.type is not given: AdamW is used, with " + lr.path + " = " +
                              printed(lr.value) + " (" + std::string(from_name(lr.from)) + ").");
  }
  const std::string type = values.text("optimizer.type");
  OptimizerConfig optimizer;
  // A type that is none has been refused already.
  if (const optimizer::OptimizerSpec* spec = optimizer::find_optimizer_spec(type)) {
    optimizer.algorithm = spec->read(values, in_lower_case(type));
  }
  optimizer.lr = lr.value.is_null() ? 0 : values.real(lr.path, 0, largest_rate);
  return optimizer;
}

}  // namespace zrt::runtime::configuration
