// `zrt train` with a pipeline, and all that reads what it leaves: the same bits as without one, memory as planned.
#include "program.h"

namespace zrt::pipeline_train_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

// Four microbatches of two data-parallel ranks, whatever the number of stages. The model is not tied, so that its bits
// depend on nothing else.
struct Run : Folder {
  explicit Run(const std::string& name) : Folder(name) {
    build_data(*this);
    write("c.json", R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}, "parallel": {"reduce_every": 2},
  "model": {"preset": "llama-tiny", "layers": 4, "tied": false}, "data": {"train": ")" +
                        (*this / "corpus/train") + R"(", "validation": ")" + (*this / "corpus/validation") +
                        R"("}, "run": {"steps": 4, "log_samples": true, "eval_batches": 2}})");
  }
  std::string train(const std::string& out, int stages, const std::string& more = "") const {
    return "train " + (*this / "c.json") + " --ranks " + std::to_string(2 * stages) + " --out " + (*this / out) +
           " --set parallel.pipeline=" + std::to_string(stages) + " " + more;
  }
  json summary(const std::string& out) const { return read_json(*this / (out + "/summary.json")); }
};

void require_run(const std::string& arguments) {
  const Result result = run_zrt(arguments);
  INFO(arguments << "\n" << result.text);
  REQUIRE(result.code == 0);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a run has the same bits whatever the number of stages, schedule, partition, ZeRO stage and placement") {
  const Run run("pipeline_bits");
  require_run(run.train("plain", 1));
  const json plain = run.summary("plain");
  struct Case {
    int stages;
    const char* more;
  };
  for (const Case& c : {Case{2, "--set zero_optimization.stage=1"},
                        {3, "--set parallel.schedule=gpipe --set zero_optimization.stage=2"},
                        {4, "--set zero_optimization.stage=3 --set run.stress_seed=3"},
                        {2, "--set parallel.virtual_pipeline=2 --set zero_optimization.stage=3"},
                        {3, "--set parallel.virtual_pipeline=2 --set parallel.microbatch_group=4"},
                        {2, "--set parallel.partition=[1,5] --set memory.recompute=full"},
                        {2,
                         "--set parallel.partition=[1,5] --set zero_optimization.stage=3 --set "
                         "zero_optimization.stage3_param_persistence_threshold=1000 --set parallel.gathered_for=run"},
                        {2,
                         "--set parallel.partition=parameters --set zero_optimization.stage=2 --set "
                         "memory.placement=host"},
                        {2,
                         "--set parallel.partition=uniform --set zero_optimization.stage=1 --set "
                         "zero_optimization.offload_optimizer.device=cpu --set memory.recompute=[0,3]"}}) {
    INFO(c.stages << " stages " << c.more);
    fs::remove_all(run.path / "run");
    require_run(run.train("run", c.stages, c.more));
    const json summary = run.summary("run");
    CHECK(summary["state_xxh3"] == plain["state_xxh3"]);
    CHECK(summary["final_loss"] == plain["final_loss"]);
    CHECK(summary["validation"] == plain["validation"]);
    const json memory = read_json(run / "run/memory.json");
    REQUIRE(memory["ranks"].size() == static_cast<size_t>(2 * c.stages));
    for (const json& rank : memory["ranks"]) {
      CHECK(rank["stage"] == rank["rank"].get<int>() / 2);
      for (const auto& [tier, own] : rank["tiers"].items()) {
        INFO(tier << " of " << rank["rank"]);
        CHECK(own["planned_peak_bytes"] == (own["planned_peak_bytes"] == 0 ? json(0) : own["measured_peak_bytes"]));
      }
    }
    // Samples are told of once, by the ranks of the first stage.
    std::ifstream a(run.path / "plain/samples.jsonl"), b(run.path / "run/samples.jsonl");
    for (std::string plain_line, line; std::getline(a, plain_line);) {
      REQUIRE(std::getline(b, line));
      const json theirs = json::parse(plain_line)["ranks"], ours = json::parse(line)["ranks"];
      for (size_t r = 0; r < ours.size(); ++r) CHECK(ours[r] == (r < 2 ? theirs[r] : json::array()));
    }
  }
}

TEST_CASE("a run goes on from its checkpoint with more stages or fewer, and ends with the same bits") {
  const Run run("pipeline_resume");
  const std::string stage = " --set zero_optimization.stage=";
  require_run(run.train("whole", 1));
  int number = 0;
  for (const auto& [before, after] : {std::pair{1, 3}, {3, 2}, {2, 1}}) {
    INFO(before << " stages, then " << after);
    const std::string out = "run" + std::to_string(number++);
    require_run(run.train(out, before, "--set run.checkpoint_interval=2" + stage + std::to_string(before)));
    fs::remove_all(run.path / out / "checkpoints/step_4");
    require_run(run.train(out, after, "--resume auto" + stage + std::to_string(after)));
    CHECK(run.summary(out)["state_xxh3"] == run.summary("whole")["state_xxh3"]);
  }
}

TEST_CASE("text is generated from a run of several stages, which is evaluated on its mesh or on one rank") {
  const Run run("pipeline_after");
  require_run(run.train("plain", 1));
  require_run(run.train("staged", 2,
                        "--set zero_optimization.stage=3 --set parallel.virtual_pipeline=2 --set "
                        "zero_optimization.zero_hpz_partition_size=2"));
  const auto of = [&](const std::string& command, const std::string& out, const std::string& more) {
    const Result result =
        run_command(std::string(ZRT_BINARY_DIR) + "/zrt " + command + " " + (run / out) + " " + more + " 2>/dev/null");
    INFO(command << "\n" << result.text);
    CHECK(result.code == 0);
    return result.text;
  };
  const std::string prompt = "--prompt line --tokens 20 --temperature 0";
  CHECK(of("generate", "staged", prompt) == of("generate", "plain", prompt));
  const json one = json::parse(of("eval", "plain", "--json"));
  CHECK(json::parse(of("eval", "staged", "--json")) == one);
  // The values that were inferred for the run are inferred anew.
  CHECK(json::parse(of("eval", "staged", "--json --set parallel.virtual_pipeline=1")) == one);
  const json alone = json::parse(of("eval", "staged", "--json --ranks 1"));
  CHECK(alone["tokens"] == one["tokens"]);
  CHECK(std::abs(alone["loss"].get<double>() - one["loss"].get<double>()) < 1e-6);
}

TEST_CASE("weights go from several stages to a Hugging Face folder and from there onto other meshes") {
  const Run run("pipeline_export");
  require_run(run.train("plain", 1));
  require_run(run.train("staged", 3, "--set zero_optimization.stage=2"));
  for (const std::string out : {"plain", "staged"}) {
    require_run("checkpoint export " + (run / (out + "/checkpoints/step_4")) + " --out " + (run / (out + "_hf")));
  }
  CHECK(run_command("diff -r " + (run / "plain_hf") + " " + (run / "staged_hf")).text.empty());
  for (const int stages : {1, 2, 4}) {
    require_run(run.train("again" + std::to_string(stages), stages,
                          "--resume " + (run / "staged_hf") + " --set zero_optimization.stage=3"));
    CHECK(run.summary("again" + std::to_string(stages))["state_xxh3"] == run.summary("again1")["state_xxh3"]);
  }
}

TEST_CASE("a pipeline that cannot be is refused with what would be legal") {
  const Run run("pipeline_refused");
  struct Bad {
    std::string arguments, expected;
  };
  const std::string train = "train " + (run / "c.json") + " --out " + (run / "run");
  for (const Bad& bad : {
           Bad{" --ranks 6 --set parallel.pipeline=4", "nearest that the ranks fit: parallel.pipeline 3 and 6"},
           Bad{" --ranks 6 --set parallel.pipeline=4", "Start with 4 or 8 ranks"},
           Bad{" --ranks 14 --set parallel.pipeline=7", "cannot be cut into 7 parts"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set parallel.partition=[1,2]",
               "counts 3 blocks but the model has 6"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set parallel.partition=[6]",
               "a number for each of the 2 chunks"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set parallel.virtual_pipeline=2 --set parallel.schedule=zb-h1",
               "one chunk"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set parallel.virtual_pipeline=2 --set parallel.schedule=gpipe",
               "interleaved"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set parallel.microbatch_group=2", "interleaved"},
           Bad{" --ranks 6 --set parallel.pipeline=3 --set parallel.virtual_pipeline=2", "groups of 3"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set memory.microbatch_order=layer_major", "parallel.schedule"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set pipeline.stages=4", "contradicts"},
           Bad{" --ranks 4 --set parallel.pipeline=2 --set zero_optimization.mics_shard_size=4", "must divide the 2"},
           Bad{" --ranks 4 --set parallel.num_layers_per_virtual_pipeline_stage=1", "parallel.virtual_pipeline"},
       }) {
    const Result result = run_zrt(train + bad.arguments);
    INFO(bad.arguments << "\n" << result.text);
    CHECK(result.code == 2);
    CHECK(has(result.text, bad.expected));
  }
  const Result warned = run_zrt("plan " + (run / "c.json") + " --ranks 2 --set parallel.schedule=gpipe");
  CHECK(warned.code == 0);
  CHECK(has(warned.text, "parallel.schedule = \"gpipe\" (--set parallel.schedule) has no effect"));
}

TEST_CASE("the plan shows the stages, and other tools' names mean the same") {
  const Run run("pipeline_plan");
  const std::string plan = "plan " + (run / "c.json") + " --ranks 4 --cluster dgx-a100 ";
  const auto json_of = [&](const std::string& set) {
    const Result result = run_command(std::string(ZRT_BINARY_DIR) + "/zrt " + plan + set + " --json 2>/dev/null");
    INFO(result.text);
    REQUIRE(result.code == 0);
    return json::parse(result.text);
  };
  const json own = json_of("--set parallel.pipeline=2 --set parallel.partition=uniform");
  CHECK(own["pipeline"]["schedule"] == "1f1b");
  REQUIRE(own["pipeline"]["stages"].size() == 2);
  CHECK(own["pipeline"]["stages"][0]["blocks"] == json::array({0, 1, 2}));
  CHECK(own["pipeline"]["stages"][1]["blocks"] == json::array({3, 4, 5}));
  CHECK(own["pipeline"]["stages"][0]["parameters"].get<int64_t>() +
            own["pipeline"]["stages"][1]["parameters"].get<int64_t>() ==
        own["parameters"].get<int64_t>());
  CHECK(own["pipeline"]["stages"][0]["idle_share"].get<double>() > 0.1);
  REQUIRE(own["ranks"].size() == 4);
  CHECK(own["ranks"][1]["stage"] == 0);
  CHECK(own["ranks"][2]["stage"] == 1);
  CHECK(json_of("--set parallel.pipeline_model_parallel_size=2 --set parallel.partition=uniform") == own);
  CHECK(json_of("--set pipeline.stages=2 --set pipeline.partition=uniform") == own);
  const Result text = run_zrt(plan + "--set parallel.pipeline=2 --set parallel.virtual_pipeline=3");
  INFO(text.text);
  CHECK(has(text.text, "2 stages with 3 chunks each in the schedule interleaved × 2 ranks"));
  CHECK(has(text.text, "  2–3 "));
  CHECK(has(text.text, " %  layers 0, 2, head"));
  const Result told = run_zrt(plan + "--set parallel.pipeline=2 --stage 1");
  INFO(told.text);
  CHECK(has(told.text, "stage 1, ranks 2–3, all alike:"));
  CHECK(!has(told.text, "stage 0, ranks"));
  const Result wrong = run_zrt(plan + "--set parallel.pipeline=2 --stage 2");
  CHECK(wrong.code == 2);
  CHECK(has(wrong.text, "--stage is '2'; legal is all, or a stage of the pipeline: 0 to 1"));
  require_run(plan + "--set parallel.pipeline=2 --draw " + (run / "plan.html"));
  std::ifstream page(run.path / "plan.html");
  std::stringstream all;
  all << page.rdbuf();
  CHECK(has(all.str(), "Stage 1, ranks 2 to 3"));
}

}  // namespace zrt::pipeline_train_test
