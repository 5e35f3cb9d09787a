#include <string>
#include <vector>

#include "core/keys/text.h"
#include "optimizer/spec.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

void build_forms(const Values& values, Config& config) {
  constexpr const char *moments = "memory.moments", *master = "memory.master";
  const std::string form = values.choice(moments), kept = values.choice(master), type = values.text("optimizer.type");
  for (const char* key : {moments, master}) {
    if (values.text(key) == "fp32" || optimizer::find_optimizer_spec(type)->forms) continue;
    std::vector<std::string> able;
    for (const optimizer::OptimizerSpec* spec : optimizer::optimizer_specs()) {
      if (spec->forms) able.insert(able.end(), spec->types.begin(), spec->types.end());
    }
    refuse(values.at(key), "is for " + join(able) + " alone, but optimizer.type is " + type +
                               ". Set it to \"fp32\", or choose one of them.");
  }
  if (kept == "none" && config.precision.compute != core::DType::bf16) {
    refuse(values.at(master),
           "needs weights of bf16, which updates then round at random. Set bf16.enabled = true, or "
           "memory.master to \"fp32\".");
  }
  config.memory.master = kept == "fp32";
  const std::string frozen = values.choice("memory.frozen");
  if (frozen == "compute") return;
  config.memory.frozen = frozen == "nf4" ? core::Form::nf4 : core::Form::linear8;
  for (const char* key : {"parallel.hierarchical_ranks", "zero_optimization.zero_hpz_partition_size"}) {
    if (values.integer(key) <= 1) continue;
    refuse(values.at("memory.frozen"),
           "cannot be combined with " + shown(values.at(key)) +
               ": weights in few bits are brought together at once. Leave one of them out.");
  }
}

}  // namespace zrt::runtime::configuration
