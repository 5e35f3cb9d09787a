#include "optimizer/optimizer.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

void build_update_when(const Values& values, Config& config) {
  const Value& when = values.at("memory.update_when");
  const std::string choice = values.choice(when.path);
  config.memory.update_when = choice == "as_ready"       ? UpdateWhen::as_ready
                              : choice == "next_forward" ? UpdateWhen::next_forward
                                                         : UpdateWhen::after_norm;
  if (config.memory.update_when != UpdateWhen::as_ready) return;
  const auto contradicted = [&](const char* key, const std::string& why, const std::string& advice) {
    const Value& other = values.at(key);
    refuse(when, "updates before the norm of the whole gradient is known, which " + other.path + " = " +
                     printed(other.value) + " (" + other.place + ") needs " + why + ". " + advice +
                     ", or memory.update_when to \"after_norm\" or \"next_forward\".");
  };
  if (config.optimizer.gradient_clipping > 0) {
    contradicted("gradient_clipping", "to clip by", "Set gradient_clipping to 0");
  }
  if (config.precision.loss_scale.dynamic) {
    contradicted("fp16.loss_scale", "to skip steps that overflow",
                 "Set fp16.loss_scale to a fixed scale, such as 1024, or use bf16");
  }
  if (config.optimizer.algorithm->shares_sums()) {
    contradicted("optimizer.type", "for its sums", "Set optimizer.type to another one");
  }
}

}  // namespace zrt::runtime::configuration
