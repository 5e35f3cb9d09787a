// The weights beside adapters lie in the folder of Hugging Face, or the checkpoint of another run, that a run began
// with. Its checkpoints need not repeat them, and could not have them in as many bits as they came in.
#pragma once
#include <functional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime {

struct BaseWeights {
  checkpoint::Json named;  // for the manifest (checkpoint::base_key); null: checkpoints hold all weights
  // CheckpointOptions takes this: false for adapters, and for what earlier steps have trained. Null where `named` is.
  std::function<bool(const std::string& parameter)> lies_elsewhere;
};
BaseWeights base_weights(const Config& config, const checkpoint::Reader* resumed);  // null: from scratch

}  // namespace zrt::runtime
