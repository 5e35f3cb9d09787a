#include "runtime/plan/plan.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "runtime/plan/delink_time.h"
#include "runtime/plan/listing.h"
#include "runtime/plan/setup.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/plan_page.h"
#include "runtime/train/lives.h"
#include "runtime/train/telemetry/metrics.h"
#include "tools/commands/arguments.h"
#include "tools/commands/plan_answers.h"
#include "tools/commands/plan_config.h"
#include "tools/commands/plan_search.h"
#include "tools/commands/user_file.h"

namespace zrt::tools {

int plan_command(const Args& args) {
  po::options_description options("options");
  options.add_options()("ranks", po::value<int>()->default_value(1), "number of ranks")(
      "model", po::value<std::string>(),
      "folder of Hugging Face, of a run or a checkpoint whose model is meant: sets model.from; without CONFIG training "
      "has the usual settings, which are printed")("set", po::value<std::vector<std::string>>()->composing(),
                                                   "a.b.c=value: override a key; may be repeated")(
      "cluster", po::value<std::string>(),
      "a file with the constants of a cluster, or the name of one that zrt knows: predicts seconds, and limits memory; "
      "NAME:SOFTWARE predicts other software that the file describes; by default parallel.cluster")(
      "transport", po::value<std::string>()->default_value(""),
      "nccl: all groups of GPUs take NCCL, which needs memory of them")(
      "stage", po::value<std::string>(),
      "of a pipeline, tell this stage in full instead of the fullest; all: every one")(
      "json", "print the plan as JSON")("draw", po::value<std::string>(),
                                        "write a page with lanes and memory over the time of a step to this file")(
      "program", "print the programs that a rank runs, one op a line, instead of the plan")(
      "after", po::value<std::string>(), "with --program: what they are behind this pass")(
      "phase", po::value<std::string>(), "with --program: of this phase alone, such as step")(
      "search", "find the fastest ways to spread the run over these ranks that fit, instead of the plan of one")(
      "most", po::value<int>()->default_value(24), "with --search: so many ways are compiled")(
      "tokens", po::value<double>()->default_value(0), "say how long so many tokens take on the cluster")(
      "price", po::value<double>()->default_value(0), "with --tokens: what a GPU costs in an hour")(
      "find", po::value<std::string>(),
      "plan the fewest ranks, the longest sequence or the largest microbatch that fits: ranks, sequence or microbatch");
  add_force_option(options);
  add_device_option(options);
  po::variables_map values;
  if (!parse(args,
             "zrt plan CONFIG|DIR [--model DIR] [--ranks N] [--set key=value]… [--cluster FILE|NAME[:SOFTWARE]] "
             "[--stage N|all] [--json] [--draw FILE] "
             "[--force] [--program [--after PASS] [--phase NAME]] [--find ranks|sequence|microbatch] "
             "[--search [--most N]] [--tokens N [--price N]]\n\n"
             "DIR, a folder with a model, in place of a configuration is --model DIR without one.\n"
             "Exit code: 0 when every rank fits its memory, 1 when one does not.",
             options, {"CONFIG"}, values, false, true)) {
    return 0;
  }
  for (const char* option : {"after", "phase"}) {
    if (values.count(option) && !values.count("program")) {
      throw core::UsageError(fmt::format("--{} says which program to print; it needs --program", option));
    }
  }
  if (values.count("program") && values.count("json")) {
    throw core::UsageError("--program prints text for people, --json the plan: choose one of them");
  }
  if (values.count("force") && !values.count("draw")) {
    throw core::UsageError("--force replaces the file that --draw names; it needs --draw");
  }
  if (values.count("draw")) {
    require_replaceable({values["draw"].as<std::string>(), "--draw", runtime::draw::page_mark,
                         values.count("CONFIG") ? values["CONFIG"].as<std::string>() : std::string()},
                        values);
  }
  for (const char* other : {"json", "program", "search"}) {
    const bool draws = values.count("draw") && !values.count("search");
    if (!values.count("stage") || !values.count(other) || draws) continue;
    throw core::UsageError(
        fmt::format("--stage chooses what the plan's text and page tell; it does nothing with --{}", other));
  }
  for (const char* other : {"program", "search"}) {
    if (!values.count("find") || !values.count(other)) continue;
    throw core::UsageError(fmt::format("--find and --{} are both given: leave one of them out", other));
  }
  if (values.count("search")) return search_command(values);
  const runtime::Config loaded = plan_config(values);
  const std::string& transport = values["transport"].as<std::string>();
  if (!transport.empty() && transport != "nccl") {
    throw core::UsageError("--transport of a plan is '" + transport + "'; legal is nccl");
  }
  runtime::Config config = transport.empty() ? loaded : runtime::in_reach(loaded, 1);
  log_remarks(config);
  const std::string name = values.count("cluster") ? values["cluster"].as<std::string>() : config.parallel.cluster;
  std::optional<runtime::Cluster> cluster;
  if (values.count("cluster") || !name.empty()) cluster = runtime::find_cluster(name);

  if (cluster) {
    const std::string slow = runtime::tensor_across_hosts(config, cluster->ranks_per_host, cluster->distribution);
    if (!slow.empty()) spdlog::warn("{}", slow);
  }
  const runtime::Price price = price_of(values, cluster.has_value());
  const std::optional<runtime::Extreme> found = answer_find(values, config, cluster ? &*cluster : nullptr);
  const auto stages = static_cast<size_t>(config.mesh.pipeline());
  const runtime::StagesShown shown =
      values.count("stage") ? runtime::stages_shown(values["stage"].as<std::string>(), stages) : runtime::StagesShown{};
  const models::Model model = config.model.make();
  const auto& rules = config.pseudo_to_real;
  // A run whose layers share to the end has one life; else the second begins with what the first has saved.
  const bool delinks = rules && (rules->at_step || rules->plateau);
  std::optional<runtime::Plan> shared;
  if (rules) {
    shared.emplace(runtime::make_plan(config, runtime::with_shared_layers(model, *rules),
                                      runtime::training_phases(config, "init"), cluster));
  }
  const runtime::Config later = delinks ? runtime::after_delink(config) : config;
  const runtime::Plan plan =
      rules && !delinks
          ? *shared
          : runtime::make_plan(later, model, runtime::training_phases(later, rules ? "load" : "init"), cluster);
  const bool fits = plan.fits && (!shared || shared->fits);
  if (values.count("draw")) runtime::write_file(values["draw"].as<std::string>(), runtime::plan_page(plan, shown));
  if (values.count("program")) {
    const auto text = [&](const char* option) {
      return values.count(option) ? values[option].as<std::string>() : std::string();
    };
    std::cout << runtime::program_listing(plan, text("after"), text("phase"));
  } else if (values.count("json") && delinks) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(runtime::to_json(plan, price));
    json["pseudo"] = nlohmann::ordered_json::parse(runtime::to_json(*shared));
    json["delink"] = runtime::delink_json(runtime::delink_time(*shared, plan, config.pseudo_to_real->sharing));
    std::cout << json.dump(1) << "\n";
  } else if (values.count("json")) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(runtime::to_json(plan, price));
    if (found) json["found"] = find_json(*found);
    std::cout << json.dump(1) << "\n";
  } else if (delinks) {
    std::cout << "While layers share their parameters:\n\n"
              << runtime::plan_text(*shared, shown) << "\n"
              << runtime::delink_text(runtime::delink_time(*shared, plan, config.pseudo_to_real->sharing), cluster)
              << "\nOnce they are delinked:\n\n"
              << runtime::plan_text(plan, shown) << runtime::run_cost_text(plan, price);
  } else {
    if (found) std::cout << found->text << "\n\n";
    std::cout << runtime::plan_text(plan, shown) << runtime::run_cost_text(plan, price);
  }
  return fits ? 0 : 1;
}

}  // namespace zrt::tools
