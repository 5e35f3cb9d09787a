// A run that is asked to stop, at a step, in an evaluation or at its end.
#include "comm/transport.h"
#include "program.h"
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"
#include "tests/tools/finished_run.h"

namespace zrt::stopping_run_test {

using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;
using namespace zrt::finished_run;

TEST_CASE("a run that is asked to stop saves what it goes on from, even if it would save nothing at its end") {
  const Folder folder("asked");
  build_data(folder);
  json config = base_config(folder);
  config["run"]["steps"] = 6;
  const auto transport = comm::make_thread_transport(2);
  const auto run = [&](const std::string& name, const TrainHooks& hooks) {
    config["run"]["out"] = folder / name;
    return train(parse_config(config.dump(), "asked.json", {}, 2), hooks, *transport).summary;
  };
  run("whole", {});
  config["run"]["resume"] = "auto";
  for (const bool save_weights : {true, false}) {
    CAPTURE(save_weights);
    config["run"]["save_weights"] = save_weights;
    const std::string name = save_weights ? "saves" : "saves_not";
    int asked = 0;
    TrainHooks stop;
    stop.requests = [&] { return ++asked == 3 ? uint32_t{stop_requested} : 0; };
    CHECK(run(name, stop).exit_reason == "stopped by a signal");
    CHECK(fs::exists(folder / (name + "/checkpoints/step_3")));
    CHECK(run(name, {}).exit_reason == "finished");
    CHECK(fs::exists(folder / (name + "/checkpoints/step_6")) == save_weights);
    CHECK(bits(folder, name) == bits(folder, "whole"));
  }
}

TEST_CASE("a run that is asked to stop and cannot save fails, whether it is at its last step or before") {
  const Folder folder("cannot");
  build_data(folder);
  json config = base_config(folder);
  config["run"]["steps"] = 4;
  const auto transport = comm::make_thread_transport(2);
  for (const int at : {2, 4}) {
    CAPTURE(at);
    const std::string out = folder / ("run" + std::to_string(at));
    config["run"]["out"] = out;
    int asked = 0;
    TrainHooks stop;
    stop.requests = [&] {
      if (++asked != at) return uint32_t{0};
      fs::remove_all(out + "/checkpoints");
      std::ofstream(out + "/checkpoints") << "a file in the place of the folder";
      return uint32_t{stop_requested};
    };
    CHECK_THROWS_WITH(train(parse_config(config.dump(), "cannot.json", {}, 2), stop, *transport),
                      Catch::Contains("the last checkpoint could not be saved"));
  }
}

TEST_CASE("a run that is asked to stop in an evaluation ends it, saves and takes no further step") {
  const Folder folder("stopped_evaluation");
  build_data(folder);
  json base = json::parse(folder.config());
  base["run"].merge_patch({{"steps", 4}, {"eval_interval", 2}, {"eval_batches", 1000}});
  for (const int after : {0, 1, 3}) {  // batches
    base["run"]["out"] = folder / ("run" + std::to_string(after));
    const auto transport = comm::make_thread_transport(2);
    int asked = 0, evaluated = 0;
    std::string warned;
    TrainHooks hooks;
    hooks.stopping = [&] { return asked++ >= after; };
    hooks.evaluated = [&](int64_t, const Evaluation&) { ++evaluated; };
    hooks.warn = [&](const std::string& text) { warned += text; };
    const TrainResult result = train(parse_config(base.dump(), "stop.json", {}, 2), hooks, *transport);
    CHECK(result.summary.steps == 2);
    CHECK(result.summary.exit_reason == "stopped by a signal");
    CHECK(!result.summary.validation);
    CHECK(asked == after + 1);
    CHECK(evaluated == 0);
    CHECK(warned.find("step 2: the evaluation was cut short") != std::string::npos);
    CHECK(fs::exists(folder / ("run" + std::to_string(after) + "/checkpoints/step_2/manifest.json")));
  }
}

}  // namespace zrt::stopping_run_test
