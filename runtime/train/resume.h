// Finds where a run starts: from scratch, from a checkpoint or from the weights of a Hugging Face folder. Both must fit
// the configuration.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/transport.h"
#include "runtime/config/config.h"
#include "runtime/program/control.h"
#include "runtime/program/layout.h"
#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime {

// Opens what run.resume names; null where the run starts from scratch: run.resume is not set, or "auto" and there is no
// valid checkpoint in run.out. The process of rank 0 chooses for all, and verifies every byte of a checkpoint. `warn`
// hears about checkpoints that are passed over. Throws ConfigError when run.out holds checkpoints that a new run would
// mix with its own; DataError when the checkpoint is corrupt. Collective.
std::unique_ptr<checkpoint::Reader> open_resume(const Config& config, comm::Transport& transport,
                                                const std::function<void(const std::string&)>& warn);
// Throws ConfigError when the checkpoint is of another model or optimizer than the configuration's, or lacks what the
// stages need. `warn`, which may be null, hears of states that nobody keeps.
void require_fits(const checkpoint::Reader& reader, const Config& config, std::span<const Layout> stages,
                  const std::function<void(const std::string&)>& warn);

// Throws DataError unless every parameter of the model is there in the right shape.
void require_weights(const checkpoint::Reader& reader, const models::Model& model);
// Throws DataError where the files hold a weight that no stage has.
void refuse_left_over(const checkpoint::Reader& reader, std::span<const models::Model* const> stages);
// Throws DataError unless a stage's parameters (with `states`, its optimizer states too) are there in the right shape.
void require_tensors(const checkpoint::Reader& reader, const Layout& layout, bool states);

// Host memory that a rank holds to load what the reader opened, at most, beside its arenas.
uint64_t load_host_bytes(const checkpoint::Reader& reader);

// The configuration of the model in a Hugging Face folder; `sets` overrides its keys. Throws ConfigError.
Config hugging_face_config(const checkpoint::Reader& reader, const Settings& sets);

// The run and the checkpoint that PATH means: a run's folder (its newest valid checkpoint) or a checkpoint in one.
struct RunPaths {
  std::filesystem::path config, checkpoint;
};
RunPaths find_run(const std::filesystem::path& path);
// The config.resolved.json of the run whose checkpoint PATH means; nothing where it has none beside it.
std::optional<std::filesystem::path> find_run_config(const std::filesystem::path& path,
                                                     const std::filesystem::path& checkpoint);

}  // namespace zrt::runtime
