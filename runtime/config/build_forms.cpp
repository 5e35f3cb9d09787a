#include <map>
#include <string>
#include <variant>

#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

void build_forms(const Values& values, Config& config) {
  constexpr const char *moments = "memory.moments", *master = "memory.master";
  const std::map<std::string, optimizer::Moments> forms = {
      {"fp32", optimizer::Moments::f32}, {"bf16", optimizer::Moments::bf16}, {"int8", optimizer::Moments::int8}};
  const auto form = forms.find(values.text(moments));
  if (form == forms.end()) {
    refuse(values.at(moments), "is no form of moments; legal are \"fp32\", \"bf16\" and \"int8\".");
  }
  const std::string kept = values.text(master);
  if (kept != "fp32" && kept != "none") refuse(values.at(master), "is not legal; legal are \"fp32\" and \"none\".");
  auto* adam = std::get_if<optimizer::AdamParams>(&config.optimizer.params);
  const auto require_adam = [&](const char* key) {
    if (adam) return;
    refuse(values.at(key), "is for Adam and AdamW alone, but optimizer.type is " + values.text("optimizer.type") +
                               ". Set it to \"fp32\", or choose one of them.");
  };
  if (form->second != optimizer::Moments::f32) {
    require_adam(moments);
    adam->moments = form->second;
  }
  if (kept == "none") {
    require_adam(master);
    if (config.precision.compute != core::DType::bf16) {
      refuse(values.at(master),
             "needs weights of bf16, which updates then round at random. Set bf16.enabled = true, or "
             "memory.master to \"fp32\".");
    }
    config.memory.master = false;
  }
}

}  // namespace zrt::runtime::configuration
