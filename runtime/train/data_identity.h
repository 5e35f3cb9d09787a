// Says which data a run reads: its ranks must agree on it, and its checkpoints keep it, so that a run that goes on with
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

// Returns sequence, batch and masking, and the facts of each dataset of `train` and `validation`, with its share of the
// samples. Reads some of the tokens of each.
checkpoint::Json data_json(const Config& config, const models::Model& model, const data::SampleSource& train,
                           const std::optional<EvalData>& validation);

// The facts of each held-out dataset.
checkpoint::Json validation_json(const EvalData& data);

// Throws ConfigError, in every process, that names what differs when `data` is not the same in all.
void require_same_data(comm::Transport& transport, const checkpoint::Json& data, std::chrono::milliseconds timeout);

// The tokenizer of the data that a checkpoint was trained on, in words (data::tokenizer_text); "" where it, or
// one of its datasets, does not say. `made_by` as in its manifest.
std::string trained_tokenizer(const checkpoint::Json& made_by);
// Tells whether the training data's documents stood in their tokenizer's template; nothing where a checkpoint has no
// word of its data.
std::optional<bool> trained_template(const checkpoint::Json& made_by);

// Says that the data was made by another tokenizer than that of a checkpoint; "" where it was not or is not known.
std::string other_tokenizer(const checkpoint::Json& before, const checkpoint::Json& now);

// Says what differs between the data of a checkpoint, taken after `samples`, and that of the run that goes on, a
// sentence each, with the samples that repeat or are lost. Nothing where the checkpoint, an old one, does not say.
// `counted`: the run's length is one of samples, which no batch changes.
std::vector<std::string> data_changes(const checkpoint::Json& before, const checkpoint::Json& now, int64_t samples,
                                      bool counted = false);

}  // namespace zrt::runtime
