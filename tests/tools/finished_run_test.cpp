// A finished run, read by every command that reads one: whatever its configuration left open, up to the last position
// of its model, and gone on with by a configuration that says the same in other words.
#include "tests/tools/finished_run.h"

#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "comm/transport.h"
#include "core/error.h"
#include "program.h"
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "runtime/train/trainer.h"

namespace zrt::finished_run_test {

using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;
using namespace zrt::finished_run;

namespace {

json& member(json& config, std::string path) {
  json* section = &config;
  for (size_t dot; (dot = path.find('.')) != std::string::npos; path.erase(0, dot + 1)) {
    section = &(*section)[path.substr(0, dot)];
  }
  return (*section)[path];
}

// The implemented keys that are no sections, for the usual optimizer and one type of scheduler.
std::vector<std::string> keys_with(const std::string& scheduler) {
  std::vector<std::string> paths;
  for (const configuration::Section& section : configuration::sections()) {
    const std::string variant = section.variant;
    if (!variant.empty() && variant != "zrt" && variant != scheduler && variant != "adam, adamw") continue;
    for (const configuration::Key& key : section.keys) {
      const bool whole = (key.types & (configuration::t_object | configuration::t_old)) != 0;
      if (key.handling == configuration::Handling::implemented && !whole)
        paths.push_back(configuration::key_path(section, key.name));
    }
  }
  return paths;
}

// `base` with "auto" at every key that takes it for left out, or gives it a meaning.
json with_autos(const json& base, const std::vector<std::string>& keys, std::set<std::string>& open) {
  json all = base;
  for (const std::string& path : keys) {
    json one = base;
    if (path == "scheduler.type" || path == "run.out" || path == "data.train" || path == "data.validation") continue;
    member(one, path) = "auto";
    try {
      parse_config(one.dump(), "auto.json", {}, 2);
    } catch (const core::ConfigError&) {
      continue;  // needed, or a text that is none of the legal ones
    }
    member(all, path) = "auto";
    open.insert(path);
  }
  // The test itself needs these.
  all["model"]["preset"] = base["model"]["preset"];
  all["run"]["steps"] = base["run"]["steps"];
  return all;
}

}  // namespace

TEST_CASE("every command reads a finished run, whatever key stood as auto or was inferred") {
  const Folder folder("finished");
  build_data(folder);
  const std::map<std::string, json> required{
      {"WarmupLR", json::object()},
      {"WarmupDecayLR", {{"total_num_steps", 5}}},
      {"WarmupCosineLR", {{"total_num_steps", 5}}},
      {"OneCycle", {{"cycle_min_lr", json::array({1e-3})}, {"cycle_max_lr", 1e-2}, {"cycle_first_step_size", 3}}},
      {"LRRangeTest", json::object()}};
  std::set<std::string> open;
  for (const auto& [type, params] : required) {
    INFO(type);
    json base = base_config(folder);
    base["scheduler"] = {{"type", type}, {"params", params}};
    folder.write("auto.json", with_autos(base, keys_with(type), open).dump(1));
    const std::string config = folder / "auto.json", run = folder / type, out = " --out ";
    require("train " + config + " --ranks 2" + out + run);
    const json loss = json::parse(require("eval " + run + " --json 2>/dev/null").text)["loss"];
    CHECK(loss == read_json(run + "/summary.json")["validation"]["loss"]);
    const double alone = json::parse(require("eval " + run + " --ranks 1 --json 2>/dev/null").text)["loss"];
    CHECK(alone == Approx(loss.get<double>()));
    require("generate " + run + " --prompt li --tokens 2");
    require("report " + run);
    require("checkpoint list " + run);
    require("checkpoint inspect " + run);
    require("checkpoint verify " + run);
    require("checkpoint export " + run + out + run + ".exported");
    require("train " + config + " --ranks 2 --steps 3 --resume auto" + out + run);
    require("launch " + config + " --ranks 2 --steps 4 --delay 0" + out + run);
    CHECK(read_json(run + "/summary.json")["steps"] == 4);
  }
  for (const char* path :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "optimizer.params.lr",
        "scheduler.params.total_num_steps", "scheduler.params.warmup_max_lr", "zero_optimization.overlap_comm",
        "zero_optimization.stage3_prefetch_bucket_size", "gradient_clipping", "bf16.enabled", "parallel.reduce_every",
        "memory.placement", "run.log_interval"}) {
    INFO(path);
    CHECK(open.count(path) == 1);
  }
}

TEST_CASE("every command reads a finished run whose gradients were reduced every two microbatches") {
  const Folder folder("reduced");
  build_data(folder);
  json config = base_config(folder);
  config["train_batch_size"] = 8, config["train_micro_batch_size_per_gpu"] = 1;
  config["parallel"]["reduce_every"] = 2;
  folder.write("reduced.json", config.dump());
  const std::string run = folder / "reduced";
  require("train " + (folder / "reduced.json") + " --ranks 2 --out " + run);
  const json loss = json::parse(require("eval " + run + " --json 2>/dev/null").text)["loss"];
  for (const char* ranks : {"1", "4"}) {
    const json other = json::parse(require("eval " + run + " --ranks " + ranks + " --json 2>/dev/null").text)["loss"];
    CHECK(other.get<double>() == Approx(loss.get<double>()));
  }
  require("generate " + run + " --prompt li --tokens 2");
  require("checkpoint export " + run + " --out " + run + ".exported");
}

TEST_CASE("a run is gone on with by a configuration that says the same in other words, and by no other") {
  const Folder folder("reworded");
  build_data(folder);
  json base = base_config(folder);
  base["run"]["steps"] = 4;
  base["run"]["checkpoint_interval"] = 2;
  base["sparse_attention"] = {{"block", 4}, {"num_local_blocks", 2}, {"different_layout_per_head", false}};
  base["scheduler"] = {{"type", "WarmupDecayLR"}, {"params", {{"total_num_steps", 4}, {"warmup_num_steps", 2}}}};
  folder.write("run.json", base.dump());
  require("train " + (folder / "run.json"));
  const std::string half = " --resume " + (folder / "run/checkpoints/step_2");
  int number = 0;
  const auto resume = [&](json config) {
    config["run"]["out"] = folder / ("again_" + std::to_string(++number));
    folder.write("again.json", config.dump());
    return run_zrt("train " + (folder / "again.json") + half);
  };
  const std::vector<std::pair<std::string, json>> same{
      {"sparse_attention.different_layout_per_head", true},  // of one layout
      {"sparse_attention.mode", "fixed"},
      {"model.preset", json()},  // with its sizes, below
      {"model.type", "gpt2"},
      {"optimizer.type", "adamw"},
      {"optimizer.params.betas", {0.9, 0.999}},
      {"scheduler.params.total_num_steps", "auto"},
      {"scheduler.params.warmup_min_lr", json::array({0.0})},
      {"zero_optimization", {{"stage", 2}}},
      {"gradient_accumulation_steps", 2},
      {"train_batch_size", json()}};
  for (const auto& [key, value] : same) {
    json config = base;
    member(config, key) = value;
    if (key == "model.preset") {
      config["model"] = {{"type", "gpt2"}, {"layers", 2},    {"hidden", 64},
                         {"heads", 2},     {"sequence", 32}, {"vocab", 257}};
    }
    if (key == "train_batch_size") config["gradient_accumulation_steps"] = 2;
    const Result result = resume(config);
    INFO(key << " = " << value << "\n" << result.text);
    REQUIRE(result.code == 0);
    CHECK(bits(folder, "again_" + std::to_string(number)) == bits(folder, "run"));
  }
  const std::vector<std::pair<std::string, json>> other{{"sparse_attention.block", 8},
                                                        {"sparse_attention", json()},
                                                        {"sparse_attention.layers", "odd"},
                                                        {"model.tied", false},
                                                        {"optimizer.type", "Lion"}};
  for (const auto& [key, value] : other) {
    json config = base;
    member(config, key) = value;
    const Result result = resume(config);
    INFO(key << " = " << value << "\n" << result.text);
    CHECK(result.code != 0);
  }
}

TEST_CASE("a run that would start behind the newest checkpoint of its own folder is refused, with both steps named") {
  const Folder folder("behind");
  build_data(folder);
  json config = base_config(folder);
  config["run"].merge_patch({{"steps", 4}, {"checkpoint_interval", 2}});
  const auto transport = comm::make_thread_transport(2);
  train(parse_config(config.dump(), "behind.json", {}, 2), {}, *transport);
  for (const std::string resume : {"auto", "run", "run/checkpoints/step_2", "run/checkpoints/step_4"}) {
    for (const bool weights_alone : {false, true}) {
      CAPTURE(resume, weights_alone);
      config["run"]["resume"] = resume == "auto" ? resume : folder / resume;
      config["run"]["load_module_only"] = weights_alone;  // start with step 1
      const Config again = parse_config(config.dump(), "behind.json", {}, 2);
      const bool older = resume.ends_with("step_2");
      if (older || weights_alone) {
        CHECK_THROWS_WITH(train(again, {}, *transport),
                          Catch::Contains("holds a whole checkpoint of step 4, newer than step " +
                                          std::string(weights_alone ? "0" : "2")));
      } else {
        CHECK(train(again, {}, *transport).summary.steps == 4);
      }
    }
  }
}

TEST_CASE("a run that has come to its last step says that nothing is left to train, and leaves its files alone") {
  const Folder folder("no_more");
  build_data(folder);
  json config = base_config(folder);
  config["run"].merge_patch({{"steps", 4}, {"out", folder / "run"}});
  folder.write("run.json", config.dump());
  const std::string train = "train " + (folder / "run.json") + " --ranks 2 ";
  require(train);
  const auto written = [&] {
    std::string all;
    for (const char* file : {"run/metrics.jsonl", "run/summary.json", "run/memory.json"}) {
      std::ifstream in(folder / file);
      all.append(std::istreambuf_iterator<char>(in), {});
    }
    return all;
  };
  const std::string before = written();
  for (const int steps : {4, 3, 5}) {
    CAPTURE(steps);
    const std::string text = require(train + "--resume auto --steps " + std::to_string(steps)).text;
    const std::string said = "nothing to train: the checkpoint is of step 4 and run.steps is " + std::to_string(steps);
    CHECK((text.find(said) != std::string::npos) == (steps <= 4));
    CHECK((written() == before) == (steps <= 4));
  }
  // No loss of this run is known in another folder.
  const std::string elsewhere =
      require(train + "--steps 4 --resume " + (folder / "run") + " --out " + (folder / "other")).text;
  INFO(elsewhere);
  CHECK(elsewhere.find("nothing to train") != std::string::npos);
  CHECK(elsewhere.find("nan") == std::string::npos);
}

TEST_CASE("an evaluation reads every sample of held-out text once, however many rows a rank has and ranks there are") {
  const Folder folder("held_out");
  build_data(folder);
  folder.write("run.json", base_config(folder).dump());
  require("train " + (folder / "run.json") + " --ranks 2");
  const int64_t tokens = read_json(folder / "corpus/validation.meta.json")["tokens"], sequence = 32;
  double loss = 0;
  for (const auto& [rows, ranks] : {std::pair(1, 1), {2, 2}, {1, 3}, {16, 1}, {5, 2}}) {
    CAPTURE(rows, ranks);
    const std::string batch = " --set train_micro_batch_size_per_gpu=" + std::to_string(rows) +
                              " --set train_batch_size=" + std::to_string(2 * rows);  // of the two ranks that trained
    const json read = json::parse(
        require("eval " + (folder / "run") + " --json --ranks " + std::to_string(ranks) + batch + " 2>/dev/null").text);
    CHECK(read["tokens"] == (tokens - 1) / sequence * sequence);
    if (loss == 0) loss = read["loss"];
    CHECK(read["loss"].get<double>() == Approx(loss));
  }
}

TEST_CASE("every hook of a run but warnings is called on the thread that called train") {
  const Folder folder("hooks");
  build_data(folder);
  json base = base_config(folder);
  base["run"].merge_patch({{"steps", 4}, {"eval_interval", 1}, {"checkpoint_interval", 1}});
  const auto transport = comm::make_thread_transport(2);
  std::map<std::string, std::set<std::thread::id>> threads;
  std::mutex mutex;
  const auto called = [&](const char* hook) {
    const std::lock_guard lock(mutex);
    threads[hook].insert(std::this_thread::get_id());
  };
  TrainHooks hooks;
  hooks.planned = [&](std::span<const Compiled>) { called("planned"); };
  hooks.step = [&](const StepMetrics&) { called("step"); };
  hooks.evaluated = [&](int64_t, const Evaluation&) { called("evaluated"); };
  hooks.resumed = [&](int64_t, const std::string&, uint64_t) { called("resumed"); };
  hooks.saved = [&](const SaveOutcome&) { called("saved"); };
  hooks.requests = [&] {
    called("requests");
    return uint32_t{0};
  };
  for (const char* steps : {"run.steps=2", "run.steps=4"}) {
    train(parse_config(base.dump(), "hooks.json", {steps, "run.resume=auto"}, 2), hooks, *transport);
  }
  for (const char* hook : {"planned", "step", "evaluated", "resumed", "saved", "requests"}) {
    INFO(hook);
    CHECK(threads[hook] == std::set<std::thread::id>{std::this_thread::get_id()});
  }
}

}  // namespace zrt::finished_run_test
