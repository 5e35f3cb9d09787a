// Which data a run reads: its ranks must agree on it, and its checkpoints keep it, so that a run that goes on with
// other data says so.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "models/model.h"
#include "runtime/config/config.h"
#include "runtime/train/checkpoint/strict_json.h"
#include "runtime/train/trainer.h"

namespace zrt::runtime {

// Sequence, batch and masking, and of each dataset of `train` and `validation` prefix, share of the samples, documents,
// tokens and the hash of its index.
checkpoint::Json data_json(const Config& config, const models::Model& model, const models::data::SampleSource& train,
                           const std::optional<EvalData>& validation);

// Of each held-out dataset prefix, documents, tokens and the hash of its index.
checkpoint::Json validation_json(const EvalData& data);

// Throws ConfigError, in every process, that names what differs when `data` is not the same in all.
void require_same_data(comm::Transport& transport, const checkpoint::Json& data, std::chrono::milliseconds timeout);

// What differs between the data of a checkpoint, taken after `samples`, and that of the run that goes on, a sentence
// each, with the samples that repeat or are lost. Nothing where the checkpoint, an old one, does not say.
std::vector<std::string> data_changes(const checkpoint::Json& before, const checkpoint::Json& now, int64_t samples);

}  // namespace zrt::runtime
