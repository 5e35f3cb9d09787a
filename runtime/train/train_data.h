// The data that a configuration names, as a run reads it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "models/model.h"
#include "runtime/config/config.h"
#include "runtime/data/sample_source.h"
#include "runtime/train/trainer.h"

namespace zrt::runtime {

// data.train, laid out for `samples`, those of the whole run from its first step. Throws ConfigError when it is not set
// or does not go with the model, DataError naming the key and the file.
std::shared_ptr<const data::SampleSource> open_train_data(const Config& config, const models::Model& model,
                                                          int64_t samples);
// Says whether two layouts of the same data agree on the first `samples` of them. It compares at most 4,096, evenly
// spread: orders of one more epoch differ almost everywhere.
bool same_order(const data::SampleSource& a, const data::SampleSource& b, int64_t samples);
// data.validation; nothing when it is not set. Throws the same.
std::optional<EvalData> open_validation_data(const Config& config, const models::Model& model);

}  // namespace zrt::runtime
