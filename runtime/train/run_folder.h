// The folder of a run, looked at before anything is computed.
#pragma once
#include "comm/transport.h"
#include "core/held_folder.h"
#include "runtime/config/config.h"

namespace zrt::runtime {

// Holds the folder, which exists. Throws DataError; also where one of the names that a run writes there is a link, a
// pipe or a device.
void hold_run_folder(core::HeldFolder& out);

// Throws DataError, in every process, unless each can make files where this run will save checkpoints. Does nothing for
// a run that will save none. Collective.
void require_savable(const core::HeldFolder& out, const Config& config, comm::Transport& transport);

}  // namespace zrt::runtime
