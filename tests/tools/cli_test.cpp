// The program from outside: exit codes and messages for bad input, and a whole small run.
#include "program.h"

namespace zrt::cli_test {

using namespace zrt::testing;

namespace {

std::string config(const Folder& folder, const std::string& more = "") {
  return folder.config(more);
}

}  // namespace

TEST_CASE("A command line that cannot be understood exits with 2 and says what is legal") {
  for (const char* arguments : {"",
                                "trian",
                                "train",
                                "train --ranks",
                                "train x.json --rank 2 --nonsense",
                                "data",
                                "launch",
                                "launch x.json --nonsense",
                                "launch x.json --max-restarts",
                                "data build x",
                                "bench",
                                "bench train --stages 0,7",
                                "bench train --set bf16.enabled=false",
                                "bench train --stages 0 --set zero_optimization.stage=1",
                                "bench save --stage 2 --set zero_optimization.stage=1",
                                "bench overlap --rounds 0",
                                "bench overlap --dtype fp8",
                                "bench overlap --set zero_optimization.stage=2",
                                "bench traffic",
                                "bench io",
                                "bench io --path . --block 1000",
                                "bench io --path . --depth 0",
                                "generate",
                                "eval"}) {
    const Result result = run_zrt(arguments);
    INFO("zrt " << arguments << "\n" << result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find("zrt: error: ") != std::string::npos);
  }
}

TEST_CASE("Help and version go to stdout with exit code 0") {
  for (const char* arguments : {"--help", "--version", "train --help", "data build --help", "eval --help",
                                "generate --help", "launch --help", "bench --help", "bench train --help"}) {
    const std::string all = run_zrt(arguments).text;
    INFO("zrt " << arguments << "\n" << all);
    CHECK(run_zrt(std::string(arguments) + " 2>/dev/null").code == 0);
    CHECK_FALSE(all.empty());
  }
}

TEST_CASE("Bad input is one paragraph that names the key or file and the value") {
  const Folder folder("bad");
  build_data(folder);
  struct Bad {
    std::string what, content, arguments;
    std::vector<std::string> expected;
    int code = 2;  // of what is wrong with the configuration itself
  };
  const std::string good = config(folder);
  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  const std::vector<Bad> cases{
      {"malformed", good.substr(0, good.size() / 2), "", {"bad.json"}},
      {"duplicate key",
       replaced("\"train_batch_size\": 4", "\"train_batch_size\": 4, \"train_batch_size\": 8"),
       "",
       {"train_batch_size"}},
      {"unknown key", replaced("\"stage\": 3", "\"stgae\": 3"), "", {"stgae", "stage"}},
      {"wrong type", replaced("\"stage\": 3", "\"stage\": \"three\""), "", {"stage", "three"}},
      {"stage out of range", replaced("\"stage\": 3", "\"stage\": 4"), "", {"stage", "4"}},
      {"contradicting batch triple", replaced("\"train_batch_size\": 4", "\"train_batch_size\": 5"), "", {"5", "2"}},
      {"heads not dividing", good, "--set model.heads=3 --set model.hidden=64", {"heads"}},
      {"small vocabulary",
       good,
       "--set model.preset=null --set model.layers=1 --set model.hidden=32 --set "
       "model.heads=2 --set model.sequence=16 --set model.vocab=100",
       {"vocab", "100", "257"}},
      {"missing dataset",
       good,
       "--set data.train=/nonexistent/corpus",
       {"data.train: /nonexistent/corpus.idx", "zrt data build --out /nonexistent/corpus"},
       1},
      {"no dataset", good, "--set data.train=null", {"data.train"}},
      {"budget", good, "--set memory.device_budget_bytes=100000", {"memory.device_budget_bytes", "100000"}, 1},
      {"unwritable folder", good, "--out /proc/nothing", {"/proc/nothing"}, 1},
      {"ranks", good, "--ranks 0", {"ranks", "0"}},
      {"refused", good, "--set fp16.enabled=true --set fp16.auto_cast=true", {"fp16.auto_cast"}},
  };
  for (const Bad& bad : cases) {
    folder.write("bad.json", bad.content);
    const Result result = run_zrt("train " + (folder / "bad.json") + " " + bad.arguments);
    INFO(bad.what << "\n" << result.text);
    CHECK(result.code == bad.code);
    CHECK(result.text.find("zrt: error: ") != std::string::npos);
    for (const std::string& expected : bad.expected) CHECK(result.text.find(expected) != std::string::npos);
  }
}

TEST_CASE("An option and a --set that contradict each other are refused with both named") {
  const Folder folder("contradict");
  folder.write("good.json", config(folder));
  const std::string good = folder / "good.json";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"bench train --dtype bf16 --set bf16.enabled=false", {"--dtype sets bf16.enabled = true", "--set sets"}},
      {"bench train --set bf16.enabled=false", {"--dtype (bf16 by default) sets bf16.enabled = true"}},
      {"bench offload --accumulation 2 --set gradient_accumulation_steps=4", {"--accumulation sets", "--set sets"}},
      {"train " + good + " --steps 5 --set run.steps=6", {"--steps sets run.steps = 5", "--set sets run.steps = 6"}},
      {"launch " + good + " --out a --set run.out=b", {"--out sets run.out = \"a\""}},
      {"plan " + good + " --device cpu --set run.device=cuda", {"--device sets run.device = \"cpu\""}},
      {"train " + good + " --steps 0", {"run.steps = 0 (--steps) is out of range"}}};
  for (const auto& [arguments, parts] : cases) {
    const Result result = run_zrt(arguments);
    INFO("zrt " << arguments << "\n" << result.text);
    CHECK(result.code == 2);
    for (const std::string& part : parts) CHECK(result.text.find(part) != std::string::npos);
  }
}

TEST_CASE("A dataset cut short at any of several places is refused by name") {
  const Folder folder("cut");
  build_data(folder);
  folder.write("good.json", config(folder));
  for (const char* name : {"corpus/train.bin", "corpus/train.idx"}) {
    const auto whole = fs::file_size(folder.path / name);
    const std::string kept = folder / "kept";
    fs::copy_file(folder.path / name, kept);
    for (const uintmax_t size : {uintmax_t{0}, uintmax_t{1}, uintmax_t{20}, whole / 2, whole - 1}) {
      if (size >= whole) continue;
      fs::resize_file(folder.path / name, size);
      const Result result = run_zrt("train " + (folder / "good.json"));
      INFO(name << " cut to " << size << "\n" << result.text);
      CHECK(result.code == 1);
      CHECK(result.text.find("corpus/train") != std::string::npos);
      fs::copy_file(kept, folder.path / name, fs::copy_options::overwrite_existing);
    }
    fs::remove(kept);
  }
}

TEST_CASE("A run leaves its files, and eval and generate read them") {
  const Folder folder("run");
  build_data(folder);
  folder.write("good.json", config(folder));
  const std::string preset = GENERATE("gpt2-tiny", "llama-tiny");
  const Result trained =
      run_zrt("train " + (folder / "good.json") + " --ranks 2 --set run.trace=true --set model.preset=" + preset);
  INFO(trained.text);
  REQUIRE(trained.code == 0);

  const auto resolved = read_json(folder / "run/config.resolved.json");
  CHECK(resolved["zero_optimization"]["stage"]["value"] == 3);
  CHECK(resolved["zero_optimization"]["stage"]["from"] == "file");
  CHECK(resolved["run"]["trace"]["from"] == "command line");
  CHECK(resolved["gradient_accumulation_steps"]["from"] == "inferred");
  CHECK(resolved["model"]["type"]["value"] == preset.substr(0, preset.find('-')));

  std::ifstream metrics(folder / "run/metrics.jsonl");
  int64_t steps = 0;
  for (std::string line; std::getline(metrics, line);) {
    const auto json = nlohmann::json::parse(line);
    CHECK(json["step"] == ++steps);
    for (const char* key : {"loss", "grad_norm", "lr", "loss_scale", "tokens", "step_seconds", "tokens_per_second",
                            "exposed_comm_seconds", "exposed_io_seconds"}) {
      CHECK(json.contains(key));
    }
  }
  CHECK(steps == 6);

  const auto memory = read_json(folder / "run/memory.json");
  REQUIRE(memory["ranks"].size() == 2);
  for (const auto& rank : memory["ranks"]) {
    const auto& device = rank["tiers"]["device"];
    CHECK(device["planned_peak_bytes"] == device["measured_peak_bytes"]);
    CHECK(device["categories"]["weights"] > 0);
  }
  CHECK(memory["processes"][0]["outside_arena_bytes"] > 0);

  const auto summary = read_json(folder / "run/summary.json");
  CHECK(summary["exit_reason"] == "finished");
  CHECK(summary["state_xxh3"].get<std::string>().size() == 16);
  CHECK(read_json(folder / "run/trace.json")["traceEvents"].size() > 100);

  const Result evaluated = run_zrt("eval " + (folder / "run") + " --json");
  INFO(evaluated.text);
  REQUIRE(evaluated.code == 0);
  CHECK(nlohmann::json::parse(evaluated.text)["loss"] == summary["validation"]["loss"]);

  const Result text = run_zrt("generate " + (folder / "run") + " --prompt li --tokens 10 --seed 3 --json");
  INFO(text.text);
  REQUIRE(text.code == 0);
  CHECK(run_zrt("generate " + (folder / "run") + " --prompt li --tokens 10 --seed 3 --json").text == text.text);
  CHECK(run_zrt("generate " + (folder / "run") + " --prompt li --tokens 10 --seed 4 --json").text != text.text);
  CHECK(run_zrt("generate " + (folder / "nowhere")).code == 1);
  fs::resize_file(folder.path / "run/checkpoints/step_6/shard-00001-model-00001-of-00003.safetensors", 5000);
  const Result cut = run_zrt("eval " + (folder / "run"));
  INFO(cut.text);
  CHECK(cut.code == 1);
  CHECK(cut.text.find("shard-00001-model-00001-of-00003.safetensors: has 5000 bytes") != std::string::npos);
}

TEST_CASE("A run is saved on its way, listed, inspected, verified, exported, imported and gone on with") {
  const Folder folder("checkpoints");
  build_data(folder);
  folder.write("good.json", config(folder));
  const std::string train = "train " + (folder / "good.json") + " --ranks 2 --set run.checkpoint_interval=2 ";
  const auto ok = [](const std::string& arguments) {
    const Result result = run_zrt(arguments);
    INFO("zrt " << arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
    return result.text;
  };
  ok(train + "--out " + (folder / "whole"));
  ok(train + "--steps 4 --out " + (folder / "run"));
  // A fresh run does not mix its checkpoints with others; --resume goes on, on other ranks too.
  CHECK(run_zrt(train + "--out " + (folder / "run")).text.find("--resume auto") != std::string::npos);
  ok(train + "--resume auto --out " + (folder / "run"));
  CHECK(read_json(folder / "run/summary.json")["state_xxh3"] == read_json(folder / "whole/summary.json")["state_xxh3"]);
  ok("train " + (folder / "good.json") + " --ranks 1 --steps 8 --resume " + (folder / "run") + " --out " +
     (folder / "other"));

  const auto list = nlohmann::json::parse(ok("checkpoint list " + (folder / "run") + " --json"));
  REQUIRE(list.size() == 2);
  CHECK(list[0]["step"] == 6);
  CHECK(list[1]["step"] == 4);
  const auto inspected = nlohmann::json::parse(ok("checkpoint inspect " + (folder / "run") + " --json"));
  CHECK(inspected["samples"] == 24);
  CHECK(inspected["tensors"].contains("exp_avg.wte.weight"));
  CHECK(ok("checkpoint verify " + (folder / "run")).find("step_4: whole") != std::string::npos);

  ok("checkpoint export " + (folder / "run") + " --out " + (folder / "plain"));
  CHECK(run_zrt("checkpoint export " + (folder / "run") + " --out " + (folder / "plain")).code == 1);
  const std::string importing = ok("checkpoint import " + (folder / "plain") + " --out " + (folder / "imported"));
  CHECK(importing.find(" MiB of host memory at once\n") != std::string::npos);
  const std::string data = " --json --data " + (folder / "corpus/validation");
  const double imported = nlohmann::json::parse(ok("eval " + (folder / "imported") + data))["loss"];
  CHECK(imported == Approx(nlohmann::json::parse(ok("eval " + (folder / "run/checkpoints/step_6") + data))["loss"]
                               .get<double>()));  // on other numbers of ranks
  // Weights alone start a new run at step 0; states of another optimizer are refused.
  ok(train + "--resume " + (folder / "imported") + " --out " + (folder / "tuned"));
  // The same without an import: the folder is read where it lies.
  for (const char* alone : {"false", "true"}) {
    const std::string straight = folder / (std::string("straight_") + alone);
    const std::string text =
        ok(train + "--resume " + (folder / "plain") + " --set run.load_module_only=" + alone + " --out " + straight);
    CHECK(text.find("starting with the weights of " + (folder / "plain") + "; to load them a rank holds at most 1.") !=
          std::string::npos);
    CHECK(read_json(straight + "/summary.json")["state_xxh3"] ==
          read_json(folder / "tuned/summary.json")["state_xxh3"]);
  }
  const Result larger = run_zrt(train + "--set model.layers=3 --set model.sequence=64 --resume " + (folder / "plain") +
                                " --out " + (folder / "larger"));
  CHECK(larger.code == 2);
  CHECK(larger.text.find("model.sequence is 64 but its config.json has 32") != std::string::npos);
  CHECK(larger.text.find("model.layers is 3 but its config.json has 2") != std::string::npos);
  fs::rename(folder.path / "plain/config.json", folder.path / "plain/config");
  CHECK(run_zrt(train + "--resume " + (folder / "plain") + " --out " + (folder / "none"))
            .text.find("plain: has no config.json") != std::string::npos);
  const Result other =
      run_zrt(train + "--set optimizer.type=Lion --resume " + (folder / "run") + " --out " + (folder / "lion"));
  CHECK(other.code == 2);
  CHECK(other.text.find("run.load_module_only") != std::string::npos);
  ok(train + "--set optimizer.type=Lion --set run.load_module_only=true --resume " + (folder / "run") + " --out " +
     (folder / "lion"));
  // Nor does a run start behind whole checkpoints of its folder, where it would be lost to the next --resume auto.
  const Result behind =
      run_zrt(train + "--resume " + (folder / "run/checkpoints/step_4") + " --out " + (folder / "run"));
  CHECK(behind.code == 2);
  CHECK(behind.text.find("step 6") != std::string::npos);
  const Result launched = run_zrt("launch " + (folder / "good.json") + " --set run.resume=" + (folder / "run") +
                                  " --out " + (folder / "launched"));
  CHECK(launched.code == 2);
  CHECK(launched.text.find("run.resume") != std::string::npos);
  CHECK(run_zrt(train + "--set run.seed=77 --steps 8 --resume " + (folder / "run") + " --out " + (folder / "seed"))
            .text.find("run.seed") != std::string::npos);
  ok("checkpoint export " + (folder / "run") + " --out " + (folder / "slash/"));
  for (const char* arguments : {"checkpoint", "checkpoint lst x", "checkpoint export x", "checkpoint import x"}) {
    CHECK(run_zrt(arguments).code == 2);
  }
}

TEST_CASE("bf16 gradients travel in fp32 when asked, at every stage, with the same bits") {
  const Folder folder("wire");
  build_data(folder);
  folder.write("good.json", config(folder));
  std::string expected;
  for (const char* stage : {"0", "1", "2", "3"}) {
    const Result result = run_zrt("train " + (folder / "good.json") +
                                  " --ranks 2 --set bf16.enabled=true --set communication_data_type=fp32"
                                  " --set zero_optimization.stage=" +
                                  stage + " --out " + (folder / stage));
    INFO(stage << "\n" << result.text);
    REQUIRE(result.code == 0);
    const std::string state = read_json(folder / (std::string(stage) + "/summary.json"))["state_xxh3"];
    if (expected.empty()) expected = state;
    CHECK(state == expected);
  }
}

TEST_CASE("The setting that an error recommends fits, and sizes no machine has are refused by name") {
  const Folder folder("fit");
  build_data(folder);
  folder.write("good.json", config(folder));
  const std::string train = "train " + (folder / "good.json") + " --set zero_optimization.stage=0 --ranks 2";
  const std::string budget =
      " --set memory.placement=device --set memory.recompute=none --set memory.device_budget_bytes=2000000";
  const Result refused = run_zrt(train + budget);
  INFO(refused.text);
  REQUIRE(refused.code == 1);
  // The first line after "What fits" holds options to add.
  const size_t title = refused.text.find("What fits");
  REQUIRE(title != std::string::npos);
  const size_t at = refused.text.find('\n', title) + 1;
  const std::string advice = refused.text.substr(at, refused.text.find('\n', at) - at);
  REQUIRE(advice.find("--set ") != std::string::npos);
  const Result followed = run_zrt(train + budget + " " + advice);
  INFO(followed.text);
  CHECK(followed.code == 0);
  for (const char* setting : {"gradient_accumulation_steps=1000000000", "train_micro_batch_size_per_gpu=99999999999",
                              "run.steps=1000000000000", "model.layers=100000"}) {
    const std::string key = std::string(setting).substr(0, std::string(setting).find('='));
    const Result result = run_zrt("train " + (folder / "good.json") + " --set train_batch_size=null --set " + setting);
    INFO(setting << "\n" << result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find(key) != std::string::npos);
  }
  CHECK(run_zrt("train " + (folder / "good.json") + " --ranks 4000 --set train_batch_size=null").code == 2);
}

TEST_CASE("launch refuses a bad configuration before it starts anything") {
  const Folder folder("launch_bad");
  folder.write("bad.json", config(folder, ", \"nonsense\": 1"));
  const Result result = run_zrt("launch " + (folder / "bad.json"));
  INFO(result.text);
  CHECK(result.code == 2);
  CHECK_FALSE(fs::exists(folder.path / "run"));
}

TEST_CASE("launch starts ranks through mpirun, restarts them and passes their exit code on") {
  const Folder folder("launch_mpi");
  build_data(folder);
  folder.write("good.json", config(folder));
  // A rank began, and so it is worth another start.
  folder.write("mpirun", "#!/bin/sh\necho \"$@\" >>" + (folder / "calls") + "\ntouch " + (folder / "run/heartbeat") +
                             "\nexit 5\n");
  fs::permissions(folder.path / "mpirun", fs::perms::owner_all);
  const Result result =
      run_zrt("launch " + (folder / "good.json") + " --ranks 2 --mpi --mpirun '" + (folder / "mpirun") +
              " --oversubscribe' --max-restarts 1 --delay 0 --set run.seed=4 --steps 3 -- --more");
  INFO(result.text);
  CHECK(result.code == 5);
  std::ifstream calls(folder / "calls");
  int count = 0;
  for (std::string call; std::getline(calls, call); ++count) {
    CHECK(call == "--oversubscribe -n 2 " + fs::canonical(std::string(ZRT_BINARY_DIR) + "/zrt").string() + " train " +
                      (folder / "good.json") + " --out " + (folder / "run") +
                      " --resume auto --launched --set run.seed=4 --steps=3 --more");
  }
  CHECK(count == 2);
  CHECK(result.text.find("goodput") != std::string::npos);
}

TEST_CASE("A calibration writes a cluster, with which a step is predicted and measured") {
  const Folder folder("calibrate");
  const std::string cluster = folder / "mine/cluster.json";
  const Result calibrated =
      run_zrt("bench calibrate --quick --ranks 2 --out " + cluster + " --path " + (folder / "drive"));
  INFO(calibrated.text);
  REQUIRE(calibrated.code == 0);
  CHECK(calibrated.text.find("2 ranks per host") != std::string::npos);
  const auto measured = read_json(cluster);
  CHECK(measured["inside_host"]["bytes_per_second"]["value"] > 0);
  CHECK(measured["disk"]["read_bytes_per_second"]["value"] > 0);
  CHECK(measured["disk"]["read_bytes_per_second"]["source"].get<std::string>().find("drive") != std::string::npos);
  CHECK(measured["overlap"]["host_lane"]["host"]["value"] <= 1);
  CHECK(std::filesystem::is_empty(folder / "drive"));
  folder.write("config.json",
               R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": true},
                   "zero_optimization": {"stage": 3}, "model": {"preset": "gpt2-tiny"}})");
  const Result predicted = run_zrt("bench predict " + (folder / "config.json") + " --cluster " + cluster +
                                   " --ranks 2 --rounds 2 --set model.sequence=16 --json");
  INFO(predicted.text);
  REQUIRE(predicted.code == 0);
  const auto json = nlohmann::json::parse(predicted.text);
  CHECK(json["predicted_seconds"] > 0);
  CHECK(json["measured_seconds"]["median"] > 0);
  CHECK(json["error"].get<double>() ==
        Approx(json["predicted_seconds"].get<double>() / json["measured_seconds"]["median"].get<double>() - 1));
}

TEST_CASE("Bench calibrate and predict say what is missing or not a cluster") {
  const Folder folder("predict");
  folder.write("config.json", R"({"train_micro_batch_size_per_gpu": 1, "model": {"preset": "gpt2-tiny"}})");
  for (const auto& [arguments, expected] : std::vector<std::pair<std::string, std::string>>{
           {"bench calibrate", "--out is missing"},
           {"bench calibrate --quick --threads 0 --out " + (folder / "x.json"), "--threads"},
           {"bench predict --cluster dgx-a100", "config is missing"},
           {"bench predict " + (folder / "config.json"), "--cluster is missing"},
           {"bench predict " + (folder / "config.json") + " --cluster dgx-a1000", "did you mean 'dgx-a100'"},
           {"bench predict " + (folder / "config.json") + " --cluster " + (folder / "config.json"), "has no key"}}) {
    const Result result = run_zrt(arguments);
    INFO(arguments << "\n" << result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find(expected) != std::string::npos);
  }
}

TEST_CASE("Every bench prints JSON") {
  for (const char* arguments : {"bench train --model gpt2-tiny --stages 0,3 --rounds 1",
                                "bench train --model llama-tiny --stages 3 --rounds 1 --dtype fp32",
                                "bench adam --parameters 65536 --rounds 1", "bench comm --bytes 65536 --rounds 1",
                                "bench overlap --model gpt2-tiny --accumulation 2 --dtype fp32 --rounds 1",
                                "bench offload --model gpt2-tiny --budgets 2 --rounds 1 --steps 1"}) {
    const Result result = run_zrt(std::string(arguments) + " --json");
    INFO(arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
    CHECK(nlohmann::json::accept(result.text));
  }
}

TEST_CASE("The GEMM ceiling is that of the fastest library at each product and names all at hand") {
  const std::string dtype = GENERATE("fp32", "bf16");
  const Result result =
      run_zrt("bench train --model gpt2-tiny --ranks 2 --stages 0 --rounds 1 --micro-batch 1 --json --dtype " + dtype);
  INFO(result.text);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.text);
  CHECK(json["fma_peak_flops_per_second"]["median"] > 0);
  CHECK(json["stages"][0]["of_fp32_gemm_ceiling"] > 0);
  for (const char* part : {"gemm_ceiling", "fp32_gemm_ceiling"}) {
    const auto& ceiling = json[part];
    CHECK(ceiling["libraries"][0]["name"] == "zrt");
    CHECK(ceiling["libraries"][1]["name"].get<std::string>().find("oneDNN ") == 0);
    int fastest = 0;
    for (const auto& library : ceiling["libraries"]) {
      fastest += library["fastest_of"].get<int>();
      if (!library["flops_per_second"].is_null() && (dtype == "bf16" || part == std::string("gemm_ceiling"))) {
        CHECK(library["flops_per_second"] <= ceiling["flops_per_second"].get<double>() * 1.000001);
      }
    }
    CHECK(fastest == ceiling["products"]);
  }
}

TEST_CASE("Steps of a run whose states lie on the host tell what they move, and memory as planned") {
  const Folder folder("bench_placed");
  const Result result = run_zrt(
      "bench train --model gpt2-tiny --ranks 1 --stages 1 --rounds 1 --micro-batch 1 --json --set memory.nvme_path=" +
      folder.path.string() + " --set memory.placement=nvme");
  INFO(result.text);
  REQUIRE(result.code == 0);
  const auto stage = nlohmann::json::parse(result.text)["stages"][0];
  for (const char* way : {"to_device", "to_host", "read", "written"}) CHECK(stage["moved_bytes"][way] > 0);
  for (const char* way : {"to_device", "to_host"}) CHECK(stage["copy_bytes_per_second"][way] > 0);
  CHECK(stage["exposed_io_seconds"] > 0);
  for (const char* tier : {"device", "host", "nvme"}) {
    CHECK(stage["tiers"][tier]["planned_bytes"] > 0);
    CHECK(stage["tiers"][tier]["measured_bytes"] == stage["tiers"][tier]["planned_bytes"]);
  }
}

TEST_CASE("The computation of a step is measured beside traffic at the step's pace, which ends with the measurement") {
  const Folder folder("traffic");
  const std::string pace = folder / "pace", zrt = std::string(ZRT_BINARY_DIR) + "/zrt ";
  const Result result = run_command(
      "timeout 300 " + zrt + "bench traffic --ranks 2 --pace " + pace + " & timeout 300 " + zrt +
      "bench overlap --ranks 2 --model gpt2-tiny --layers 3 --rounds 2 --json " + "--traffic " + pace + " && wait $!");
  INFO(result.text);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.text);
  CHECK(json["layers"] == 3);
  CHECK(json["beside_traffic"] == true);
  for (const char* part :
       {"communication", "computation", "computation_beside_traffic", "step_with_overlap", "step_without_overlap"}) {
    CHECK(json[part]["seconds"]["median"] > 0);
    CHECK(json[part]["cpu_seconds"]["low"] <= json[part]["cpu_seconds"]["high"]);
  }
  CHECK(json["step_bytes_per_rank"] > 0);
  CHECK(json["traffic_asked_bytes_per_second"]["low"] > 0);
}

TEST_CASE("A measurement beside traffic that does not flow is refused") {
  const Folder folder("no_traffic");
  const Result result = run_zrt("bench overlap --ranks 2 --model gpt2-tiny --rounds 1 --traffic " + (folder / "pace"));
  INFO(result.text);
  CHECK(result.code == 1);
  CHECK(result.text.find("no traffic flows; start `zrt bench traffic --pace ") != std::string::npos);
}

TEST_CASE("Bench io measures a folder's disk and leaves nothing there") {
  const Folder folder("io");
  const std::string path = folder / "disk";
  fs::create_directories(path);
  const std::string sizes = "bench io --bytes 3145728 --extent 2097152 --block 65536 --rounds 1 --json --path ";
  const Result result = run_command(std::string(ZRT_BINARY_DIR) + "/zrt " + sizes + path + " 2>/dev/null");
  INFO(result.text);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.text);
  REQUIRE(json["rows"].size() == 2);
  for (const auto& row : json["rows"]) CHECK(row["bytes_per_second"]["median"] > 0);
  CHECK(fs::is_empty(path));
  const Result missing = run_zrt(sizes + path + "/missing");
  CHECK(missing.code == 1);
  CHECK(missing.text.find("/missing/rank-0.zrt: cannot be created: No such file") != std::string::npos);
  const Result without =
      run_command("PATH=/nowhere " + std::string(ZRT_BINARY_DIR) + "/zrt " + sizes + path + " --fio");
  INFO(without.text);
  CHECK(without.code == 1);
  CHECK(without.text.find("fio cannot be run") != std::string::npos);
  CHECK(fs::is_empty(path));
}

TEST_CASE("Names with bytes that a terminal obeys are printed with these escaped, whatever the command") {
  const Folder folder("names");
  build_data(folder);
  folder.write("c.json", folder.config());
  const std::string name = folder / "r\x1b[31mun", quoted = " '" + name + "'";
  const auto run = [&](const std::string& command, int code, const std::string& shown = "r\\x1b[31mun") {
    const Result result = run_zrt(command);
    INFO(command << "\n" << result.text);
    CHECK(result.code == code);
    CHECK(result.text.find('\x1b') == std::string::npos);
    CHECK(result.text.find('\xff') == std::string::npos);
    CHECK(result.text.find(shown) != std::string::npos);
  };
  const std::string train = "train " + (folder / "c.json") + " --set data.validation=null --out" + quoted;
  run(train + " --steps 2", 0);
  run(train + " --steps 2", 2);  // it holds checkpoints
  run(train + " --steps 3 --resume auto", 0);
  const std::string other = folder / "r\x1b[31mun\xff";
  fs::rename(name, other);
  const std::string moved = " '" + other + "'", shown = "r\\x1b[31mun\\xff";
  for (const char* verb : {"list", "inspect", "verify"}) run(std::string("checkpoint ") + verb + moved, 0, shown);
  run("report" + moved, 0, shown);
  run("checkpoint list" + moved + "/none", 1, shown);
  fs::resize_file(fs::path(other) / "checkpoints/step_2/manifest.json", 10);
  run("checkpoint list" + moved, 0, shown);
  run("checkpoint verify" + moved, 1, shown);
  const Result json = run_command(std::string(ZRT_BINARY_DIR) + "/zrt checkpoint list --json" + moved + " 2>/dev/null");
  CHECK(nlohmann::json::parse(json.text).size() == 2);
}

}  // namespace zrt::cli_test
