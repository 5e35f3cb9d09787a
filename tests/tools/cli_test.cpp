// The program from outside: exit codes, help, and messages for bad input.
#include "program.h"

namespace zrt::cli_test {

using namespace zrt::testing;

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
  const std::string good = folder.config();
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
  folder.write("good.json", folder.config());
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
  folder.write("good.json", folder.config());
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

TEST_CASE("The setting that an error recommends fits, and sizes no machine has are refused by name") {
  const Folder folder("fit");
  build_data(folder);
  folder.write("good.json", folder.config());
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
  folder.write("bad.json", folder.config(", \"nonsense\": 1"));
  const Result result = run_zrt("launch " + (folder / "bad.json"));
  INFO(result.text);
  CHECK(result.code == 2);
  CHECK_FALSE(fs::exists(folder.path / "run"));
}

TEST_CASE("launch starts ranks through mpirun, restarts them and passes their exit code on") {
  const Folder folder("launch_mpi");
  build_data(folder);
  folder.write("good.json", folder.config());
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
