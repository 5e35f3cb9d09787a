// The session of an evaluation.
#pragma once
#include <memory>

#include "comm/transport.h"
#include "runtime/train/resume.h"
#include "runtime/train/trainer.h"

namespace zrt::tools {

// Opens a session and loads the checkpoint's weights. Prints the ranks' places to stderr where there are several. All
// arguments must outlive it. Throws where weights are missing or not finite. Collective.
std::unique_ptr<runtime::Session> open_eval_session(const runtime::RunPaths& run, const runtime::Config& config,
                                                    const models::Model& model,
                                                    const runtime::checkpoint::Reader& weights,
                                                    runtime::BatchFiller& filler, comm::Transport& transport);

}  // namespace zrt::tools
