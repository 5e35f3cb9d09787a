#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

void build_sliding(Values& values, MemoryConfig& memory) {
  const Value &layers = values.at("memory.device_layers"), &moved = values.at("memory.moved_layers");
  const auto count = values.optional_integer(layers.path);
  const int64_t together = values.integer(moved.path);
  if (!count) {
    if (values.given(moved.path)) {
      values.warnings.push_back(shown(moved) + " has no effect: memory.device_layers is null, so no layers move.");
    }
    return;
  }
  if (together > *count) {
    refuse(moved, "is more than the layers whose weights are on the device at a time, memory.device_layers = " +
                      printed(layers.value) + "; legal are 1 to " + printed(layers.value) + ".");
  }
  if (values.integer("parallel.pipeline") > 1) {
    refuse(layers,
           "counts the layers of a rank that has all of them, and a stage of a pipeline has some. Set "
           "parallel.pipeline to 1, or keep weights of layers elsewhere by rules of memory.placement.");
  }
  if (values.at("memory.placement").value == "device") {
    refuse(layers,
           "contradicts memory.placement = \"device\": weights of the other layers wait elsewhere. Remove one of "
           "them.");
  }
  memory.sliding = {static_cast<uint32_t>(*count), static_cast<uint32_t>(together)};
  memory.sliding_from = shown(layers);
}

}  // namespace zrt::runtime::configuration
