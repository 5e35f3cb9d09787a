#include "tools/commands/eval_session.h"

#include <iostream>

#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/numeric_guard.h"

namespace zrt::tools {

std::unique_ptr<runtime::Session> open_eval_session(const runtime::RunPaths& run, const runtime::Config& config,
                                                    const models::Model& model,
                                                    const runtime::checkpoint::Reader& weights,
                                                    runtime::BatchFiller& filler, comm::Transport& transport) {
  const runtime::SessionOptions options = runtime::session_options(config);
  runtime::require_weights(weights, model);
  const runtime::RunPlace place =
      runtime::run_place(transport, config.run.device, config.run.share_gpu, options.timeout);
  if (transport.leads() && transport.world() > 1) {
    for (const std::string& line : place.lines) std::cerr << line << '\n';
  }
  auto session = std::make_unique<runtime::Session>(
      runtime::compile_within_budget(config, model, {"load", "eval"}, place), options,
      runtime::SessionHooks{[&filler](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              filler(rank, microbatch, to);
                            },
                            [&weights](const std::string& tensor, int64_t begin, std::span<float> out) {
                              weights.read(tensor, begin, out);
                            }},
      transport);
  session->run("load", {});
  runtime::require_finite_weights(*session, run.checkpoint);
  return session;
}

}  // namespace zrt::tools
