// Runs whose steps are skipped, or whose weights are not finite: they say so, end with an error, and save nothing bad.
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <set>

#include "program.h"
#include "runtime/config/config.h"
#include "runtime/train/trainer.h"
#include "tests/record_hashes.h"
#include "wrapped_transport.h"

namespace zrt::skipped_run_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

// Weights grow ten million times a step, and the third step is the first that is skipped.
const std::string diverging =
    " --set optimizer.params.lr=1e6 --set optimizer.params.weight_decay=10 --set gradient_clipping=0";

struct Run : Folder {
  explicit Run(const std::string& name) : Folder(name) {
    build_data(*this);
    write("c.json", config());
  }
  Result train(const std::string& more, const std::string& out = "run", int ranks = 2) const {
    return run_zrt("train " + (*this / "c.json") + " --ranks " + std::to_string(ranks) + " --out " + (*this / out) +
                   " --set run.log_interval=1 " + more);
  }
  std::vector<json> metrics(const std::string& out = "run") const {
    std::ifstream in(*this / (out + "/metrics.jsonl"));
    std::vector<json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<int64_t> checkpoints(const std::string& out = "run") const {
    std::vector<int64_t> steps;
    for (int64_t step = 0; step < 100; ++step) {
      if (fs::exists(path / out / "checkpoints" / ("step_" + std::to_string(step)))) steps.push_back(step);
    }
    return steps;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

// Puts a NaN into the first fp32 value of a tensor of a safetensors file.
void spoil(const std::string& file, const std::string& tensor) {
  std::fstream io(file, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t bytes = 0;
  io.read(reinterpret_cast<char*>(&bytes), sizeof bytes);
  std::string head(bytes, '\0');
  io.read(head.data(), static_cast<std::streamsize>(bytes));
  const json entry = json::parse(head).at(tensor);
  REQUIRE(entry["dtype"] == "F32");
  io.seekp(static_cast<std::streamoff>(8 + bytes + entry["data_offsets"][0].get<uint64_t>()));
  const std::array<unsigned char, 4> nan{0, 0, 0xc0, 0x7f};
  io.write(reinterpret_cast<const char*>(nan.data()), nan.size());
  REQUIRE(io.good());
}

}  // namespace

TEST_CASE("a run whose steps are all skipped ends with an error that names step, unit and tensor") {
  const Run run("skipped_limit");
  struct Case {
    const char* more;
    const char* type;
  };
  for (const Case& c : {Case{"--set zero_optimization.stage=0", "AdamW"},
                        {"--set zero_optimization.stage=1 --set bf16.enabled=true", "AdamW"},
                        {"--set zero_optimization.stage=2", "AdamW"},
                        {"--set zero_optimization.stage=3 --set bf16.enabled=true", "AdamW"},
                        {"--set zero_optimization.stage=3 --set memory.placement=host", "AdamW"},
                        {"--set zero_optimization.stage=1 --set parallel.pipeline=2", "AdamW"},
                        {"--set zero_optimization.stage=1 --set parallel.tensor=2", "AdamW"},
                        {"--set zero_optimization.stage=2", "Muon"}}) {
    INFO(c.type << " " << c.more);
    fs::remove_all(run.path / "run");
    const Result result = run.train(
        diverging + " --steps 30 --set run.checkpoint_interval=1 --set optimizer.type=" + c.type + " " + c.more);
    INFO(result.text);
    CHECK(result.code == 1);
    const std::vector<json> steps = run.metrics();
    REQUIRE(steps.size() > 10);
    size_t taken = 0;
    while (taken < steps.size() && steps[taken]["skipped"] == false) ++taken;
    CHECK(taken >= 1);
    CHECK(steps.size() == taken + 10);
    for (size_t i = taken; i < steps.size(); ++i) CHECK(steps[i]["skipped"] == true);
    const std::string first = std::to_string(taken + 1), last = std::to_string(steps.size());
    CHECK(count(result.text, " step " + first + " was skipped") == 1);
    CHECK(count(result.text, "was skipped: ") == 1);
    CHECK(count(result.text, "step skipped") == 10);
    CHECK(has(result.text, "zrt: error: step " + last +
                               ": 10 steps in a row were skipped (run.skip_limit). The first"
                               " value that is not finite: the "));
    CHECK(has(result.text, "' of unit '"));
    // Checkpoints are of steps that were taken.
    const json failure = read_json(run / "run/failure.json");
    CHECK(failure["step"] == steps.size());
    CHECK(has(result.text, failure["message"]));
    REQUIRE_FALSE(run.checkpoints().empty());
    CHECK(run.checkpoints().back() <= static_cast<int64_t>(taken));
    CHECK_FALSE(fs::exists(run.path / "run/summary.json"));
  }
}

TEST_CASE("a run that ends before the limit says how many steps were skipped, and 0 is no limit") {
  const Run run("skipped_few");
  for (const char* more : {"--steps 6", "--steps 14 --set run.skip_limit=0", "--steps 14 --set run.skip_limit=20"}) {
    INFO(more);
    fs::remove_all(run.path / "run");
    const Result result = run.train(diverging + " " + more);
    INFO(result.text);
    CHECK(result.code == 0);
    const json summary = read_json(run / "run/summary.json");
    const int64_t steps = summary["steps"], skipped = summary["skipped"];
    CHECK(skipped > 0);
    CHECK(has(result.text,
              "finished after " + std::to_string(steps) + " steps, " + std::to_string(skipped) + " of them skipped"));
    CHECK(has(result.text, "the run ends with " + std::to_string(skipped) +
                               " skipped step(s): its weights are those "
                               "of step " +
                               std::to_string(steps - skipped)));
    CHECK(run_zrt("checkpoint verify " + (run / "run")).code == 0);
  }
}

TEST_CASE("a run whose loss scale never finds its range says at its end that nothing was trained") {
  const Run run("no_range");
  const std::string said = "the run ends without an update: every step was skipped";
  const std::string fp16 = " --set fp16.enabled=true --set bf16.enabled=false --set fp16.initial_scale_power=";
  const Result none = run.train(fp16 + "60 --steps 4"), some = run.train(fp16 + "4 --steps 4", "other");
  INFO(none.text << "\n" << some.text);
  CHECK(none.code == 0);
  CHECK(has(none.text, "finished after 4 steps, 4 of them skipped"));
  CHECK(has(none.text, said));
  CHECK(some.code == 0);
  CHECK(!has(some.text, said));
}

TEST_CASE("a skipped step does not move the learning rate's schedule") {
  const Run run("skipped_schedule");
  // The first steps of a loss scale that begins too high overflow.
  const std::string fp16 =
      " --steps 12 --set fp16.enabled=true --set fp16.hysteresis=1 --set scheduler.type=WarmupDecayLR --set "
      "scheduler.params.warmup_num_steps=5 --set scheduler.params.total_num_steps=12 --set "
      "scheduler.params.warmup_max_lr=0.003 --set fp16.initial_scale_power=";
  const Result skips = run.train(fp16 + "24", "skips"), whole = run.train(fp16 + "4", "whole");
  INFO(skips.text << whole.text);
  REQUIRE(skips.code == 0);
  REQUIRE(whole.code == 0);
  std::vector<double> rates;
  for (const json& line : run.metrics("whole")) {
    REQUIRE(line["skipped"] == false);
    rates.push_back(line["lr"]);
  }
  REQUIRE(rates.size() == 12);
  CHECK(rates[2] != rates[3]);
  size_t updates = 0, skipped = 0;
  for (const json& line : run.metrics("skips")) {
    INFO(line.dump());
    CHECK(line["lr"] == rates[updates]);
    line["skipped"] == true ? ++skipped : ++updates;
  }
  CHECK(skipped > 0);
  CHECK(updates > 3);
}

TEST_CASE("a checkpoint that falls due on a skipped step is made after the next step that is taken") {
  const Run run("skipped_due");
  json config = json::parse(run.config());
  config["run"].merge_patch({{"steps", 9}, {"checkpoint_interval", 3}, {"keep_every", 1}});
  for (const std::set<int64_t>& skips : {std::set<int64_t>{3}, {2, 3, 4}, {5, 7}, {3, 6, 7, 8}}) {
    CAPTURE(skips);
    fs::remove_all(run.path / "run");
    std::atomic<int64_t> step = 0;
    runtime::TrainHooks hooks;
    hooks.requests = [&] {
      ++step;
      return uint32_t{0};
    };
    CallHooks calls;
    calls.summed = [&](std::string_view, const comm::ReduceRange& range, core::DType type) {
      if (type == core::DType::f32 && skips.count(step) > 0)
        *static_cast<float*>(range.target) = std::numeric_limits<float>::quiet_NaN();
    };
    WrappedTransport transport(comm::make_thread_transport(2), calls);
    runtime::train(runtime::parse_config(config.dump(), "due.json", {}, 2), hooks, transport);
    std::vector<int64_t> expected;
    bool due = false;
    for (const json& line : run.metrics()) {
      const int64_t number = line["step"];
      CHECK(line["skipped"] == (skips.count(number) > 0));
      due = due || number % 3 == 0;
      if (!due || line["skipped"] == true) continue;
      expected.push_back(number);
      due = false;
    }
    CHECK(run.checkpoints() == expected);
  }
}

TEST_CASE("what an earlier run failed of is no longer told once a run has begun in its folder") {
  const Run run("skipped_forgotten");
  REQUIRE(run.train("--steps 2 --set run.checkpoint_interval=1").code == 0);
  run.write("run/failure.json", R"({"step": 9, "kind": "not finite", "message": "a weight of long ago"})");
  REQUIRE(run.train("--steps 3 --resume auto").code == 0);
  CHECK_FALSE(fs::exists(run.path / "run/failure.json"));
}

TEST_CASE("weights that are not finite are never saved, whatever the limit, and the run's end is an error") {
  const Run run("skipped_bad");
  // The first step is taken: its gradient is finite, and decay throws the weights out of range.
  const std::string at_once =
      " --set optimizer.params.lr=1e6 --set optimizer.params.weight_decay=1e36 --set gradient_clipping=0 --set "
      "run.skip_limit=0 ";
  struct Case {
    const char* more;
    int step;
  };
  for (const Case& c : {Case{"--steps 1", 1},
                        {"--steps 9", 9},
                        {"--steps 9 --set run.checkpoint_interval=1", 1},
                        {"--steps 9 --set run.checkpoint_interval=1 --set bf16.enabled=true", 1},
                        {"--steps 9 --set run.checkpoint_interval=2", 9},
                        {"--steps 2 --set run.save_weights=false", 2}}) {
    INFO(c.more);
    fs::remove_all(run.path / "run");
    const Result result = run.train(at_once + c.more);
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(has(result.text, "zrt: error: step " + std::to_string(c.step) + ": "));
    CHECK(has(result.text, "The first value that is not finite: the weight '"));
    CHECK(run.checkpoints().empty());
    CHECK(read_json(run / "run/failure.json")["step"] == c.step);
    CHECK_FALSE(fs::exists(run.path / "run/summary.json"));
  }
}

TEST_CASE("what is loaded with a NaN is refused by name, to train, to import, to evaluate and to generate") {
  const Run run("skipped_start");
  REQUIRE(run.train("--steps 2").code == 0);
  REQUIRE(run_zrt("checkpoint export " + (run / "run") + " --out " + (run / "plain")).code == 0);
  REQUIRE(run_zrt("checkpoint import " + (run / "plain") + " --out " + (run / "imported")).code == 0);
  spoil(run / "plain/model.safetensors", "transformer.h.1.ln_2.weight");
  const Result train = run.train("--resume " + (run / "plain"), "other");
  INFO(train.text);
  CHECK(train.code == 1);
  CHECK(has(train.text, "/plain: the weight 'h.1.ln_2.weight' of unit '"));
  CHECK(has(train.text, "is NaN at element 0"));
  CHECK(run.checkpoints("other").empty());

  const Result import = run_zrt("checkpoint import " + (run / "plain") + " --out " + (run / "again"));
  CHECK(import.code == 1);
  CHECK(has(import.text, "model.safetensors: tensor 'transformer.h.1.ln_2.weight' of type F32 is NaN at element 0"));

  const std::string step = run / "imported/checkpoints/step_0";
  for (const auto& entry : fs::directory_iterator(step))
    if (entry.path().extension() == ".safetensors" && entry.path().string().find("model-00001-of") != std::string::npos)
      spoil(entry.path().string(), "h.1.ln_2.weight");
  record_hashes(step);
  for (const std::string& command : {"generate " + (run / "imported") + " --tokenizer bytes",
                                     "eval " + (run / "imported") + " --data " + (run / "corpus/validation")}) {
    const Result result = run_zrt(command);
    INFO(command << "\n" << result.text);
    CHECK(result.code == 1);
    CHECK(has(result.text, "the weight 'h.1.ln_2.weight' of unit '"));
  }
}

TEST_CASE("a supervisor starts a run once more that fails by its numbers, and ends when it fails so again") {
  const Run run("skipped_launch");
  for (const std::string& more : {std::string(" --steps 30 --set run.skip_limit=3"),
                                  std::string(" --steps 60 --set fp16.enabled=true --set fp16.initial_scale_power=3 "
                                              "--set fp16.min_loss_scale=4")}) {
    INFO(more);
    fs::remove_all(run.path / "run");
    const Result result =
        run_zrt("launch " + (run / "c.json") + " --ranks 2 --delay 0.01 --out " + (run / "run") + diverging + more);
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(has(result.text, "failed twice in the same way at step "));
    CHECK(count(result.text, "zrt: error: step ") == 2);
    std::ifstream events(run.path / "run/events.jsonl");
    const std::string text{std::istreambuf_iterator<char>(events), {}};
    CHECK(count(text, R"("event":"start")") == 2);
  }
}

TEST_CASE(
    "a loss scale that cannot fall or never does, and updates that did not wait, name the value that is not finite") {
  const Run run("skipped_faults");
  struct Case {
    std::string more, says;
  };
  for (const auto& [more, says] :
       {Case{"--set fp16.enabled=true --set fp16.initial_scale_power=3 --set fp16.min_loss_scale=4",
             "the loss scale is at its minimum"},
        {"--set fp16.enabled=true --set fp16.loss_scale=128", "10 steps in a row were skipped"},
        {"--set memory.update_when=as_ready", "as_ready"}}) {
    INFO(more);
    fs::remove_all(run.path / "run");
    const Result result = run.train(diverging + " --steps 60 " + more);
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(has(result.text, says));
    if (has(more, "fp16")) CHECK(has(result.text, "fp16 has no such number"));
    CHECK(has(result.text, "The first value that is not finite: the "));
    CHECK(has(result.text, "' of unit '"));
  }
}

}  // namespace zrt::skipped_run_test
