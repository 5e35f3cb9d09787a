// A run that stops and goes on: the same bits on the same mesh, the same weights on any.
#include <chrono>
#include <fstream>

#include "catch.h"
#include "optimizer/groups.h"
#include "runtime/toy_model.h"
#include "runtime/train/checkpoint/reader.h"
#include "runtime/train/saving_run.h"
#include "temporary_folder.h"

namespace zrt::checkpoint_resume_test {

using namespace zrt;
using testing::Islands;
using testing::Setting;
using Run = testing::SavingRun;
namespace fs = std::filesystem;

namespace {

constexpr int64_t batch = 12;  // samples per step, whatever the ranks

Setting setting(int ranks, int stage, core::DType compute = core::DType::f32) {
  Setting s;
  s.ranks = ranks;
  s.stage = stage;
  s.compute = compute;
  s.micro_batch = 1;
  s.accumulation = static_cast<uint32_t>(batch / ranks);
  s.unit_elements = 300;  // several units, with shards that end in mid row
  s.overlap = stage == 3;
  return s;
}

models::Model toy() {
  return testing::make_toy(3, 12, 17, 5, false, false);
}

#if defined(__SANITIZE_THREAD__)
constexpr int most_ranks = 2, further_steps = 3;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int most_ranks = 4, further_steps = 3;
#else
constexpr int most_ranks = 4, further_steps = 50;
#endif

}  // namespace

TEST_CASE("Going on from any step gives the bits of a run that did not stop") {
  const models::Model model = toy();
  for (auto compute : {core::DType::f32, core::DType::bf16, core::DType::f16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const Setting s = setting(2, stage, compute);
      const testing::TemporaryFolder folder;
      std::string expected;
      {
        Run whole(model, s, folder.path, true);
        for (int step = 0; step < 6; ++step) {
          whole.steps(1);
          whole.save();  // beside the next step
        }
        CHECK(whole.saved().error.empty());
        expected = whole.hash();
        for (int r = 0; r < 2; ++r) {
          CHECK(whole.session().arena(r, core::Tier::host)->highest_touched() ==
                whole.session().stage(r).plan.host().peak_bytes);
        }
      }
      for (int step = 1; step <= 6; ++step) {
        INFO(core::dtype_name(compute) << ", stage " << stage << ", step " << step);
        const runtime::checkpoint::Reader reader(folder.path / ("step_" + std::to_string(step)), true);
        Run again(model, s, folder.path / "again", false, &reader);
        again.steps(6 - step);
        CHECK(again.hash() == expected);
      }
    }
  }
}

TEST_CASE("A checkpoint of any ranks and stage loads on any other to the same weights, and 50 more steps agree") {
  const models::Model model = toy();
  std::vector<float> reference;
  {
    const testing::TemporaryFolder folder;
    Run alone(model, setting(1, 0), folder.path, false);
    alone.steps(10 + further_steps);
    reference = alone.weights();
  }
  double worst = 0;
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    for (int stage = 0; stage <= 3; ++stage) {
      const testing::TemporaryFolder folder;
      Run first(model, setting(ranks, stage), folder.path, stage % 2 == 1);
      first.steps(10);
      first.save();
      REQUIRE(first.saved().error.empty());
      const std::string hash = first.hash();
      const runtime::checkpoint::Reader reader(folder.path / "step_10", true);
      for (int other = 1; other <= most_ranks; ++other) {
        for (int other_stage = 0; other_stage <= 3; ++other_stage) {
          INFO(ranks << " ranks at stage " << stage << " to " << other << " at stage " << other_stage);
          Run second(model, setting(other, other_stage), folder.path / "other", false, &reader);
          CHECK(second.hash() == hash);
          second.steps(further_steps);
          worst = std::max(worst, testing::relative_l2(second.weights(), reference));
        }
      }
    }
  }
  CHECK(worst < 1e-5);
}

TEST_CASE("Shards of groups, secondary shards and persistent units save and load like others") {
  const models::Model model = toy();
  for (auto compute : {core::DType::f32, core::DType::bf16}) {
    for (bool background : {false, true}) {
      for (Islands groups :
           {Islands{1, false, false, false}, Islands{2, false, false, true}, Islands{2, true, true, false}}) {
        for (int64_t persistence : {0, 20}) {
          Setting s = setting(4, 3, compute);
          s.groups = groups, s.persistence = persistence;
          INFO(core::dtype_name(compute) << ", background " << background << ", replicated " << groups.replicated
                                         << ", secondary " << groups.secondary << ", persistence " << persistence);
          const testing::TemporaryFolder folder;
          Run whole(model, s, folder.path, background);
          whole.steps(2);
          whole.save();
          REQUIRE(whole.saved().error.empty());
          const std::string saved = whole.hash();
          whole.steps(2);
          const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
          Run again(model, s, folder.path / "again", false, &reader);
          CHECK(again.hash() == saved);
          again.steps(2);
          CHECK(again.hash() == whole.hash());
          Run plain(model, setting(2, 1, compute), folder.path / "plain", false, &reader);
          CHECK(plain.hash() == saved);
        }
      }
    }
  }
}

TEST_CASE("What a save writes beside training is what the weights were when it was asked for") {
  const models::Model model = toy();
  const testing::TemporaryFolder folder;
  Run run(model, setting(3, 3, core::DType::bf16), folder.path, true);
  run.steps(2);
  const auto before = run.tensors();
  run.save();
  run.steps(3);
  REQUIRE(run.saved().error.empty());
  const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    std::vector<float> values(static_cast<size_t>(param.elements()));
    reader.read(param.name, 0, values);
    REQUIRE(values == before.at(param.name));
  }
  CHECK(reader.states()->names().size() == 2 * reader.weights().names().size());
}

TEST_CASE("Training stands still for a save while states are copied and while its end is waited for") {
  const testing::TemporaryFolder folder;
  Run run(testing::make_toy(2, 128, 512, 5, false, false), setting(1, 0), folder.path, true);
  const auto seconds_of = [](const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // A busy machine may hold the test up between its clock and that of the save, but not each time.
  bool both_count = false;
  for (int round = 0; round < 20 && !both_count; ++round) {
    run.steps(1);
    const double copying = seconds_of([&] { run.save(); });
    run.steps(1);
    runtime::SaveOutcome outcome;
    const double waiting = seconds_of([&] { outcome = run.saved(); });
    CAPTURE(copying, waiting, outcome.stall_seconds);
    REQUIRE(outcome.error.empty());
    REQUIRE(outcome.stall_seconds <= copying + waiting);
    both_count = outcome.stall_seconds > waiting + copying / 2;
  }
  CHECK(both_count);
}

TEST_CASE("A save that cannot be written is reported with its reason, and training goes on") {
  const models::Model model = toy();
  const testing::TemporaryFolder folder;
  Run run(model, setting(2, 3), folder.path / "file", true);
  std::ofstream(folder.path / "file") << "in the way";
  run.steps(1);
  run.save();
  run.steps(2);
  CHECK(run.saved().error.find("file") != std::string::npos);
  fs::remove(folder.path / "file");
  run.save();
  CHECK(run.saved().error.empty());
}

TEST_CASE("States of any form and weights without a master go on as if they had not stopped", "[long]") {
  const models::Model model = testing::make_toy(2, 40, 83, 5, false, false);  // one parameter of one and a half blocks
  for (auto moments : {optimizer::Moments::f32, optimizer::Moments::bf16, optimizer::Moments::int8}) {
    for (bool master : {true, false}) {
      for (bool background : {false, true}) {
        for (int stage : {0, 3}) {
          Setting s = setting(3, stage, core::DType::bf16);
          s.master = master;
          s.optimizer = make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true, moments});
          INFO("moments " << static_cast<int>(moments) << ", master " << master << ", background " << background
                          << ", stage " << stage);
          const testing::TemporaryFolder folder;
          Run whole(model, s, folder.path, background);
          whole.steps(3);
          whole.save();
          REQUIRE(whole.saved().error.empty());
          const std::string saved = whole.hash();
          whole.steps(3);
          const runtime::checkpoint::Reader reader(folder.path / "step_3", true);
          Run again(model, s, folder.path / "again", false, &reader);
          CHECK(again.hash() == saved);
          again.steps(3);
          CHECK(again.hash() == whole.hash());
          // Saved in fp32, they load on other ranks and into states of another form.
          Run plain(model, setting(2, 1, core::DType::bf16), folder.path / "plain", false, &reader);
          CHECK(plain.hash() == saved);
        }
      }
    }
  }
}

TEST_CASE("Checkpoints go from any pipeline, data-parallel ranks and ZeRO stage to any other") {
  using runtime::ScheduleKind;
  struct Mesh {
    int stages, chunks, ranks, zero;
  };
  constexpr std::array meshes{Mesh{1, 1, 2, 3}, Mesh{2, 1, 1, 0}, Mesh{3, 1, 2, 2}, Mesh{2, 2, 2, 3}};
  for (const bool tied : {false, true}) {
    const models::Model model = testing::make_toy(6, 12, 17, 5, tied, false);
    const auto of = [&](const Mesh& mesh) {
      Setting s = setting(mesh.ranks, mesh.zero);
      s.accumulation = s.reduce_every = 4, s.micro_batch = 1;
      s.schedule = {mesh.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b, mesh.stages, 4,
                    mesh.chunks, mesh.chunks > 1 ? mesh.stages : 1};
      return s;
    };
    for (size_t from = 0; from < meshes.size(); ++from) {
      const bool background = from % 2 == 0;
      const testing::TemporaryFolder folder;
      Run whole(model, of(meshes[from]), folder.path, background);
      whole.steps(2);
      whole.save();
      REQUIRE(whole.saved().error.empty());
      const std::string saved = whole.hash();
      whole.steps(2);
      const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
      for (const size_t to : {from, (from + 1 + tied) % meshes.size()}) {
        Run again(model, of(meshes[to]), folder.path / "again", false, &reader);
        CAPTURE(tied, from, to, background);
        CHECK(again.hash() == saved);
        again.steps(2);
        if (from == to) CHECK(again.hash() == whole.hash());
        CHECK(again.as_planned());
      }
    }
  }
}

TEST_CASE("A checkpoint of other parameter groups is refused with the parameter, its optimizer and what to do") {
  const models::Model model = toy();
  const testing::TemporaryFolder folder;
  const auto grouped = [](const optimizer::OptimizerPtr& of_biases) {
    Setting s = setting(2, 3);
    s.optimizer = make_grouped(make_optimizer(optimizer::AdamParams{}), {{{"*.bias"}, {}, 1, of_biases}});
    return s;
  };
  Run lion(model, grouped(make_optimizer(optimizer::LionParams{})), folder.path, false);
  lion.steps(1);
  lion.save();
  REQUIRE(lion.saved().error.empty());
  const runtime::checkpoint::Reader reader(folder.path / "step_1", true);
  CHECK_THROWS_WITH(Run(model, grouped(nullptr), folder.path / "again", false, &reader),
                    Catch::Contains(".bias' is to be updated by AdamW, and the checkpoint has what Lion keeps of it") &&
                        Catch::Contains("parameter_groups") && Catch::Contains("run.load_module_only"));
  // Lion's moments have the name of AdamW's first ones: what lacks is not all there is to see.
  Setting others = setting(2, 3);
  others.optimizer = make_grouped(make_optimizer(optimizer::LionParams{}),
                                  {{{"*.bias"}, {}, 1, make_optimizer(optimizer::AdamParams{})}});
  CHECK_THROWS_WITH(Run(model, others, folder.path / "again", false, &reader), Catch::Contains("AdamW keeps of it"));
  // The same states, but AdamW twice where there was one.
  const testing::TemporaryFolder other;
  Run one(model, grouped(nullptr), other.path, false);
  one.steps(1);
  one.save();
  REQUIRE(one.saved().error.empty());
  const runtime::checkpoint::Reader of_one(other.path / "step_1", true);
  const Setting two = grouped(make_optimizer(optimizer::AdamParams{.beta1 = 0.8f}));
  CHECK_THROWS_WITH(Run(model, two, other.path / "again", false, &of_one),
                    Catch::Contains("updates_1") && Catch::Contains("parameter_groups"));
}

}  // namespace zrt::checkpoint_resume_test
