// Every implemented key of the configuration does something: data/key_effects.json says for each what shows it in a run
// of a small model, and what of it grows. A key that the table gains needs a line there. The weights must stay where
// the table says that a key has no influence on results.
#include <map>
#include <regex>
#include <set>

#include "core/error.h"
#include "program.h"
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "runtime/engine/session_options.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/setup.h"
#include "tests/data_folder.h"

namespace zrt::key_effects_test {

using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;

namespace {

// Says what a configuration leads to, by name; equal texts: no difference.
using Evidence = std::map<std::string, std::string>;

std::string text_of(const ProgramSet& set) {
  std::ostringstream text;
  for (const Buffer& b : set.buffers) {
    text << b.name << ' ' << b.bytes << ' ' << b.slots << ' ' << static_cast<int>(b.tier) << ' '
         << static_cast<int>(b.life) << '\n';
  }
  for (const Program& program : set.programs) {
    for (const Segment& segment : program.segments) text << segment.first << 'x' << segment.repeat << ' ';
    for (const Op& op : program.ops) {
      text << op.name << ' ' << set.lanes[op.lane].name() << ' ' << set.groups[op.group].name;
      for (const Access& access : op.accesses) text << ' ' << access.buffer;
      for (const OpId wait : op.waits) text << " <" << wait;
      text << '\n';
    }
  }
  return text.str();
}

std::string text_of(const SessionOptions& options) {
  std::ostringstream text;
  const optimizer::LossScaleParams& scale = options.loss_scale;
  text << scale.initial << ' ' << scale.dynamic << ' ' << scale.window << ' ' << scale.hysteresis << ' '
       << scale.consecutive << ' ' << scale.minimum << '\n'
       << options.clip << ' ' << options.seed << ' ' << options.timeout.count() << ' ' << options.nvme_path << ' '
       << options.executor.threads << ' ' << options.executor.stress_seed << ' ' << options.share_gpu << ' '
       << options.fast_sums;
  return text.str();
}

// All that a run measures anew each time is left out.
std::string lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    json step = json::parse(line);
    for (auto at = step.begin(); at != step.end();) {
      const bool measured = at.key().find("second") != std::string::npos || at.key() == "time";
      at = measured ? step.erase(at) : std::next(at);
    }
    text += step.dump() + "\n";
  }
  return text;
}

// Names below a folder; of a trace the steps that it draws.
std::string files_of(const fs::path& folder) {
  static const std::regex moment("[0-9]{6,}|events\\.out\\.[^/]*");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string name = std::regex_replace(entry.path().lexically_relative(folder).string(), moment, "#");
    if (name.find("nvme") != std::string::npos) continue;
    if (entry.path().filename() == "trace.json") {
      std::ifstream in(entry.path());
      std::stringstream all;
      all << in.rdbuf();
      static const std::regex step("\"step\": ?([0-9]+)");
      const std::string text = all.str();
      std::set<std::string> steps;
      for (std::sregex_iterator at(text.begin(), text.end(), step), end; at != end; ++at) steps.insert((*at)[1]);
      for (const std::string& one : steps) name += " " + one;
    }
    names.insert(name);
  }
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

class Experiment {
 public:
  Experiment() : folder_("key_effects"), work_(folder_.path / "work") {
    build_data(folder_);
    std::string paragraphs;
    for (int i = 0; i < 200; ++i) paragraphs += "paragraph " + std::to_string(i * 7919 % 1009) + " says little\n\n";
    folder_.write("p.txt", paragraphs);
    REQUIRE(run_zrt("data build --documents paragraph --out " + (folder_ / "paragraphs") + " " + (folder_ / "p.txt"))
                .code == 0);
    fs::create_directories(work_);
    observe(configured(R"({"run": {"out": "$DATA/earlier", "steps": 2, "save_weights": true}})"_json), 2);
  }

  const Evidence& base(const json& patch, int ranks) {
    const std::string name = patch.dump() + std::to_string(ranks);
    const auto found = bases_.find(name);
    return found != bases_.end() ? found->second : bases_[name] = observe(configured(patch), ranks);
  }
  Evidence changed(const json& line) {
    json config = configured(line.value("base", json::object()));
    json* section = &config;
    std::string path = line["key"];
    for (size_t dot; (dot = path.find('.')) != std::string::npos; path.erase(0, dot + 1)) {
      section = &(*section)[path.substr(0, dot)];
    }
    (*section)[path] = line["value"];
    if (line.contains("also")) config.merge_patch(line["also"]);
    return observe(config, line.value("ranks", 2));
  }

 private:
  static json configured(const json& patch) {
    json config = R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}, "zero_optimization": {"stage": 3},
        "model": {"preset": "gpt2-tiny"}, "data": {"train": "$DATA/corpus/train"},
        "run": {"steps": 4, "out": "$FOLDER/run", "save_weights": false}})"_json;
    config.merge_patch(patch);
    return config;
  }

  Evidence observe(const json& config, int ranks) {
    fs::remove_all(work_);
    fs::create_directories(work_);
    std::string text = config.dump(1);
    for (const auto& [word, path] : {std::pair{"$FOLDER", work_}, {"$DATA", folder_.path}}) {
      for (size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, strlen(word), path.string());
    }
    std::ofstream(work_ / "c.json") << text;
    Evidence seen;
    compile_for(text, ranks, seen);
    const Result run = run_command("cd " + work_.string() + " && " ZRT_BINARY_DIR "/zrt train c.json --ranks " +
                                   std::to_string(ranks));
    if (run.code != 0) {
      seen["refusal"] = run.text;
      seen["code"] = std::to_string(run.code);
    }
    fs::path out;
    for (const auto& entry : fs::recursive_directory_iterator(work_)) {
      if (entry.path().filename() == "summary.json") out = entry.path().parent_path();
    }
    seen["output"] = std::to_string(std::count(run.text.begin(), run.text.end(), '\n')) + " lines";
    seen["files"] = files_of(work_);
    if (out.empty()) return seen;
    seen["metrics"] = lines_of(out / "metrics.jsonl");
    seen["evaluations"] = lines_of(out / "evaluations.jsonl");
    seen["weights"] = read_json(out / "summary.json")["state_xxh3"];
    return seen;
  }

  static void compile_for(const std::string& text, int ranks, Evidence& seen) {
    try {
      const Config config = parse_config(text, "c.json", {}, ranks);
      for (const std::string& warning : config.warnings) seen["warnings"] += warning + "\n";
      seen["session"] = text_of(session_options(config));
      const models::Model model = config.model.make();
      const std::vector<Compiled> stages =
          compile_within_budget(config, model, training_phases(config, "init"), {ranks});
      const Layout& layout = stages.front().layout;
      seen["layout"] =
          std::to_string(static_cast<int>(layout.device)) + " " + std::to_string(layout.link_bytes_per_second);
      for (const Compiled& stage : stages) seen["program"] += text_of(stage.set);
    } catch (const core::Error&) {
      // The program says why.
    }
  }

  Folder folder_;
  fs::path work_;
  std::map<std::string, Evidence> bases_;
};

json effects() {
  return read_json(zrt::test::data_folder() + "/key_effects.json");
}

using Name = std::pair<std::string, std::string>;  // a key's path, and the types that read it

// The implemented keys that are no sections, and what they change.
const std::map<Name, configuration::Effect>& implemented_keys() {
  using namespace configuration;
  static std::map<Name, Effect> names;
  if (!names.empty()) return names;
  for (const Section& section : sections()) {
    for (const Key& key : section.keys) {
      if (key.handling != configuration::Handling::implemented || (key.types & t_object) != 0) continue;
      const std::string variant = section.variant == std::string("zrt") ? "" : section.variant;
      names[{key_path(section, key.name), variant}] = key.effect;
    }
  }
  return names;
}

}  // namespace

TEST_CASE("the table of effects has one line for every implemented key") {
  std::set<Name> listed;
  for (const json& line : effects()) {
    const Name name{line["key"], line.value("of", "")};
    INFO(name.first << " " << name.second);
    CHECK(listed.insert(name).second);
    CHECK(implemented_keys().count(name) == 1);
  }
  for (const auto& [name, effect] : implemented_keys()) {
    INFO(name.first << " " << name.second << " needs a line in tests/data/key_effects.json");
    CHECK(listed.count(name) == 1);
  }
}

TEST_CASE(
    "every implemented key changes what its line in the table of effects says, and only keys of results weights") {
  Experiment experiment;
  for (const json& line : effects()) {
    const std::string key = line["key"], changes = line["changes"], grows = line.value("grows", "");
    const bool results = implemented_keys().at({key, line.value("of", "")}) == configuration::Effect::results;
    INFO(line.dump());
    const json patch = line.value("base", json::object());
    Evidence before = experiment.base(patch, line.value("ranks", 2)), after = experiment.changed(line);
    INFO("before: " << before["refusal"] << "\nafter: " << after["refusal"]);
    CHECK(before["refusal"].empty());
    CHECK(before[changes] != after[changes]);
    if (!grows.empty()) CHECK(before[grows].size() < after[grows].size());
    if (!results && changes != "refusal") CHECK((before["weights"] == after["weights"] && !after["weights"].empty()));
    if (changes == "refusal") {
      CHECK((after["code"] == "2" || after["code"] == "1"));  // the latter where a budget does not hold the run
      CHECK(after["refusal"].find(key) != std::string::npos);
    } else if (key != "run.device") {
      CHECK(after["refusal"].empty());
    }
  }
}

TEST_CASE("two runs of one configuration show no difference") {
  Experiment experiment;
  const json line = {{"key", "run.trace"}, {"value", true}};
  Evidence first = experiment.changed(line), second = experiment.changed(line);
  for (const auto& [name, text] : first) {
    INFO(name);
    CHECK(text == second[name]);
  }
}

}  // namespace zrt::key_effects_test
