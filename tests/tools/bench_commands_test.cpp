// zrt bench: what measures the machine and predicts a step says it in text and JSON, and refuses what it cannot
// measure.
#include "program.h"

namespace zrt::bench_commands_test {

using namespace zrt::testing;

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

TEST_CASE("A calibration of a GPU measures it and what lies behind it, or says that there is none") {
  const Folder folder("calibrate_gpu");
  const std::string cluster = folder / "gpu.json";
  const Result calibrated = run_zrt("bench calibrate --quick --device cuda --ranks 1 --out " + cluster);
  INFO(calibrated.text);
  if (ZRT_EMULATED) REQUIRE(calibrated.code == 0);
  if (calibrated.code != 0) {
    CHECK(calibrated.code == 2);
    CHECK(calibrated.text.find("--device cuda") != std::string::npos);
    CHECK(!std::filesystem::exists(cluster));
    return;
  }
  const auto measured = read_json(cluster);
  CHECK(measured["memory"]["device_bytes"]["source"].get<std::string>().find("CUDA") != std::string::npos);
  CHECK(measured["memory"]["reserved_bytes"].contains("context"));
  CHECK(measured["host_link"]["bytes_per_second"]["source"].get<std::string>().find("pinned") != std::string::npos);
  CHECK(measured["compute"]["bf16"]["peak_flops_per_second"]["value"] > 0);
  CHECK(!measured["overlap"].contains("host_lane"));  // an update on the host takes nothing from a GPU
  folder.write("config.json",
               R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "model": {"preset": "gpt2-tiny"},
                   "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}})");
  const Result planned = run_zrt("plan " + (folder / "config.json") + " --cluster " + cluster + " --json");
  INFO(planned.text);
  CHECK(planned.code == 0);
  CHECK(nlohmann::json::parse(planned.text)["seconds_per_step"] > 0);
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
    // Every product's own rate, those that take longest first, adds up to the ceiling.
    double flops = 0, seconds = 0, shares = 0, last = 1;
    for (const auto& rate : ceiling["rates"]) {
      CHECK(rate["flops_per_second"].size() == ceiling["libraries"].size());
      const double each = 2.0 * rate["M"].get<double>() * rate["N"].get<double>() * rate["K"].get<double>();
      double best = 0;
      for (const double speed : rate["flops_per_second"]) best = std::max(best, speed);
      flops += each * rate["times"].get<double>(), seconds += each * rate["times"].get<double>() / best;
      CHECK(rate["share"] <= last);
      last = rate["share"], shares += last;
    }
    CHECK(static_cast<int>(ceiling["rates"].size()) == ceiling["products"].get<int>());
    CHECK(flops / seconds == Approx(ceiling["flops_per_second"].get<double>()).epsilon(1e-6));
    CHECK(shares == Approx(1).epsilon(1e-6));
  }
}

TEST_CASE("PyTorch's products count for the ceiling where a Python is named, and a program that has none is refused") {
  const Folder folder("bench_python");
  // Plays a Python whose every product takes next to nothing: -c SCRIPT TASK ANSWER.
  folder.write("python", R"sh(#!/bin/sh
seconds=$(grep -o '"M"' "$3" | sed 's/.*/1e-9/' | paste -sd,)
printf '{"name": "PyTorch 9, played", "seconds": [%s]}' "$seconds" >"$4"
)sh");
  std::filesystem::permissions(folder.path / "python", std::filesystem::perms::owner_all);
  const std::string bench =
      "bench train --model gpt2-tiny --ranks 1 --stages 0 --rounds 1 --micro-batch 1 --dtype fp32";
  const Result result = run_zrt(bench + " --json --python " + (folder.path / "python").string());
  INFO(result.text);
  REQUIRE(result.code == 0);
  const auto ceiling = nlohmann::json::parse(result.text)["gemm_ceiling"];
  CHECK(ceiling["libraries"].back()["name"] == "PyTorch 9, played");
  CHECK(ceiling["libraries"].back()["fastest_of"] == ceiling["products"]);
  CHECK(ceiling["flops_per_second"] == ceiling["libraries"].back()["flops_per_second"]);
  const Result missing = run_zrt(bench + " --python " + (folder.path / "nothing").string());
  CHECK(missing.code != 0);
  CHECK(missing.text.find("cannot be run") != std::string::npos);
  const Result failing = run_zrt(bench + " --python false");
  CHECK(failing.code != 0);
  CHECK(failing.text.find("It must be a Python with PyTorch") != std::string::npos);
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

}  // namespace zrt::bench_commands_test
