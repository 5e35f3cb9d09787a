// A finished run, read by every command that reads one: whatever its configuration left open, up to the last position
// of its model, and gone on with by a configuration that says the same in other words.
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "comm/transport.h"
#include "core/error.h"
#include "program.h"
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/train/generate.h"
#include "runtime/train/resume.h"
#include "runtime/train/trainer.h"

namespace zrt::finished_run_test {

using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;

namespace {

Result require(const std::string& arguments) {
  const Result result = run_zrt(arguments);
  INFO("zrt " << arguments << "\n" << result.text);
  REQUIRE(result.code == 0);
  return result;
}

json bits(const Folder& folder, const std::string& run) {
  return read_json(folder / (run + "/summary.json"))["state_xxh3"];
}

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
  // What the test itself needs.
  all["model"]["preset"] = base["model"]["preset"];
  all["run"]["steps"] = base["run"]["steps"];
  return all;
}

json base_config(const Folder& folder) {
  json config = json::parse(folder.config());
  config["run"]["steps"] = 2;
  return config;
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

TEST_CASE("text fills the sequence of its model to the last position, and each token follows from those before it") {
  const Folder folder("sequence");
  build_data(folder);
  folder.write("run.json", base_config(folder).dump());
  require("train " + (folder / "run.json"));
  const RunPaths run = find_run(folder / "run");
  const Config config = load_resolved(run.config);
  const int64_t sequence = config.model.sequence;
  Generator generator(config, run.checkpoint);
  const auto text = [&](std::vector<int32_t> prompt, int64_t tokens, int64_t top_k = 40, double temperature = 0,
                        uint64_t seed = 1) {
    int64_t emitted = 0;
    GenerateOptions options{.prompt = std::move(prompt), .tokens = tokens, .sampling = {temperature, top_k, 1, seed}};
    options.emit = [&](int32_t) { return ++emitted > 0; };
    const GeneratedTokens made = generator.generate(options);
    CHECK(emitted == static_cast<int64_t>(made.tokens.size()));
    return made.tokens;
  };
  const auto prompt_of = [](int64_t length) {
    std::vector<int32_t> prompt;
    for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>('a' + i * 7 % 26));
    return prompt;
  };
  for (const int64_t length : {int64_t{1}, int64_t{5}, sequence - 1, sequence}) {
    INFO("a prompt of " << length << " of " << sequence);
    const std::vector<int32_t> prompt = prompt_of(length), whole = text(prompt, sequence - length + 1);
    CHECK(static_cast<int64_t>(whole.size()) == sequence - length + 1);
    CHECK(text(prompt, sequence - length + 2) == whole);
    CHECK(text(prompt, sequence - length) == std::vector<int32_t>(whole.begin(), whole.end() - 1));
    // Each as the first one behind a prompt that holds those before it.
    std::vector<int32_t> longer = prompt;
    for (const int32_t token : whole) {
      CHECK(text(longer, 1) == std::vector<int32_t>{token});
      longer.push_back(token);
    }
  }
  // A stop token ends the text and is no part of it.
  {
    const std::vector<int32_t> whole = text(prompt_of(5), 12);
    const int32_t stop = whole[3];
    const auto first = std::find(whole.begin(), whole.end(), stop);
    std::vector<int32_t> emitted;
    GenerateOptions options{.prompt = prompt_of(5), .tokens = 12, .sampling = {.temperature = 0}};
    options.stop_tokens = {0, stop};
    options.emit = [&](int32_t token) {
      emitted.push_back(token);
      return true;
    };
    const GeneratedTokens made = generator.generate(options);
    CHECK(made.tokens == std::vector<int32_t>(whole.begin(), first));
    CHECK(made.end == TextEnd::stop_token);
    CHECK(emitted == std::vector<int32_t>(whole.begin(), first));
  }
  CHECK_THROWS_AS(text(prompt_of(sequence + 1), 1), core::ConfigError);
  CHECK_THROWS_AS(text({}, 1), core::ConfigError);

  // One candidate is the likeliest token, whatever is drawn; as many as there are is no limit.
  const std::vector<int32_t> prompt = prompt_of(3), greedy = text(prompt, 12);
  std::set<std::vector<int32_t>> drawn;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    CHECK(text(prompt, 12, 1, 1.5, seed) == greedy);
    CHECK(text(prompt, 12, 0, 1.5, seed) == text(prompt, 12, config.model.vocab, 1.5, seed));
    CHECK(text(prompt, 12, 0, 1.5, seed) == text(prompt, 12, config.model.vocab + 1, 1.5, seed));
    drawn.insert(text(prompt, 12, 0, 1.5, seed));
    // Of two candidates both are taken, and no third one.
    std::vector<int32_t> before = prompt;
    for (const int32_t token : text(prompt, 12, 2, 1.5, seed)) {
      const std::vector<int32_t> likely = text(before, 1);
      std::set<int32_t> two{likely[0]};
      for (uint64_t other = 1; other <= 12; ++other) two.insert(text(before, 1, 2, 50, other)[0]);
      CHECK(two.size() == 2);
      CHECK(two.count(token) == 1);
      before.push_back(token);
      if (before.size() > prompt.size() + 2) break;
    }
  }
  CHECK(drawn.size() > 1);
}

TEST_CASE("an empty prompt begins a document: text follows the id that ends one, of any tokenizer") {
  for (const std::string tokenizer : {"bytes", "train --vocab 512"}) {
    INFO(tokenizer);
    const Folder folder("no_prompt");
    require("data build --validation 0.2 --tokenizer " + tokenizer + " --out " + (folder / "corpus") + " " +
            (folder / "text.txt"));
    const auto known = data::common_tokenizer({folder / "corpus/train"}, 1 << 20);
    const int32_t end = data::open_tokenizer(*known)->eod();
    folder.write("run.json", base_config(folder).dump());
    require("train " + (folder / "run.json") + " --set model.vocab=" + std::to_string(known->vocabulary));
    const RunPaths run = find_run(folder / "run");
    const Config config = load_resolved(run.config);
    Generator generator(config, run.checkpoint);
    int as_another = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const auto behind = [&](int32_t token) {
        GenerateOptions options{.prompt = {token}, .tokens = 12, .sampling = {1.5, 0, 1, seed}};
        options.stop_tokens = {end};
        return json(generator.generate(options).tokens);
      };
      const std::string how = " --prompt '' --tokens 12 --temperature 1.5 --top-k 0 --json --seed ";
      const json text = json::parse(require("generate " + (folder / "run") + how + std::to_string(seed)).text);
      CHECK(text["prompt"] == "");
      CHECK(text["tokens"] == behind(end));
      as_another += text["tokens"] == behind(0);
    }
    CHECK(as_another < 4);  // else the text would not show what it follows
  }
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
  // In another folder no loss of this run is known.
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

}  // namespace zrt::finished_run_test
