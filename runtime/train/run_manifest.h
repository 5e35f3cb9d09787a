// Writes and reads what a checkpoint's manifest says of its run.
#pragma once
#include <span>
#include <string>

#include "runtime/config/config.h"
#include "runtime/program/control.h"
#include "runtime/program/layout.h"
#include "runtime/train/checkpoint/manifest.h"

namespace zrt::runtime {

// Fills all but step, samples and files. `persistent`: of any rank.
checkpoint::Manifest run_manifest(const Config& config, std::span<const Layout> stages, const Persistent& persistent);

// The model's sizes: the section `model` as it was resolved.
checkpoint::Json model_json(const Config& config);
std::string optimizer_type(const Config& config);
// Returns the parameters of each optimizer by its name where several are side by side; else null.
checkpoint::Json optimizers_json(std::span<const Layout> stages);

// Returns a warning where a checkpoint was made at another level of instruction sets; else "".
std::string other_level(const checkpoint::Manifest& manifest);

// `members`: of the run's optimizer.
checkpoint::Json control_json(const Persistent& persistent, uint32_t members);
Persistent parse_control(const checkpoint::Json& json, uint32_t members, const std::string& name);  // throws DataError

}  // namespace zrt::runtime
