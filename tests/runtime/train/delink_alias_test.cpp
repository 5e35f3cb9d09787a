// Delinked layers on the NVMe tier: what they share is written once, until an update changes it, and no bit depends on
// that.
#include "catch.h"
#include "models/sharing.h"
#include "tests/offload/refused.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/train/saving_run.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::delink_alias_test {

using namespace zrt;
using namespace zrt::testing;
using core::Tier;
using models::Sharing;
using runtime::StatesAtDelink;
using runtime::checkpoint::Reader;

namespace {

constexpr int64_t layers = 4;
const Sharing everything{{layers}, {}}, halves{{2, 2}, {}}, all_but_norms{{layers}, {"*ln_*"}};

Placing states_on_nvme(Tier weight = Tier::nvme) {
  return [weight](const runtime::Layout& layout) {
    return uniform(layout, weight, Tier::device, Tier::nvme, Tier::nvme, Tier::device, Tier::host);
  };
}

Setting setting(int ranks, int stage, const Placing& placing) {
  Setting s;
  s.ranks = ranks, s.stage = stage, s.micro_batch = 6 / ranks, s.accumulation = 2;
  s.compute = core::DType::bf16;
  s.unit_elements = 4000;
  s.placement = with_exchanges_on_the_device(placing);
  return s;
}

models::Model whole(const SmallModel& small = {.layers = layers}) {
  return make_small(ModelType::gpt2, small);
}

void leave_shared(const models::Model& model, const Sharing& sharing, const Setting& s,
                  const std::filesystem::path& store) {
  SavingRun run(models::share(model, sharing), s, store, false);
  run.sharing = sharing;
  run.steps(2);
  run.save();
  REQUIRE(run.saved().error.empty());
}

// Bytes that a rank's states have on the NVMe tier; `once` counts those of a group's first layer alone, as whole
// buffers.
uint64_t state_bytes(SavingRun& run, int local, const Sharing& sharing, bool once) {
  const runtime::Compiled& stage = run.session().stage(local);
  uint64_t sum = 0;
  for (size_t u = 0; u < stage.layout.units.units.size(); ++u) {
    const std::string& param = stage.layout.units.units[u].params[0].param->name;
    if (once && models::shared_name(sharing, param) != param) continue;
    std::vector<runtime::BufferId> all = stage.state.states[u];
    all.push_back(stage.state.weight[u]);
    all.push_back(stage.state.master[u]);
    for (const runtime::BufferId id : all) {
      if (id == runtime::no_buffer || stage.set.buffers[id].tier != Tier::nvme) continue;
      sum += stage.set.buffers[id].padded();
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("a delink writes the states of one layer of each group to NVMe, and the steps behind it write them all") {
  for (const Sharing& sharing : {everything, halves}) {
    for (const int stage : {0, 1, 2, 3}) {
      const Setting s = setting(2, stage, states_on_nvme());
      const TemporaryFolder folder;
      leave_shared(whole(), sharing, s, folder.path);
      const Reader reader(folder.path / "step_2", true);
      for (const StatesAtDelink how : {StatesAtDelink::copy, StatesAtDelink::rescale, StatesAtDelink::reset}) {
        SavingRun real(whole(), s, folder.path / "real", false, &reader, how);
        for (int r = 0; r < 2; ++r) {
          const uint64_t all = state_bytes(real, r, sharing, false), one = state_bytes(real, r, sharing, true);
          const auto groups = static_cast<uint64_t>(sharing.groups.size());
          CHECK(one < all * (groups + 1) / layers);  // the rest are embeddings
          CHECK(real.session().file(r)->bytes_written() == one);
          CHECK(real.session().executor(r).moved_bytes().written == one);
        }
        real.steps(1);
        for (int r = 0; r < 2; ++r) {
          const uint64_t written = real.session().file(r)->bytes_written();
          CHECK(written >= state_bytes(real, r, sharing, true) + state_bytes(real, r, sharing, false));
          CHECK(real.session().executor(r).moved_bytes().written == written);
        }
        CHECK(real.as_planned());
      }
    }
  }
}

TEST_CASE("aliases change no bit at a delink or behind it, at every placement, stage and way to take states over") {
  unsigned number = 0;
  const auto all = placings();
  for (const NamedPlacing& placing : all) {
    for (const StatesAtDelink how : {StatesAtDelink::copy, StatesAtDelink::rescale, StatesAtDelink::reset}) {
      if (left_to_processor(number)) continue;
      Setting s = setting(2, static_cast<int>(number % 4), placing.place);
      s.overlap = number % 2 != 0;
      s.compute = number % 3 == 0 ? core::DType::f32 : core::DType::bf16;
      s.stress_seed = number % 5 == 0 ? number + 1 : 0;
      if (number % 7 == 3) s.optimizer = adafactor(true);
      const Sharing& sharing = number % 4 == 1 ? all_but_norms : number % 4 == 2 ? halves : everything;
      const bool background = number++ % 2 != 0;
      const TemporaryFolder folder;
      leave_shared(whole(), sharing, s, folder.path);
      const Reader reader(folder.path / "step_2", true);
      const auto end_of = [&](bool aliases) {
        SavingRun real(whole(), s, folder.path / (aliases ? "with" : "without"), background, &reader, how, aliases);
        std::string hashes = real.hash();
        real.save();  // of what are still aliases
        REQUIRE(real.saved().error.empty());
        for (int step = 0; step < 2; ++step) {
          real.steps(1);
          hashes += " " + real.hash();
        }
        real.save();
        REQUIRE(real.saved().error.empty());
        CHECK(real.as_planned());
        return hashes;
      };
      INFO(placing.name << ", stage " << s.stage << ", " << static_cast<int>(how));
      CHECK(end_of(true) == end_of(false));
      // The optimizer's states too, before and behind the steps.
      for (const char* step : {"step_2", "step_4"}) {
        const Reader with(folder.path / "with" / step, true), without(folder.path / "without" / step, true);
        for (const std::string& name : with.states()->names()) {
          int64_t count = 1;
          for (const int64_t extent : with.states()->shape(name)) count *= extent;
          std::vector<float> one(static_cast<size_t>(count)), other(one.size());
          with.read(name, 0, one), without.read(name, 0, other);
          INFO(step << " " << name);
          CHECK(one == other);
        }
      }
    }
  }
}

TEST_CASE("where a unit has parameters that layers keep to themselves, its other pieces are written once") {
  // A layer is a unit of two pieces of fp32 numbers, and its norms lie in the first.
  const SmallModel small{.layers = layers, .hidden = 192, .heads = 12};
  Setting s = setting(1, 0, states_on_nvme(Tier::device));
  s.unit_elements = 1 << 20;
  const TemporaryFolder folder;
  leave_shared(whole(small), all_but_norms, s, folder.path);
  const Reader reader(folder.path / "step_2", true);
  SavingRun real(whole(small), s, folder.path / "with", false, &reader);
  SavingRun other(whole(small), s, folder.path / "without", false, &reader, StatesAtDelink::copy, false);
  uint64_t second_pieces = 0;
  const runtime::Compiled& stage = real.session().stage(0);
  for (size_t u = 0; u < stage.layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = stage.layout.units.units[u];
    if (models::layer_of(unit.params[0].param->name) < 1) continue;
    const uint64_t bytes = stage.set.buffers[stage.state.master[u]].padded();
    REQUIRE((bytes > offload::piece_bytes && bytes < 2 * offload::piece_bytes));
    for (const optimizer::UnitParam& place : unit.params) {
      const bool shared = models::sharers(all_but_norms, place.param->name) > 1;
      REQUIRE((shared || 4 * static_cast<uint64_t>(place.offset + place.param->elements()) <= offload::piece_bytes));
    }
    second_pieces += (1 + stage.state.states[u].size()) * (bytes - offload::piece_bytes);
  }
  CHECK(second_pieces > 0);
  CHECK(other.session().file(0)->bytes_written() - real.session().file(0)->bytes_written() == second_pieces);
  CHECK(real.hash() == other.hash());
  real.steps(2), other.steps(2);
  CHECK(real.hash() == other.hash());
}

TEST_CASE("a checkpoint of layers that are still aliases resumes to the same bits") {
  const Setting s = setting(2, 3, states_on_nvme());
  const TemporaryFolder folder;
  leave_shared(whole(), everything, s, folder.path);
  const Reader shared(folder.path / "step_2", true);
  SavingRun real(whole(), s, folder.path / "real", false, &shared, StatesAtDelink::rescale);
  real.save();
  REQUIRE(real.saved().error.empty());
  real.steps(2);
  const Reader reader(folder.path / "real/step_2", true);
  const Setting to = setting(2, 1, states_on_nvme(Tier::host));
  SavingRun again(whole(), to, folder.path / "again", false, &reader);
  // Layers that are saved as layers of their own are loaded as such.
  CHECK(again.session().file(0)->bytes_written() == state_bytes(again, 0, everything, false));
  again.steps(2);
  CHECK(again.hash() == real.hash());
}

TEST_CASE("where the disk sets no space aside, a delink writes all layers, so that no later step finds it full") {
  const Setting s = setting(1, 0, states_on_nvme());
  const TemporaryFolder folder;
  leave_shared(whole(), everything, s, folder.path);
  const Reader reader(folder.path / "step_2", true);
  with_refused({SYS_fallocate, EOPNOTSUPP}, [&] {
    SavingRun real(whole(), s, folder.path / "real", false, &reader);
    CHECK(real.session().file(0)->bytes_written() == state_bytes(real, 0, everything, false));
  });
}

}  // namespace zrt::delink_alias_test
