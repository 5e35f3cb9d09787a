// samples.jsonl of runs against the order of data: what is read when, by whom, after crashes, on other ranks, and by
// runs that are resumed for fewer or more steps.
#include <array>

#include "program.h"
#include "runtime/data/blended_dataset.h"
#include "runtime/data/sampler.h"

namespace zrt::samples_test {

using namespace zrt::testing;
using nlohmann::json;
namespace data = zrt::runtime::data;

namespace {

constexpr int64_t sequence = 32, batch = 12, seed = 5;  // gpt2-tiny's sequence would leave a handful of samples

// Two datasets, of which a run of 12 steps reads several epochs.
std::vector<data::WeightedPrefix> make_data(const Folder& folder) {
  std::vector<data::WeightedPrefix> prefixes;
  for (const auto& [name, lines, weight] : {std::tuple{"a", 40, 2.0}, std::tuple{"b", 25, 1.0}}) {
    std::ofstream text(folder.path / (std::string(name) + ".txt"));
    for (int i = 0; i < lines; ++i) text << "document " << name << ' ' << i * 7919 % 1000 << " says little\n\n";
    text.close();
    const Result built = run_zrt("data build --out " + (folder / name) + ' ' + (folder / (std::string(name) + ".txt")));
    INFO(built.text);
    REQUIRE(built.code == 0);
    prefixes.push_back({weight, folder / name});
  }
  return prefixes;
}

struct Samples {
  Folder folder;
  std::vector<data::WeightedPrefix> prefixes;
  explicit Samples(const std::string& name) : folder(name), prefixes(make_data(folder)) {
    json sources = json::array();
    for (const data::WeightedPrefix& prefix : prefixes) sources.push_back({prefix.weight, prefix.prefix});
    folder.write("run.json", json{{"train_batch_size", batch},
                                  {"train_micro_batch_size_per_gpu", 2},
                                  {"optimizer", {{"type", "AdamW"}}},
                                  {"zero_optimization", {{"stage", 1}}},
                                  {"model", {{"preset", "gpt2-tiny"}, {"sequence", sequence}}},
                                  {"data", {{"train", sources}}},
                                  {"run",
                                   {{"seed", seed},
                                    {"out", folder / "run"},
                                    {"log_samples", true},
                                    {"checkpoint_interval", 4},
                                    {"keep_every", 4}}}}
                                 .dump());
  }
  std::string command(int ranks, int steps, const std::string& more = "") const {
    return "train " + (folder / "run.json") + " --ranks " + std::to_string(ranks) + " --steps " +
           std::to_string(steps) + ' ' + more;
  }
  std::vector<json> lines() const {
    std::ifstream in(folder.path / "run/samples.jsonl");
    std::vector<json> found;
    for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
    return found;
  }
  // Lines of steps [first, last] are what `ranks` ranks read of an order laid out for `planned` samples.
  void check(int64_t first, int64_t last, int64_t ranks, int64_t planned) const {
    data::GptDatasetOptions common;
    common.sequence = sequence, common.vocabulary = 1 << 20, common.seed = seed;
    const auto source = data::open_training_data(prefixes, planned, common);
    const data::BatchShape shape{2, ranks, batch / 2 / ranks};
    const std::vector<json> all = lines();
    for (int64_t step = first; step <= last; ++step) {
      const json& line = all.at(static_cast<size_t>(step - 1));
      INFO(line);
      REQUIRE(line["step"] == step);
      json expected = json::array();
      for (int64_t rank = 0; rank < ranks; ++rank) {
        json samples = json::array();
        for (int64_t microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
          for (int64_t row = 0; row < shape.rows; ++row) {
            // Rank r takes the r-th of every `ranks` runs of samples.
            const int64_t number = (step - 1) * batch + (microbatch * ranks + rank) * shape.rows + row;
            const data::SampleOrigin origin = source->origin(number);
            samples.push_back({number, origin.dataset, origin.document, origin.offset});
          }
        }
        expected.push_back(samples);
      }
      CHECK(line["ranks"] == expected);
    }
  }
};

void run(const std::string& command) {
  const Result result = run_zrt(command);
  INFO(result.text);
  REQUIRE(result.code == 0);
}

}  // namespace

TEST_CASE("Every step's samples are those of the order of data, whichever rank reads them") {
  const int ranks = GENERATE(1, 2, 3);
  const Samples samples("samples_" + std::to_string(ranks));
  run(samples.command(ranks, 12));
  CHECK(samples.lines().size() == 12);
  samples.check(1, 12, ranks, 12 * batch);
}

TEST_CASE("A run that is killed and goes on with other ranks reads no sample twice and leaves none out") {
  const Samples samples("samples_killed");
  const std::string first = samples.folder / "run/checkpoints/step_4";  // written beside training
  const Result killed = run_command(ZRT_BINARY_DIR "/zrt " + samples.command(3, 400) + " & run=$!; while kill -0 $run" +
                                    " && [ ! -e " + first + " ]; do sleep 0.01; done; kill -9 $run; wait $run");
  INFO(killed.text);
  CHECK(killed.code == 137);
  run(samples.command(2, 400, "--resume auto --set run.checkpoint_interval=0 --set run.keep_every=0"));
  const std::vector<json> lines = samples.lines();
  REQUIRE(lines.size() == 400);
  size_t resumed = 0;  // the first step of two ranks
  while (resumed < lines.size() && lines[resumed]["ranks"].size() == 3) ++resumed;
  CHECK(resumed % 4 == 0);
  CHECK(resumed >= 4);
  CHECK(resumed < 400);
  samples.check(1, static_cast<int64_t>(resumed), 3, 400 * batch);
  samples.check(static_cast<int64_t>(resumed) + 1, 400, 2, 400 * batch);
}

TEST_CASE("A run that is resumed for fewer steps keeps the order that it was laid out for") {
  const Samples samples("samples_shorter");
  run(samples.command(1, 12));
  for (const char* newer : {"step_8", "step_12"}) fs::remove_all(samples.folder.path / "run/checkpoints" / newer);
  run(samples.command(3, 7, "--resume " + (samples.folder / "run/checkpoints/step_4")));
  CHECK(samples.lines().size() == 7);
  samples.check(1, 4, 1, 12 * batch);
  samples.check(5, 7, 3, 12 * batch);
}

TEST_CASE("A run that is resumed for more steps says that the order changes and reads on in the longer one") {
  const Samples samples("samples_longer");
  run(samples.command(2, 8));
  const Result longer = run_zrt(samples.command(1, 30, "--resume auto"));
  INFO(longer.text);
  CHECK(longer.code == 0);
  CHECK(longer.text.find("laid out for 96 samples and is now for 360") != std::string::npos);
  samples.check(1, 8, 2, 8 * batch);
  samples.check(9, 30, 1, 30 * batch);
}

TEST_CASE("A run that is resumed for more steps in the same epochs says nothing, since the order stays") {
  const Samples samples("samples_little_longer");
  data::GptDatasetOptions common;
  common.sequence = sequence, common.vocabulary = 1 << 20, common.seed = seed;
  const auto order = [&](int64_t steps, int64_t first) {  // of the first `first` steps
    const auto source = data::open_training_data(samples.prefixes, steps * batch, common);
    std::vector<std::array<int64_t, 3>> origins;
    for (int64_t i = 0; i < first * batch; ++i) {
      const data::SampleOrigin origin = source->origin(i);
      origins.push_back({origin.dataset, origin.document, origin.offset});
    }
    return origins;
  };
  int64_t steps = 2;
  while (steps < 30 && order(steps, steps) != order(steps + 1, steps)) ++steps;
  REQUIRE(steps < 30);
  run(samples.command(2, static_cast<int>(steps)));
  const Result longer = run_zrt(samples.command(2, static_cast<int>(steps) + 1, "--resume auto"));
  INFO(longer.text);
  CHECK(longer.code == 0);
  CHECK(longer.text.find("laid out for") == std::string::npos);
  samples.check(1, steps, 2, steps * batch);
  samples.check(steps + 1, steps + 1, 2, (steps + 1) * batch);
}

TEST_CASE("A run that takes a checkpoint's weights alone reads its data from the beginning") {
  const Samples samples("samples_weights");
  run(samples.command(2, 4));
  fs::rename(samples.folder.path / "run", samples.folder.path / "first");
  run(samples.command(2, 6, "--set run.load_module_only=true --resume " + (samples.folder / "first")));
  CHECK(samples.lines().size() == 6);
  samples.check(1, 6, 2, 6 * batch);
}

TEST_CASE("Without run.log_samples no such file is written, and none of an earlier run stays") {
  const Samples samples("samples_off");
  run(samples.command(1, 2, "--set run.log_samples=false"));
  CHECK_FALSE(fs::exists(samples.folder.path / "run/samples.jsonl"));
  run(samples.command(1, 4, "--resume auto"));
  CHECK(samples.lines().size() == 2);  // steps 3 and 4
  run(samples.command(1, 6, "--resume auto --set run.log_samples=false"));
  CHECK_FALSE(fs::exists(samples.folder.path / "run/samples.jsonl"));
}

}  // namespace zrt::samples_test
