// The search for a mesh: against published meshes, with keys that are fixed, and its command when it is followed.
#include "runtime/search/search.h"

#include <fmt/format.h>

#include <fstream>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "runtime/report/search_page.h"
#include "tests/temporary_folder.h"

namespace zrt::search_test {

using namespace zrt;
using namespace zrt::runtime;
using search::Found;
using search::Result;
using search::Task;

namespace {

const search::Progress silent = [](const std::string&, size_t, size_t) {};

struct File : testing::TemporaryFolder {
  explicit File(const std::string& text) { std::ofstream(path / "c.json") << text; }
  Task task(int ranks, const std::vector<std::string>& sets = {}) const {
    return search::load_task(path / "c.json", sets, ranks);
  }
  // Plans with keys, as `zrt plan` does.
  Plan plan(int ranks, const std::vector<std::string>& sets, const Cluster& cluster) const {
    const Config config = load_config(path / "c.json", sets, ranks);
    return make_plan(config, config.model.make(), training_phases(config, "init"), cluster);
  }
};

// A row of Table 1 of Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters".
struct Row {
  int layers, hidden, heads, tensor, pipeline, ranks, batch, micro;
};

std::string text_of(const Row& row) {
  return fmt::format(
      R"({{"train_batch_size": {}, "fp16": {{"enabled": true}}, "optimizer": {{"type": "AdamW"}},
          "model": {{"type": "gpt2", "layers": {}, "hidden": {}, "heads": {}, "sequence": 2048, "vocab": 51200}}}})",
      row.batch, row.layers, row.hidden, row.heads);
}

std::vector<std::string> settings_of(const Found& found, const Task& task) {
  std::vector<std::string> sets;
  for (const auto& [key, value] : keys_of(found.choice, task)) sets.push_back(key + "=" + value);
  return sets;
}

const char* const small =
    R"({"train_batch_size": 32, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4, "parallel": {"tensor": 2},
        "model": {"type": "gpt2", "layers": 8, "hidden": 1024, "heads": 8, "sequence": 512, "vocab": 2048}})";

}  // namespace

TEST_CASE("a published mesh is no faster in the simulator than the one that is found") {
  const Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  for (const Row& row : std::vector<Row>{{24, 2304, 24, 1, 1, 32, 512, 16},
                                         {30, 3072, 32, 2, 1, 64, 512, 16},
                                         {36, 4096, 32, 4, 1, 128, 512, 16},
                                         {48, 8192, 64, 8, 2, 512, 1536, 4}}) {
    CAPTURE(row.layers, row.hidden);
    const File file(text_of(row));
    const Task task = file.task(row.ranks);
    const Result result = search::search(task, cluster, 8, silent);
    REQUIRE(!result.found.empty());
    const Plan published =
        file.plan(row.ranks,
                  {fmt::format("parallel.tensor={}", row.tensor), fmt::format("parallel.pipeline={}", row.pipeline),
                   fmt::format("train_micro_batch_size_per_gpu={}", row.micro), "memory.recompute=full"},
                  cluster);
    CHECK(result.found.front().seconds <= published.seconds_per_step());
    // Followed, it fits and takes what was said of it; steps of many microbatches were told from shorter ones.
    const Plan followed = file.plan(row.ranks, settings_of(result.found.front(), task), cluster);
    CHECK(followed.fits);
    CHECK(followed.seconds_per_step() == Approx(result.found.front().seconds).epsilon(0.01));
    // A run has more phases and brings more ahead than what was compared; both are of one step.
    CHECK(static_cast<double>(followed.stages.front().compiled.plan.device().peak_bytes) ==
          Approx(static_cast<double>(result.found.front().peaks[0])).epsilon(0.01));
  }
}

TEST_CASE("a search keeps the batch and the keys that the command line gives, and takes the file's mesh for open") {
  const Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  const File file(small);
  const Task task = file.task(8, {"zero_optimization.stage=1", "parallel.pipeline=2", "memory.recompute=selective"});
  const Result result = search::search(task, cluster, 100, silent);
  REQUIRE(result.found.size() > 3);
  bool other_tensor = false;
  double before = 0;
  for (const Found& found : result.found) {
    CHECK(found.choice.stage == 1);
    CHECK(found.choice.pipeline == 2);
    CHECK(found.choice.recompute == "selective");
    CHECK(found.choice.tensor * 2 * found.choice.data(task) == 8);
    CHECK(found.choice.micro * found.choice.microbatches(task) * found.choice.data(task) == 32);
    CHECK(found.seconds >= before);
    before = found.seconds;
    other_tensor = other_tensor || found.choice.tensor != 2;
  }
  CHECK(other_tensor);
  const std::string text = search_text(result, task, cluster, {1e9, 2}, "zrt train c.json --ranks 8");
  CHECK(text.find("parallel.pipeline = 2, as the command line says") != std::string::npos);
  const double hours = result.found.front().seconds * 1e9 / (32 * 512) / 3600 * 8;
  CHECK(text.find(fmt::format("{:.0f} GPU-hours, which cost {:.0f} at 2 each", hours, 2 * hours)) != std::string::npos);
}

TEST_CASE(
    "what a search says of a way is what its keys plan, also on odd numbers of ranks with microbatches of any size") {
  const Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  const File file(R"({"train_batch_size": 1, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
                      "model": {"preset": "gpt2-350m"}})");
  struct Case {
    int ranks, batch;
  };
  for (const auto& [ranks, batch] : std::vector<Case>{{7, 96}, {6, 60}, {8, 24}}) {
    const std::string batches = fmt::format("train_batch_size={}", batch);
    Task task = file.task(ranks, {batches});
    task.cluster = "dgx-a100";
    const Result result = search::search(task, cluster, 6, silent);
    INFO(ranks << " ranks, " << batch << " samples");
    REQUIRE(!result.found.empty());
    for (const Found& found : result.found) {
      if (found.choice.pipeline > 1) continue;
      std::vector<std::string> sets = settings_of(found, task);
      sets.push_back(batches);
      const Plan plan = file.plan(ranks, sets, cluster);
      CHECK(plan.seconds_per_step() == Approx(found.seconds).epsilon(1e-6));
    }
    // Microbatches that are no powers of two count, too.
    if (ranks == 8) {
      const Plan three = file.plan(
          8, {batches, "zero_optimization.stage=3", "train_micro_batch_size_per_gpu=3", "parallel.cluster=dgx-a100"},
          cluster);
      CHECK(result.found.front().seconds <= three.seconds_per_step() * 1.001);
    }
  }
}

TEST_CASE("a search keeps a key by any of its names, in a section or alone, and a mesh's other keys, too") {
  const File file(small);
  const auto fixed = [&](const std::vector<std::string>& sets) { return file.task(8, sets).fixed; };
  using Keys = std::map<std::string, std::string>;
  CHECK(fixed({R"(zero_optimization={"stage": 2})"}) == Keys{{"zero_optimization.stage", "2"}});
  CHECK(fixed({"zero_optimization.stage=1.0"}) == Keys{{"zero_optimization.stage", "1"}});
  CHECK(fixed({R"(parallel={"pipeline": 4})"}) == Keys{{"parallel.pipeline", "4"}});
  CHECK(fixed({"pipeline.stages=4"}) == Keys{{"parallel.pipeline", "4"}});
  CHECK(fixed({"parallel.pipeline_model_parallel_size=4"}) == Keys{{"parallel.pipeline", "4"}});
  CHECK(fixed({"activation_checkpointing.partition_activations=true"}) == Keys{{"parallel.sequence", "true"}});
  const Task windows = file.task(8, {"parallel.reduce_every=2"});
  CHECK(keys_of({}, windows).back() == std::pair<std::string, std::string>{"parallel.reduce_every", "2"});
  CHECK(!search::choices(file.task(1, {"parallel.sequence=true"}), 8).empty());
  CHECK(fixed({"parallel.reduce_every=2", "memory.recompute=auto"}) == Keys{{"parallel.reduce_every", "2"}});
  const Task task = file.task(8, {"gradient_clipping=0.5", "parallel.tensor=2", "optimizer.params.lr=1e-4"});
  CHECK(task.others == std::vector<std::string>{"gradient_clipping=0.5", "optimizer.params.lr=0.0001"});
  for (const search::Choice& choice : search::choices(file.task(8, {"train_micro_batch_size_per_gpu=2"}), 8)) {
    CHECK(choice.micro == 2);
  }
  const auto gpipe = search::choices(file.task(8, {"parallel.schedule=gpipe", "parallel.pipeline=2"}), 8);
  REQUIRE(!gpipe.empty());
  for (const search::Choice& choice : gpipe) CHECK(choice.schedule == "gpipe");
  for (const search::Choice& choice : search::choices(file.task(8, {"parallel.sequence=false"}), 8)) {
    CHECK(!choice.sequence);
  }
}

TEST_CASE("a key that leaves no way is refused with its values that would") {
  const File file(small);
  const auto refusal = [&](const std::vector<std::string>& sets) -> std::string {
    try {
      search::choices(file.task(8, sets), 8);
    } catch (const core::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const std::string tensor = refusal({"parallel.tensor=3"});
  CHECK(tensor.find("parallel.tensor = 3 (command line) leaves no way to spread 8 ranks") == 0);
  CHECK(tensor.find("Legal beside the other keys: 1, 2, 4, 8.") != std::string::npos);
  CHECK(refusal({"train_micro_batch_size_per_gpu=5"}).find("keys: 1, 2, 4, 8, 16, 32.") != std::string::npos);
  CHECK(refusal({"zero_optimization.stage=2", "parallel.tensor=16"}).find("parallel.tensor = 16") == 0);
}

TEST_CASE("ways that do not fit the device are left out, and where none does the search says so") {
  Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  const File file(small);
  const Task task = file.task(8);
  const Result all = search::search(task, cluster, 200, silent);
  uint64_t most = 0;
  for (const Found& found : all.found) most = std::max(most, found.peaks[0]);
  auto& device = cluster.tier_bytes[static_cast<size_t>(core::Tier::device)];
  device = cluster.reserved.bytes() + most / 2;
  const Result fewer = search::search(task, cluster, 200, silent);
  REQUIRE(!fewer.found.empty());
  for (const Found& found : fewer.found) CHECK(found.peaks[0] <= most / 2);
  device = cluster.reserved.bytes() + 1'000'000;
  const Result none = search::search(task, cluster, 200, silent);
  CHECK(none.found.empty());
  CHECK(search_text(none, task, cluster, {}, "").find("None of them fits") != std::string::npos);
}

TEST_CASE("where no way fits the device, states leave it, and the first way's plan is what the search says") {
  Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  const File file(small);
  const Task task = file.task(8);
  uint64_t room = UINT64_MAX;
  for (const Found& found : search::search(task, cluster, 200, silent).found) room = std::min(room, found.peaks[0]);
  room = room / 4 * 3;
  cluster.tier_bytes[static_cast<size_t>(core::Tier::device)] = cluster.reserved.bytes() + room;
  const Result result = search::search(task, cluster, 24, silent);
  REQUIRE(!result.found.empty());
  CHECK(result.offloads);
  for (const Found& found : result.found) {
    CHECK(found.peaks[0] <= room);
    CHECK(found.peaks[1] > 0);
  }
  const Plan followed = file.plan(8, settings_of(result.found.front(), task), cluster);
  CHECK(followed.fits);
  CHECK(followed.seconds_per_step() == Approx(result.found.front().seconds).epsilon(0.02));
  CHECK(search_text(result, task, cluster, {}, "").find("leave the device") != std::string::npos);
}

TEST_CASE("a search spreads experts over ranks, in degrees that divide them") {
  const Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  const File file(R"({"train_batch_size": 32, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
      "model": {"type": "gpt2", "layers": 4, "hidden": 1024, "heads": 8, "sequence": 512, "vocab": 2048,
                "experts": {"number": 12, "ffn": 4096, "top_k": 2, "capacity_factor": 1.25}}})");
  const Task task = file.task(8);
  CHECK(task.experts == 12);
  std::set<int> degrees;
  for (const search::Choice& choice : search::choices(task, 8)) {
    degrees.insert(choice.expert);
    CHECK(choice.data(task) % choice.expert == 0);
  }
  CHECK(degrees == std::set{1, 2, 4});
  const Task fixed = file.task(8, {"parallel.expert=2"});
  const Result result = search::search(fixed, cluster, 24, silent);
  REQUIRE(!result.found.empty());
  for (const Found& found : result.found) CHECK(found.choice.expert == 2);
  const Plan followed = file.plan(8, settings_of(result.found.front(), fixed), cluster);
  CHECK(followed.fits);
  CHECK(followed.seconds_per_step() == Approx(result.found.front().seconds).epsilon(0.01));
  CHECK(search_text(result, fixed, cluster, {}, "").find("experts over") != std::string::npos);
}

TEST_CASE("the page of a search draws every way that fits and the fastest for each amount of memory") {
  const Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  const File file(small);
  const Task task = file.task(8);
  const Result result = search::search(task, cluster, 12, silent);
  REQUIRE(result.found.size() > 3);
  const std::string html = search_page(result, task, cluster, {1e9, 2}, "zrt train c.json --ranks 8");
  size_t points = 0;
  for (size_t at = 0; (at = html.find("<circle", at)) != std::string::npos; ++at) ++points;
  CHECK(points == 3 * result.found.size() - 1);  // one of the way, two of the stairs, which begin with the first
  for (const Found& found : result.found) {
    CHECK(html.find(fmt::format("train_micro_batch_size_per_gpu={} ", found.choice.micro)) != std::string::npos);
  }
  CHECK(html.find("zrt train c.json --ranks 8 --set parallel.tensor=") != std::string::npos);
  CHECK(html.find("GPU-hours") != std::string::npos);
}

TEST_CASE("a search needs the batch, and layers of their own") {
  const File without(R"({"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW"},
    "model": {"type": "gpt2", "layers": 2, "hidden": 64, "heads": 2, "sequence": 32, "vocab": 257}})");
  CHECK_THROWS_AS(without.task(4), core::ConfigError);
  const File shared(R"({"train_batch_size": 4, "optimizer": {"type": "AdamW"}, "pseudo_to_real": {"groups": 1},
    "model": {"type": "gpt2", "layers": 2, "hidden": 64, "heads": 2, "sequence": 32, "vocab": 257, "tied": false}})");
  const Cluster cluster = load_cluster(ZRT_SOURCE_DIR "/share/clusters/dgx-a100.json");
  CHECK_THROWS_AS(search::search(shared.task(4), cluster, 4, silent), core::ConfigError);
}

}  // namespace zrt::search_test
