// `zrt plan` from outside: exit codes, the keys of its JSON, and that it needs neither data nor ranks.
#include <fmt/format.h>

#include "program.h"

namespace zrt::plan_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

// A dataset that is not there: planning must not look.
std::string config(const std::string& more = "") {
  return R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
  "zero_optimization": {"stage": 1}, "optimizer": {"type": "AdamW"}, "model": {"preset": "gpt2-10m"},
  "data": {"train": "/nonexistent/train", "validation": "/nonexistent/validation"}, "run": {"checkpoint_interval": 3})" +
         more + "}";
}

Result plan(const Folder& folder, const std::string& arguments) {
  folder.write("plan.json", config());
  return run_zrt("plan " + (folder / "plan.json") + " " + arguments);
}

// Types: integer, number, text, boolean; "?" in front allows null; a list holds items like its only one; an object with
// the key "*" holds any number of values like it.
std::string first_difference(const json& value, const json& schema, const std::string& path) {
  if (schema.is_string()) {
    std::string type = schema.get<std::string>();
    if (type[0] == '?') {
      if (value.is_null()) return "";
      type = type.substr(1);
    }
    const bool right = type == "integer"   ? value.is_number_unsigned()
                       : type == "number"  ? value.is_number()
                       : type == "text"    ? value.is_string()
                       : type == "boolean" ? value.is_boolean()
                       : type == "value"   ? value.is_primitive()
                                           : value.is_null();
    return right ? "" : path + " is no " + type + ": " + value.dump();
  }
  if (schema.is_array()) {
    if (!value.is_array()) return path + " is no list";
    for (size_t i = 0; !schema.empty() && i < value.size(); ++i) {
      const std::string found = first_difference(value[i], schema[0], path + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
    return schema.empty() && !value.empty() ? path + " is not empty" : "";
  }
  if (!value.is_object()) return path + " is no object";
  for (const auto& [key, inner] : schema.items()) {
    if (key != "*" && !value.contains(key)) return path + "." + key + " is missing";
  }
  for (const auto& [key, inner] : value.items()) {
    const auto known = schema.find(schema.contains("*") ? "*" : key);
    if (known == schema.end()) return path + "." + key + " is not documented";
    const std::string found = first_difference(inner, *known, path + "." + key);
    if (!found.empty()) return found;
  }
  return "";
}

// Returns what docs/plan.md says.
json schema() {
  json categories;
  for (const char* name : {"weights", "grads", "master", "moment1", "moment2", "gathered", "activations", "recompute",
                           "comm", "staging", "workspace"}) {
    categories[name] = "integer";
  }
  const json used{
      {"planned_peak_bytes", "integer"}, {"measured_peak_bytes", "null"}, {"peak_op", "text"}, {"peak_phase", "text"},
      {"live_peak_bytes", "integer"},    {"categories", categories}};
  const json unused{{"planned_peak_bytes", "integer"}, {"measured_peak_bytes", "null"}};
  const json bytes{{"device", "integer"}, {"host", "integer"}, {"nvme", "integer"}};
  const json limits{{"device", "?integer"}, {"host", "?integer"}, {"nvme", "?integer"}};
  return {
      {"ranks",
       {{{"rank", "integer"},
         {"last_rank", "integer"},
         {"stage", "integer"},
         {"tiers", {{"device", used}, {"host", used}, {"nvme", unused}}},
         {"homes", {{"weights", bytes}, {"grads", bytes}, {"master", bytes}, {"moment1", bytes}, {"moment2", bytes}}},
         {"model_state_bytes", "integer"},
         {"packing_overhead", "number"},
         {"phases", {{"*", {{"live_peak_bytes", "integer"}, {"peak_op", "text"}}}}}}}},
      {"processes", json::array()},
      {"parameters", "integer"},
      {"active_parameters", "integer"},
      {"parameter_groups",
       {{{"optimizer", "text"},
         {"weight_decay", "number"},
         {"lr_scale", "number"},
         {"elements", "integer"},
         {"parameters", json::array({"text"})}}}},
      {"pipeline",
       {{"schedule", "?text"},
        {"chunks", "integer"},
        {"stages",
         {{{"blocks", json::array({"integer"})},
           {"parameters", "integer"},
           {"busy_seconds", "?number"},
           {"idle_share", "?number"}}}}}},
      {"comm_bytes", {{"*", "integer"}}},
      {"cluster", "?text"},
      {"groups",
       {{{"name", "text"}, {"ranks", "integer"}, {"hosts", "integer"}, {"way", "text"}, {"staging_bytes", "integer"}}}},
      {"seconds_per_step", "?number"},
      {"exposed_comm_seconds", "?number"},
      {"exposed_io_seconds", "?number"},
      {"saves", "?text"},
      {"tokens_per_step", "integer"},
      {"run_cost",
       {{"tokens", "?number"},
        {"days", "?number"},
        {"gpu_hours", "?number"},
        {"cost", "?number"},
        {"kilowatt_hours", "?number"}}},
      {"drive_wear", {{"bytes_per_day", "?number"}, {"days", "?number"}}},
      {"limits", limits},
      {"reserved_bytes", "?integer"},
      {"reserved", {{"*", "integer"}}},
      {"fits", "boolean"},
      {"suggestions",
       {{{"changes", {{"*", "value"}}},
         {"planned_peak_bytes", bytes},
         {"comm_bytes", "integer"},
         {"seconds_per_step", "?number"}}}}};
}

json parsed(const Result& result) {
  INFO(result.text);
  REQUIRE(result.text.find('{') == 0);
  return json::parse(result.text);
}

}  // namespace

TEST_CASE("The JSON of a plan has exactly the documented keys, with the documented types") {
  const Folder folder("plan_schema");
  for (const char* arguments : {"--json", "--json --ranks 8", "--json --ranks 4 --cluster dgx-a100",
                                "--json --ranks 4 --cluster dgx-a100 --tokens 1e9 --price 2",
                                "--json --ranks 2 --set memory.device_budget_bytes=100000000",
                                "--json --ranks 2 --set memory.device_budget_bytes=100000000 --cluster dgx-h100",
                                "--json --ranks 1048576 "
                                "--set train_batch_size=null"}) {
    const Result result = plan(folder, std::string(arguments) + " 2>/dev/null");
    INFO(arguments);
    CHECK(first_difference(parsed(result), schema(), "plan") == "");
  }
  // The check itself finds a key too few, one too many and a wrong type.
  json changed = parsed(plan(folder, "--json --ranks 2 2>/dev/null"));
  CHECK(first_difference(changed, schema(), "plan") == "");
  json fewer = changed, more = changed, other = changed;
  fewer["ranks"][1]["tiers"]["host"].erase("peak_op");
  more["ranks"][0]["extra"] = 1;
  other["fits"] = "yes";
  CHECK(first_difference(fewer, schema(), "plan") == "plan.ranks[1].tiers.host.peak_op is missing");
  CHECK(first_difference(more, schema(), "plan") == "plan.ranks[0].extra is not documented");
  CHECK(first_difference(other, schema(), "plan") == "plan.fits is no boolean: \"yes\"");
}

TEST_CASE("Every rank is in the JSON once: by itself up to 64, in ranges beyond") {
  const Folder folder("plan_ranks");
  for (const int ranks : {1, 8, 64, 65, 4096}) {
    const json result =
        parsed(plan(folder, "--json --set train_batch_size=null --ranks " + std::to_string(ranks) + " 2>/dev/null"));
    int next = 0;
    for (const json& rank : result["ranks"]) {
      CHECK(rank["rank"] == next);
      next = rank["last_rank"].get<int>() + 1;
    }
    CHECK(next == ranks);
    CHECK(result["ranks"].size() == (ranks <= 64 ? static_cast<size_t>(ranks) : 1));
  }
}

TEST_CASE("Questions to a plan that no plan answers are refused with what would answer them") {
  const Folder folder("plan_questions");
  const std::vector<std::pair<const char*, const char*>> all{
      {"--tokens 1e9", "give --cluster FILE or NAME"},
      {"--tokens=-1 --cluster dgx-a100", "--tokens is -1; legal is a number of at least 0"},
      {"--price 2 --cluster dgx-a100", "give --tokens, too"},
      {"--find ranks", "--find ranks needs a limit of memory"},
      {"--find batch --cluster dgx-a100", "legal is ranks, sequence or microbatch"},
      {"--find ranks --search --cluster dgx-a100", "--find and --search are both given"},
  };
  for (const auto& [arguments, said] : all) {
    const Result refused = plan(folder, std::string("--ranks 2 ") + arguments);
    INFO(arguments << "\n" << refused.text);
    CHECK(refused.code == 2);
    CHECK(refused.text.find(said) != std::string::npos);
  }
}

TEST_CASE("The command of a search has the settings that it was asked with, and the cluster") {
  const Folder folder("plan_search");
  const Result found = plan(folder,
                            "--ranks 2 --search --most 3 --cluster dgx-a100 --set train_batch_size=12 --set "
                            "optimizer.type=SGD --set parallel.pipeline_model_parallel_size=1");
  INFO(found.text);
  CHECK(found.code == 0);
  const std::string command = found.text.substr(found.text.find("zrt train "));
  for (const char* set :
       {"train_batch_size=12", "optimizer.type=SGD", "parallel.pipeline=1", "parallel.cluster=dgx-a100"}) {
    CHECK(command.find(std::string(" --set ") + set) != std::string::npos);
  }
}

TEST_CASE("What --find finds is a run that fits, in words, as options and in JSON") {
  const Folder folder("plan_find");
  const std::string at = "--ranks 1 --set memory.placement=device --set memory.recompute=none ";
  const json whole = parsed(plan(folder, at + "--json 2>/dev/null"));
  const std::string budget = "--set memory.device_budget_bytes=" +
                             std::to_string(whole["ranks"][0]["tiers"]["device"]["planned_peak_bytes"].get<uint64_t>());
  const json found = parsed(plan(folder, at + budget + " --find microbatch --json 2>/dev/null"));
  CHECK(found["fits"] == true);
  CHECK(found["found"]["ranks"] == 1);
  const auto rows = found["found"]["value"].get<int64_t>();
  CHECK(found["found"]["changes"]["train_micro_batch_size_per_gpu"] == rows);
  const Result text = plan(folder, at + budget + " --find microbatch");
  INFO(text.text);
  CHECK(text.code == 0);
  CHECK(text.text.find(fmt::format("the largest microbatch that fits has {} samples; {} samples lack ", rows,
                                   rows + 1)) != std::string::npos);
  const Result none = plan(folder, "--find ranks --set memory.device_budget_bytes=1 --set memory.host_budget_bytes=1");
  INFO(none.text);
  CHECK(none.code == 1);
  CHECK(none.text.find("no number of ranks fits; ") != std::string::npos);
}

TEST_CASE("A stage to tell of is refused where no text is printed") {
  const Folder folder("plan_stage");
  for (const char* other : {"json", "program", "search"}) {
    const Result refused = plan(folder, fmt::format("--ranks 2 --stage 0 --{}", other));
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK(refused.text.find(fmt::format("it does nothing with --{}", other)) != std::string::npos);
  }
  CHECK(plan(folder, "--ranks 2 --stage 0").code == 0);
}

TEST_CASE("The exit code says whether the run fits") {
  const Folder folder("plan_codes");
  const Result fits = plan(folder, "--ranks 2");
  INFO(fits.text);
  CHECK(fits.code == 0);
  CHECK(fits.text.find("fits (no limit is known") != std::string::npos);
  // Bytes as people read them; --json has them exactly.
  CHECK(fits.text.find("device: peak ") != std::string::npos);
  CHECK(fits.text.find("MiB in phase 'step'") != std::string::npos);
  const std::string fixed = "--ranks 2 --set memory.placement=device --set memory.recompute=none --set ";
  const Result does_not = plan(folder, fixed + "memory.device_budget_bytes=140000000");
  INFO(does_not.text);
  CHECK(does_not.code == 1);
  CHECK(does_not.text.find("does not fit: memory.device_budget_bytes is 140000000") != std::string::npos);
  CHECK(does_not.text.find("--set zero_optimization.stage=") != std::string::npos);
  CHECK(plan(folder, "--program --ranks 2").code == 0);
  CHECK(plan(folder, "--program " + fixed + "memory.device_budget_bytes=140000000").code == 1);
  const Result never = plan(folder, "--ranks 2 --set memory.device_budget_bytes=1");
  CHECK(never.code == 1);
  CHECK(never.text.find("smaller model") != std::string::npos);
}

TEST_CASE("A plan for a GPU is made, or refused by name where the build has no kernels for one") {
  const Folder folder("plan_cuda");
  const Result made = plan(folder, "--device cuda");
  INFO(made.text);
  if (made.code == 0) return;
  CHECK(made.code == 2);
  CHECK_THAT(made.text, Catch::Matchers::Contains("built without the CUDA Toolkit"));
}

TEST_CASE("The programs of a plan are printed, finished or behind a pass, all or one of them") {
  const Folder folder("plan");
  const Result all = plan(folder, "--ranks 2 --program"), step = plan(folder, "--ranks 2 --program --phase step"),
               scheduled = plan(folder, "--ranks 2 --program --phase step --after schedule");
  for (const Result* result : {&all, &step, &scheduled}) {
    INFO(result->text.substr(0, 1000));
    CHECK(result->code == 0);
    CHECK(result->text.find("forward h.0") != std::string::npos);
  }
  for (const char* phase : {"init", "step", "export", "save", "eval"}) {
    CHECK(all.text.find(std::string("program ") + phase + "\n") != std::string::npos);
    CHECK((step.text.find(std::string("program ") + phase + "\n") != std::string::npos) ==
          (phase == std::string("step")));
  }
  CHECK(step.text.find("reduce ") != std::string::npos);
  CHECK(step.text.find("\nbuffers\n") != std::string::npos);
  CHECK(scheduled.text.find("reduce ") == std::string::npos);
  CHECK(scheduled.text.find("waits") == std::string::npos);
  for (const auto& [arguments, code, word] :
       {std::tuple{"--program --after nothing", 2, "state, schedule, phases, zero"},
        {"--program --after offload", 2, "offload"},
        {"--program --phase nothing", 2, "init, step, export"},
        {"--after zero", 2, "--program"},
        {"--force", 2, "it needs --draw"},
        {"--program --json", 2, "--json"}}) {
    const Result refused = plan(folder, arguments);
    INFO(arguments << ": " << refused.text);
    CHECK(refused.code == code);
    CHECK(refused.text.find(word) != std::string::npos);
  }
}

TEST_CASE("What no run could be is refused with 2, named") {
  const Folder folder("plan_bad");
  struct Bad {
    const char* arguments;
    std::vector<std::string> expected;
  };
  folder.write("broken.json", "{\"ranks_per_host\": 0");
  folder.write("nonsense.json", "{\"ranks_per_host\": -8}");
  for (const Bad& bad : std::vector<Bad>{
           {"--set model.preset=null --set model.layers=0 --set model.hidden=64 --set model.heads=2 "
            "--set model.sequence=16 --set model.vocab=300",
            {"model.layers", "0"}},
           {"--ranks 3", {"train_batch_size", "3"}},
           {"--ranks 0", {"ranks"}},
           {"--ranks 1048577 --set train_batch_size=null", {"1048577", "1048576"}},
           {"--set zero_optimization.stage=5", {"stage", "5"}},
           {"--cluster no-such-cluster", {"no-such-cluster", "dgx-a100"}},
           {"--cluster FOLDER/broken.json", {"broken.json"}},
           {"--cluster FOLDER/nonsense.json", {"nonsense.json", "ranks_per_host"}},
           {"--cluster", {"cluster"}},
           {"--nonsense", {"nonsense"}},
       }) {
    std::string arguments = bad.arguments;
    if (const size_t at = arguments.find("FOLDER"); at != std::string::npos) {
      arguments.replace(at, 6, folder.path.string());
    }
    const Result result = plan(folder, arguments);
    INFO(arguments << "\n" << result.text);
    CHECK(result.code == 2);
    for (const std::string& expected : bad.expected) CHECK(result.text.find(expected) != std::string::npos);
  }
  CHECK(run_zrt("plan").code == 2);
  CHECK(run_zrt("plan /nonexistent.json").code != 0);
  CHECK(run_zrt("plan --help").code == 0);
}

TEST_CASE("A page with everything inside is drawn") {
  const Folder folder("plan_draw");
  const Result drawn = plan(folder, "--ranks 2 --cluster dgx-a100 --draw " + (folder / "plan.html"));
  INFO(drawn.text);
  REQUIRE(drawn.code == 0);
  std::ifstream in(folder / "plan.html");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  for (const char* part :
       {"<svg", "forward h.5, microbatch 3", "activations", "Live bytes of the host tier", "comm:dp"}) {
    INFO(part);
    CHECK(page.find(part) != std::string::npos);
  }
  for (const char* outside : {"http:", "https:", "src=", "href="}) CHECK(page.find(outside) == std::string::npos);
  CHECK(plan(folder, "--draw /nonexistent/plan.html").code == 1);
}

namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("Files that a user names are replaced when the same command wrote them, by --force, and never a config") {
  const Folder folder("user_files");
  build_data(folder);
  folder.write("run.json", folder.config());
  const std::string config = folder / "run.json", out = folder / "out";
  REQUIRE(run_zrt("train " + config + " --ranks 1 --steps 1").code == 0);
  struct Command {
    std::string arguments, option;
    bool reads_config;
  };
  const std::vector<Command> commands{
      {"plan " + config, "--draw", true},
      {"report " + (folder / "run"), "--out", false},
      {"bench calibrate --quick --ranks 1", "--out", false},
      {"bench offload --config " + config + " --budgets 1 --rounds 1 --steps 1 --placements auto", "--svg", true}};
  for (const Command& command : commands) {
    CAPTURE(command.arguments);
    const auto run = [&](const std::string& file, const std::string& more = "") {
      return run_zrt(command.arguments + " " + command.option + " " + file + more);
    };
    const auto refuses = [&](const std::string& file, const std::string& why) {
      const Result result = run(file);
      INFO(result.text);
      CHECK(result.code == 2);
      CHECK(result.text.find(why) != std::string::npos);
    };
    refuses(folder / "corpus", (folder / "corpus: ") + command.option + " names a folder");
    refuses("''", command.option + " is empty");
    folder.write("out", "int main() {}\n");
    fs::remove(folder / "link");
    fs::create_symlink(out, folder / "link");
    for (const std::string& file : {out, folder / "link"}) {
      const Result refused = run(file);
      CHECK(refused.code == 2);
      CHECK(refused.text.find(file + ": this file is there already, and " + command.option + " did not write it") !=
            std::string::npos);
      CHECK(refused.text.find("--force") != std::string::npos);
      CHECK(contents(out) == "int main() {}\n");
    }
    CHECK(run(out, " --force").code == 0);
    CHECK(contents(out).size() > 100);
    // Its own; the calibration, which takes ten seconds, comes as far as its drive.
    const bool slow = command.arguments.find("calibrate") != std::string::npos;
    CHECK(run(out, slow ? " --path /dev/null/none" : "").code == (slow ? 1 : 0));

    const std::string before = contents(config);
    const Result refused = run(config, command.reads_config ? " --force" : "");
    CHECK(refused.code == 2);
    CHECK((refused.text.find("which is the input") != std::string::npos) == command.reads_config);
    CHECK(contents(config) == before);
  }
  CHECK(run_zrt("report " + (folder / "run")).code == 0);
  folder.write("run/report.html", "mine");
  CHECK(run_zrt("report " + (folder / "run")).code == 2);
  CHECK(contents(folder / "run/report.html") == "mine");
  CHECK(run_zrt("plan " + config + " --draw /dev/null").code == 0);
  std::ofstream(out, std::ios::trunc).close();  // mktemp makes such
  CHECK(run_zrt("plan " + config + " --draw " + out).code == 0);

  const std::string plain = folder / "plain", import = "checkpoint import " + plain + " --out ";
  REQUIRE(run_zrt("checkpoint export " + (folder / "run") + " --out " + plain).code == 0);
  CHECK(run_zrt("checkpoint export " + (folder / "run") + " --out " + plain).text.find("exists already") !=
        std::string::npos);
  fs::create_directories(folder / "begun");
  folder.write("begun/config.resolved.json", "{}");
  CHECK(run_zrt(import + (folder / "begun")).text.find("config.resolved.json an import would replace") !=
        std::string::npos);
  CHECK(contents(folder / "begun/config.resolved.json") == "{}");
}

TEST_CASE("Train is refused with what plan suggests, and runs when a suggestion is followed") {
  const Folder folder("plan_train");
  build_data(folder);
  folder.write("run.json", folder.config());
  const std::string budget =
      " --ranks 2 --set zero_optimization.stage=0 --set memory.placement=device --set memory.recompute=none --set "
      "memory.device_budget_bytes=";
  const json free = parsed(run_zrt("plan " + (folder / "run.json") + " --json" + budget + "1000000000 2>/dev/null"));
  const auto peak = free["ranks"][0]["tiers"]["device"]["planned_peak_bytes"].get<uint64_t>();
  const std::string arguments = (folder / "run.json") + budget + std::to_string(peak - 1);
  const Result refused = run_zrt("train " + arguments);
  INFO(refused.text);
  CHECK(refused.code == 1);
  const auto plan = nlohmann::ordered_json::parse(run_zrt("plan " + arguments + " --json 2>/dev/null").text);
  REQUIRE_FALSE(plan["suggestions"].empty());
  for (const auto& suggestion : plan["suggestions"]) {
    std::string options;
    for (const auto& [key, value] : suggestion["changes"].items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      options += key == "ranks" ? " --ranks " + text : " --set " + key + "=" + text;
    }
    CHECK(refused.text.find(options.substr(1)) != std::string::npos);
    if (suggestion["changes"].contains("ranks")) continue;
    const Result followed = run_zrt("train " + arguments + options);
    INFO(options << "\n" << followed.text);
    REQUIRE(followed.code == 0);
    const json memory = read_json(folder / "run/memory.json");
    CHECK(memory["ranks"][0]["tiers"]["device"]["measured_peak_bytes"].get<uint64_t>() ==
          suggestion["planned_peak_bytes"]["device"].get<uint64_t>());
    fs::remove_all(folder.path / "run");
  }
}

}  // namespace zrt::plan_test
