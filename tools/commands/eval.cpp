#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <optional>

#include "comm/launch.h"
#include "core/error.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/engine/session_options.h"
#include "runtime/train/data_identity.h"
#include "runtime/train/resume.h"
#include "tools/commands/arguments.h"
#include "tools/commands/eval_session.h"
#include "tools/commands/eval_tasks.h"
#include "tools/commands/ranks.h"
#include "tools/commands/reporter.h"

namespace zrt::tools {
namespace {

int eval_ranks(const po::variables_map& values, comm::Transport& transport, const runtime::RunPaths& run,
               const runtime::Config& config) {
  if (transport.world() != config.mesh.world()) {
    throw core::UsageError(fmt::format(
        "the run has {0} ranks and {1} process{2} came to evaluate it: start {0}, or give --ranks {1}, and the ranks "
        "are data-parallel",
        config.mesh.world(), transport.world(), transport.world() == 1 ? "" : "es"));
  }
  if (values.count("tasks")) return eval_tasks(values, transport, run, config);
  std::vector<runtime::DataSource> sources = config.data.validation;
  if (values.count("data")) {
    sources.clear();
    for (const std::string& prefix : values["data"].as<std::vector<std::string>>()) sources.push_back({1, prefix, ""});
  }
  if (sources.empty())
    throw core::UsageError("the run has no data.validation nor data.split; name a dataset with --data PREFIX");
  const runtime::checkpoint::Reader weights(run.checkpoint, false);
  // The ids of the datasets must mean what those of the training data meant, which the checkpoint says or, if it is
  // old, that data.
  const std::string learned = runtime::trained_tokenizer(weights.manifest().made_by);
  std::vector<std::string> prefixes;
  for (const auto& source : config.data.train) {
    if (learned.empty()) prefixes.push_back(source.prefix);
  }
  for (const auto& source : sources) prefixes.push_back(source.prefix);
  const auto made_by = runtime::data::common_tokenizer(prefixes, config.model.vocab);
  if (made_by && !learned.empty() && runtime::data::tokenizer_text(*made_by) != learned) {
    throw core::ConfigError(
        fmt::format("dataset {} was made by the tokenizer {} and the checkpoint was trained with {}: their token ids "
                    "mean different text. Build the dataset with the checkpoint's tokenizer",
                    made_by->prefix, runtime::data::tokenizer_text(*made_by), learned));
  }

  const models::Model model = config.model.make();
  const runtime::EvalData data = runtime::open_eval_data(sources, config.data.documents, model);
  for (const runtime::EvalSet& set : data) {
    if (!transport.leads()) break;
    for (const std::string& text : set.source->left_out()) std::cerr << "warning: " << core::printable(text) << '\n';
  }
  runtime::require_same_data(transport, {{"data", runtime::validation_json(data)}},
                             runtime::session_options(config).timeout);
  runtime::BatchFiller filler;
  const auto session = open_eval_session(run, config, model, weights, filler, transport);
  const runtime::Evaluation e = runtime::evaluate(*session, data, filler);
  if (!transport.leads()) return 0;
  if (!std::isfinite(e.loss)) {
    throw core::DataError(fmt::format(
        "{}: the loss is {}: the weights are finite, but the model overflows on this data. The run has diverged; train "
        "again with a lower optimizer.params.lr or with gradient_clipping.",
        run.checkpoint.string(), e.loss));
  }
  std::cout << (values.count("json") ? runtime::to_json(e) : evaluation_text(e)) << "\n";
  return 0;
}

}  // namespace

int eval_command(const Args& args) {
  po::options_description options("options");
  options.add_options()(
      "data", po::value<std::vector<std::string>>()->composing(),
      "PREFIX of a dataset; may be repeated; default: those of the run's data.validation, or the part of "
      "data.split")("set", po::value<std::vector<std::string>>()->composing(),
                    "a.b.c=value: override a key of the run")(
      "ranks", po::value<int>(), "so many data-parallel ranks; default: the mesh of the run")(
      "transport", po::value<std::string>()->default_value(""), "as of train")("json", "print the result as JSON");
  add_task_options(options);
  add_device_option(options);
  po::variables_map values;
  if (!parse(args, "zrt eval RUN [--data PREFIX]… [--tasks FILE.jsonl] [--ranks N]", options, {"RUN"}, values))
    return 0;
  check_task_options(values);
  const runtime::RunPaths run = runtime::find_run(values["RUN"].as<std::string>());
  const runtime::Config of_run = runtime::load_resolved(run.config, config_settings(values));
  std::optional<int> ranks;
  if (values.count("ranks")) {
    ranks = values["ranks"].as<int>();
    if (*ranks < 1) throw core::UsageError(fmt::format("--ranks is {}; it must be positive", *ranks));
    for (const runtime::Override& set : config_settings(values)) {
      const std::string key = set.text.substr(0, set.text.find('='));
      const bool mesh = key == "parallel.tensor" || key == "parallel.pipeline" || key == "parallel.expert";
      if (!mesh || set.text == key + "=1") continue;
      throw core::UsageError(
          fmt::format("--ranks {} asks for data-parallel ranks alone, but {} {} for others; leave one of them out. "
                      "Without --ranks the mesh is the run's, with what --set changes of it.",
                      *ranks, set.option, set.text));
    }
  }

  const runtime::Config config = ranks ? runtime::data_parallel(of_run, *ranks) : of_run;
  const auto transport = comm::make_transport(values["transport"].as<std::string>(), ranks, config.mesh.world());
  return run_ranks(*transport, [&] { return eval_ranks(values, *transport, run, config); });
}

}  // namespace zrt::tools
