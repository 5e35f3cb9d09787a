// Runs with pseudo_to_real from outside: they share, delink and go on, and nothing that stops them in between changes a
// bit.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "program.h"

namespace zrt::pseudo_to_real_test {

using namespace zrt::testing;

namespace {

const std::string zrt = ZRT_BINARY_DIR "/zrt ";

std::string empty(const Folder& folder) {
  folder.write("empty.json", "{}");
  return folder / "empty.json";
}

// Options that a run needs beside its --out.
std::string shared(const Folder& folder, const std::string& more = "", int steps = 8) {
  return zrt + "train " + empty(folder) + (more.find("--ranks") == std::string::npos ? " --ranks 2" : "") +
         " --set model.preset=gpt2-tiny --set model.layers=4" +
         " --set model.dropout=0.1 --set train_micro_batch_size_per_gpu=2 --set zero_optimization.stage=2" +
         " --set data.train=" + (folder.path / "corpus/train").string() + " --set run.steps=" + std::to_string(steps) +
         " --set pseudo_to_real.groups=1 --set pseudo_to_real.delink.at_step=4 " + more;
}

// A number of each step.
std::vector<double> numbers(const fs::path& out, const char* name) {
  std::vector<double> all;
  std::ifstream in(out / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line)[name].get<double>());
  return all;
}
std::vector<double> losses(const fs::path& out) {
  return numbers(out, "loss");
}

std::string state(const fs::path& out) {
  return read_json(out / "summary.json")["state_xxh3"];
}

}  // namespace

TEST_CASE("a run delinks at its step without a change of the loss, and ends with the same bits at every stage") {
  const Folder folder("pseudo_delink");
  build_data(folder);
  const fs::path never = folder.path / "never", at = folder.path / "at";
  const Result linked = run_command(shared(folder, "--set pseudo_to_real.delink.at_step=null --out " + never.string()));
  INFO(linked.text);
  REQUIRE(linked.code == 0);
  const Result delinked = run_command(shared(folder, "--out " + at.string()));
  INFO(delinked.text);
  REQUIRE(delinked.code == 0);
  CHECK(delinked.text.find("step 4: 4 layers in 1 group are delinked") != std::string::npos);
  const std::vector<double> one = losses(never), two = losses(at);
  REQUIRE((one.size() == 8 && two.size() == 8));
  // The loss of step 5 is that of the weights after step 4.
  CHECK(std::equal(one.begin(), one.begin() + 5, two.begin()));
  CHECK(one[5] != two[5]);
  const nlohmann::json pseudo = read_json(at / "memory.pseudo.json"), real = read_json(at / "memory.json");
  for (const nlohmann::json* memory : {&pseudo, &real}) {
    for (const auto& rank : memory->at("ranks")) {
      for (const auto& [name, tier] : rank.at("tiers").items()) {
        INFO(name);
        CHECK(tier.at("planned_peak_bytes") == tier.at("measured_peak_bytes"));
      }
    }
  }
  for (const char* other :
       {"--set zero_optimization.stage=0", "--set zero_optimization.stage=3 --set memory.placement=host",
        "--set zero_optimization.stage=2 --set memory.placement=host --set memory.device_layers=2",
        "--set zero_optimization.stage=3 --set memory.update_when=next_forward",
        "--set zero_optimization.stage=1 --set zero_optimization.overlap_comm=true"}) {
    const fs::path out = folder.path / "other";
    fs::remove_all(out);
    REQUIRE(run_command(shared(folder, std::string(other) + " --out " + out.string())).code == 0);
    CHECK(state(out) == state(at));
    CHECK(losses(out) == two);
  }
  const fs::path piped = folder.path / "piped";
  const Result stages = run_command(shared(folder, "--ranks 4 --set parallel.pipeline=2 --out " + piped.string()));
  INFO(stages.text);
  REQUIRE(stages.code == 0);
  const std::vector<double> three = losses(piped);
  REQUIRE(three.size() == 8);
  for (size_t step = 0; step < 8; ++step) CHECK(std::abs(three[step] - two[step]) < 1e-6 * two[step]);
}

TEST_CASE("a run with states on NVMe writes those of one layer when it delinks, and ends with the same bits") {
  const Folder folder("pseudo_nvme");
  build_data(folder);
  fs::create_directories(folder.path / "scratch");
  for (const char* how : {"copy", "rescale"}) {
    const std::string rules = std::string("--set pseudo_to_real.private=[] --set pseudo_to_real.optimizer=") + how;
    // Whole weights, where ranks hold these, would be written once more when the run ends.
    const std::string nvme =
        rules +
        " --set zero_optimization.stage=3 --set memory.placement=nvme --set memory.nvme_path=" + folder / "scratch";
    const fs::path at = folder.path / "at", five = folder.path / "five", six = folder.path / "six";
    for (const fs::path& out : {at, five, six}) fs::remove_all(out);
    REQUIRE(run_command(shared(folder, rules + " --out " + at.string(), 6)).code == 0);
    REQUIRE(run_command(shared(folder, nvme + " --out " + five.string(), 5)).code == 0);
    const Result last = run_command(shared(folder, nvme + " --out " + six.string(), 6));
    INFO(last.text);
    REQUIRE(last.code == 0);
    CHECK(state(six) == state(at));
    CHECK(losses(six) == losses(at));
    const auto tier = [&](const char* key) {
      return read_json(six / "memory.json")["ranks"][0]["tiers"]["nvme"][key].get<uint64_t>();
    };
    CHECK(tier("planned_peak_bytes") == tier("measured_peak_bytes"));
    const auto written = [](const fs::path& out) {
      return read_json(out / "summary.json")["moved_bytes"]["nvme_written"].get<uint64_t>();
    };
    // One step takes what the sixth does, and the rest is the delink's.
    const uint64_t step = written(six) - written(five), delink = written(five) - step;
    CHECK(delink > 0);
    CHECK(2 * delink < step);
    const Result plan =
        run_command(zrt + "plan " + shared(folder, nvme, 5).substr(zrt.size() + strlen("train ")) + " --json");
    REQUIRE(plan.code == 0);
    const nlohmann::json json = nlohmann::json::parse(plan.text.substr(plan.text.find('{')));
    CHECK(delink == json.at("delink").at("placed_bytes").at("nvme"));
  }
}

TEST_CASE("a run that is resumed before, at or behind its delink ends with the bits of one that was not") {
  const Folder folder("pseudo_resume");
  build_data(folder);
  for (const char* how : {"copy", "reset", "rescale"}) {
    const std::string rules = std::string("--set pseudo_to_real.lr_scale=0.5 --set pseudo_to_real.rewarm_steps=3 ") +
                              "--set pseudo_to_real.optimizer=" + how + " ";
    const fs::path whole = folder.path / (std::string("whole_") + how);
    REQUIRE(run_command(shared(folder, rules + "--out " + whole.string())).code == 0);
    // The rate rises from 0 to half of what it was, in the three steps behind step 4.
    const std::vector<double> rates = numbers(whole, "lr");
    for (size_t step = 0; step < 8; ++step) {
      const double factor = step < 4 ? 1 : 0.5 * std::min(1.0, static_cast<double>(step - 3) / 3);
      CHECK(std::abs(rates.at(step) - rates[0] * factor) < 1e-8 * rates[0]);
    }
    for (const int first : {2, 4, 5}) {
      const fs::path out = folder.path / (std::string(how) + std::to_string(first));
      // A shorter run plans its data for fewer samples, so the stop is a signal's: the steps stay.
      const Result stopped = run_command(
          shared(folder, rules + "--set run.checkpoint_interval=1 --set run.keep_last=20 --out " + out.string()));
      REQUIRE(stopped.code == 0);
      for (int step = first + 1; step <= 8; ++step) {
        fs::remove_all(out / "checkpoints" / ("step_" + std::to_string(step)));
      }
      const Result again = run_command(shared(folder, rules + "--resume auto --out " + out.string()));
      INFO(again.text);
      REQUIRE(again.code == 0);
      CHECK(again.text.find("going on after step " + std::to_string(first)) != std::string::npos);
      CHECK(state(out) == state(whole));
      CHECK(losses(out) == losses(whole));
    }
  }
}

TEST_CASE("a run that ends before its delink goes on sharing when it is made longer") {
  const Folder folder("pseudo_longer");
  build_data(folder);
  for (const char* delink : {"", "--set pseudo_to_real.delink.at_step=null "}) {
    const fs::path whole = folder.path / "whole", out = folder.path / "longer";
    for (const fs::path& run : {whole, out}) fs::remove_all(run);
    REQUIRE(run_command(shared(folder, std::string(delink) + "--out " + whole.string())).code == 0);
    REQUIRE(run_command(shared(folder, std::string(delink) + "--out " + out.string(), 3)).code == 0);
    const Result longer = run_command(shared(folder, std::string(delink) + "--resume auto --out " + out.string()));
    INFO(longer.text);
    REQUIRE(longer.code == 0);
    CHECK(state(out) == state(whole));
    CHECK((longer.text.find("are delinked") != std::string::npos) == (*delink == 0));
  }
}

TEST_CASE("a second life that cannot be is refused before the first") {
  const Folder folder("pseudo_second");
  build_data(folder);
  for (const auto& [set, words] : {std::pair{"pseudo_to_real.batch_after=7", "pseudo_to_real.batch_after = 7"},
                                   {"memory.device_layers=5", "the model has 4 layers"},
                                   {"memory.device_budget_bytes=900000", "device_budget_bytes"}}) {
    const fs::path out = folder.path / "out";
    const Result result = run_command(shared(folder, std::string("--set ") + set + " --out " + out.string()));
    INFO(result.text);
    CHECK(result.code != 0);
    CHECK(result.text.find(words) != std::string::npos);
    CHECK(result.text.find("step 1/") == std::string::npos);
    CHECK(!fs::exists(out / "checkpoints"));
  }
}

TEST_CASE("a run delinks when its loss falls no more, and so does one that is resumed") {
  const Folder folder("pseudo_plateau");
  build_data(folder);
  const std::string rule =
      "--set pseudo_to_real.delink.at_step=null --set pseudo_to_real.delink.plateau_steps=2 --set "
      "pseudo_to_real.delink.plateau_gain=0.9 --set run.checkpoint_interval=1 --set run.keep_last=20 ";
  const fs::path whole = folder.path / "whole", out = folder.path / "again";
  const Result first = run_command(shared(folder, rule + "--out " + whole.string()));
  INFO(first.text);
  REQUIRE(first.code == 0);
  CHECK(first.text.find("step 4: 4 layers in 1 group are delinked") != std::string::npos);
  fs::copy(whole, out, fs::copy_options::recursive);
  for (int step = 4; step <= 8; ++step) fs::remove_all(out / "checkpoints" / ("step_" + std::to_string(step)));
  REQUIRE(run_command(shared(folder, rule + "--resume auto --out " + out.string())).code == 0);
  CHECK(state(out) == state(whole));
  CHECK(losses(out) == losses(whole));
}

TEST_CASE("a checkpoint of shared layers is evaluated, exported and resumed as one of all layers") {
  const Folder folder("pseudo_export");
  build_data(folder);
  const std::string pseudo = (folder.path / "pseudo").string(), plain = (folder.path / "plain").string();
  REQUIRE(run_command(shared(folder, "--set pseudo_to_real.delink.at_step=null --set model.dropout=0 --out " + pseudo))
              .code == 0);
  REQUIRE(run_command(zrt + "checkpoint export " + pseudo + " --out " + plain).code == 0);
  const auto evaluate = [&](const std::string& run) {
    const Result result =
        run_command(zrt + "eval " + run + " --json --data " + (folder.path / "corpus/train").string());
    INFO(result.text);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.text.substr(result.text.find('{')))["loss"].get<double>();
  };
  // Without pseudo_to_real the checkpoint starts a run of layers of their own.
  const std::string real = (folder.path / "real").string();
  const Result started =
      run_command(zrt + "train " + empty(folder) + " --ranks 1" +
                  " --set model.preset=gpt2-tiny --set model.layers=4 --set train_micro_batch_size_per_gpu=2" +
                  " --set data.train=" + (folder.path / "corpus/train").string() +
                  " --set run.steps=1 --set run.load_module_only=true --set optimizer.params.lr=0" + " --resume " +
                  plain + " --out " + real);
  INFO(started.text);
  REQUIRE(started.code == 0);
  CHECK(evaluate(pseudo) == evaluate(real));
}

TEST_CASE("a plan shows both lives of a run") {
  const Folder folder("pseudo_plan");
  build_data(folder);
  const std::string options = shared(folder, "").substr(zrt.size() + strlen("train "));
  const Result text = run_command(zrt + "plan " + options);
  INFO(text.text);
  REQUIRE(text.code == 0);
  CHECK(text.text.find("While layers share their parameters") < text.text.find("Once they are delinked"));
  const Result result = run_command(zrt + "plan " + options + " --json");
  REQUIRE(result.code == 0);
  const nlohmann::json real = nlohmann::json::parse(result.text.substr(result.text.find('{'))),
                       &pseudo = real.at("pseudo");
  const fs::path out = folder.path / "run";
  REQUIRE(run_command(shared(folder, "--out " + out.string())).code == 0);
  for (const auto& [plan, file] : {std::pair(&real, "memory.json"), std::pair(&pseudo, "memory.pseudo.json")}) {
    const nlohmann::json measured = read_json(out / file);
    CHECK(plan->at("ranks")[0].at("tiers").at("device").at("planned_peak_bytes") ==
          measured.at("ranks")[0].at("tiers").at("device").at("measured_peak_bytes"));
  }
}

TEST_CASE("a run goes on from a checkpoint that zrt checkpoint delink made to the bits of one that delinked itself") {
  const Folder folder("pseudo_offline");
  build_data(folder);
  const std::string plain = " --set pseudo_to_real.groups=null ";
  for (const char* how : {"copy", "reset", "rescale"}) {
    const auto path = [&](const char* name) { return folder / (std::string(how) + "_" + name); };
    const std::string rules = std::string("--set pseudo_to_real.optimizer=") + how + " ";
    REQUIRE(run_command(shared(folder, rules + "--out " + path("whole"))).code == 0);
    // The checkpoint that the run delinked from.
    const std::string from = path("whole") + "/checkpoints/step_4", out = path("real");
    REQUIRE(fs::exists(from));
    const Result made = run_command(zrt + "checkpoint delink " + from + " --optimizer " + how + " --out " + out);
    INFO(made.text);
    REQUIRE(made.code == 0);
    CHECK(made.text.find("delinking 4 layers in 1 group") != std::string::npos);
    CHECK(made.text.find(out + "/checkpoints/step_4\n") != std::string::npos);
    CHECK(run_command(zrt + "checkpoint verify " + out).code == 0);
    // It is a run of its own, which knows nothing of layers that share.
    const nlohmann::json config = read_json(out + "/config.resolved.json");
    CHECK(config["run"]["out"]["value"] == out);
    CHECK(config["pseudo_to_real"]["groups"]["value"].is_null());
    const Result evaluated = run_command(zrt + "eval " + out + " --json --data " + (folder / "corpus/train"));
    INFO(evaluated.text);
    CHECK(evaluated.code == 0);
    // A run that has never heard of shared layers goes on in it, as does one that has.
    fs::copy(out, path("heard"), fs::copy_options::recursive);
    const Result again = run_command(shared(folder, plain + "--resume auto --out " + out));
    INFO(again.text);
    REQUIRE(again.code == 0);
    CHECK(state(out) == state(path("whole")));
    const Result heard = run_command(shared(folder, rules + "--resume auto --out " + path("heard")));
    INFO(heard.text);
    REQUIRE(heard.code == 0);
    CHECK(state(path("heard")) == state(path("whole")));
    const std::vector<double> all = losses(path("whole")), later = losses(out);
    REQUIRE((all.size() == 8 && later.size() == 4));
    CHECK(std::equal(later.begin(), later.end(), all.begin() + 4));
  }
  CHECK(state(folder / "copy_whole") != state(folder / "reset_whole"));
}

TEST_CASE("zrt checkpoint delink refuses what it cannot delink, and says why") {
  const Folder folder("pseudo_offline_refuse");
  build_data(folder);
  const std::string run = folder / "run", out = folder / "out";
  REQUIRE(run_command(shared(folder, "--set pseudo_to_real.delink.at_step=null --out " + run, 2)).code == 0);
  const auto refused = [&](const std::string& arguments, int code, const std::string& words) {
    const Result result = run_command(zrt + "checkpoint delink " + arguments);
    INFO(result.text);
    CHECK(result.code == code);
    CHECK(result.text.find(words) != std::string::npos);
  };
  refused(run, 2, "--out is missing");
  refused(run + " --out " + out + " --optimizer halve", 2, "--optimizer is 'halve'; legal are copy, reset and rescale");
  refused(run + " --out " + run, 1, "exists already; name a new folder");
  refused((folder / "corpus") + " --out " + out, 1, "holds no checkpoint");
  refused(run + " --out " + out + " --optimizer reset", 0, "step_2");
  refused(out + " --out " + (folder / "twice"), 1, "its layers share no parameters, so there is nothing to delink");
  for (const auto& file : fs::directory_iterator(run + "/checkpoints/step_2/optimizer")) {
    std::fstream(file.path(), std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('!');
    break;
  }
  refused(run + " --out " + (folder / "corrupt"), 1, "it is corrupt");
  CHECK(!fs::exists(folder / "twice"));
  CHECK(!fs::exists(folder / "corrupt"));
}

TEST_CASE("a plan says what a delink moves, and a run how long its delink took") {
  const Folder folder("pseudo_delink_time");
  build_data(folder);
  for (const char* mesh : {"--ranks 2", "--ranks 2 --set parallel.tensor=2", "--ranks 2 --set parallel.pipeline=2"}) {
    const std::string options = shared(folder, mesh).substr(zrt.size() + strlen("train "));
    const Result result = run_command(zrt + "plan " + options + " --json --cluster dgx-a100");
    INFO(result.text);
    REQUIRE(result.code == 0);
    const nlohmann::json plan = nlohmann::json::parse(result.text.substr(result.text.find('{')))["delink"];
    CHECK(plan["seconds"].get<double>() ==
          Approx(plan["save_seconds"].get<double>() + plan["load_seconds"].get<double>()));
    const fs::path out = folder.path / "run";
    fs::remove_all(out);
    const Result run = run_command(shared(folder, std::string(mesh) + " --out " + out.string()));
    INFO(run.text);
    REQUIRE(run.code == 0);
    // The tensors of the checkpoint, without what the files say of them.
    uint64_t bytes = 0;
    for (const auto& file : fs::recursive_directory_iterator(out / "checkpoints/step_4")) {
      if (file.path().extension() != ".safetensors") continue;
      std::ifstream in(file.path(), std::ios::binary);
      uint64_t header = 0;
      in.read(reinterpret_cast<char*>(&header), sizeof header);
      bytes += file.file_size() - sizeof header - header;
    }
    CHECK(plan["checkpoint_bytes"] == bytes);
    const nlohmann::json took = read_json(out / "summary.json")["delink"];
    const double save = took["save_seconds"], load = took["load_seconds"];
    CHECK((save > 0 && load > 0));
    CHECK(took["seconds"].get<double>() >= save + load);
    CHECK(run.text.find("the delink took ") != std::string::npos);
    // A run that begins behind the last step of shared layers took no time to save them.
    fs::remove_all(out / "checkpoints/step_8");
    REQUIRE(run_command(shared(folder, std::string(mesh) + " --resume auto --out " + out.string())).code == 0);
    CHECK(!read_json(out / "summary.json").contains("delink"));
  }
}

TEST_CASE("groups that do not fit, and checkpoints that other groups made, are refused") {
  const Folder folder("pseudo_refuse");
  build_data(folder);
  const auto refused = [&](const std::string& more, const std::string& words) {
    const Result result = run_command(shared(folder, more + " --out " + (folder.path / "refused").string()));
    INFO(result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find(words) != std::string::npos);
  };
  refused("--set pseudo_to_real.groups=3", "does not divide model.layers = 4. Legal are 1, 2, 4, and lists");
  refused("--set pseudo_to_real.groups=[1,2]", "has 3 layers in all, but model.layers is 4");
  refused("--set pseudo_to_real.groups=[0,4]", "has the entry 0");
  refused("--set 'pseudo_to_real.private=*.biass'", "'*.biass' names no parameter of a layer");
  refused("--ranks 4 --set parallel.pipeline=2 --set parallel.reduce_every=2 --set gradient_accumulation_steps=2",
          "must be 1 where layers of a pipeline share parameters");
  const std::string out = (folder.path / "run").string();
  REQUIRE(run_command(shared(folder, "--set run.steps=2 --out " + out)).code == 0);
  const Result other = run_command(shared(folder, "--set pseudo_to_real.groups=2 --resume auto --out " + out));
  INFO(other.text);
  CHECK(other.code == 2);
  CHECK(other.text.find("other layers share their parameters there") != std::string::npos);
}

}  // namespace zrt::pseudo_to_real_test
