// Layers that shared their parameters go on with parameters of their own.
#include "catch.h"
#include "models/sharing.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/train/saving_run.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::delink_test {

using namespace zrt;
using namespace zrt::testing;
using models::Sharing;
using runtime::StatesAtDelink;
using runtime::checkpoint::Reader;

namespace {

const Sharing all_but_norms{{4}, {"*ln_*", "*norm*", "*LayerNorm*"}};

models::Model whole(ModelType type, const Setting& s) {
  return make_small(type, {.layers = 4, .degrees = {s.tensor, s.rows}});
}

Setting setting(int ranks, int stage, unsigned placing) {
  Setting s;
  s.ranks = ranks, s.stage = stage, s.micro_batch = 6 / ranks, s.accumulation = 2, s.unit_elements = 4000;
  const auto all = placings();
  if (placing > 0) s.placement = with_exchanges_on_the_device(all[placing % all.size()].place);
  return s;
}

// Trains shared layers, and leaves a checkpoint of step 2. Returns its weights.
std::map<std::string, std::vector<float>> leave_shared(ModelType type, const Setting& s,
                                                       const std::filesystem::path& store, bool background) {
  SavingRun run(models::share(whole(type, s), all_but_norms), s, store, background);
  run.sharing = all_but_norms;
  run.steps(2);
  run.save();
  REQUIRE(run.saved().error.empty());
  return run.tensors();
}

}  // namespace

TEST_CASE("delinked layers begin with the weights that they shared, on every mesh and placement, and go on alike") {
  for (const ModelType type : {ModelType::gpt2, ModelType::llama, ModelType::bert}) {
    std::string before, after;
    for (unsigned number = 0; number < 5; ++number) {
      const Setting from = setting(2, static_cast<int>(number % 4), number);
      const Setting to = setting(2, static_cast<int>((number + 1) % 4), number * 2);
      const TemporaryFolder folder;
      const auto shared = leave_shared(type, from, folder.path, number % 2 == 1);
      const Reader reader(folder.path / "step_2", true);
      REQUIRE(reader.sharing() == all_but_norms);
      SavingRun real(whole(type, to), to, folder.path / "real", false, &reader);
      for (const auto& [name, values] : real.tensors()) {
        INFO(name);
        CHECK(values == shared.at(models::shared_name(all_but_norms, name)));
      }
      const std::string first = real.hash();
      real.steps(2);
      if (number == 0) before = first, after = real.hash();
      CHECK(first == before);
      CHECK(real.hash() == after);
      CHECK(real.as_planned());
    }
  }
}

TEST_CASE("delinked layers get the optimizer's states as they are, as zeros, or divided by the layers of the group") {
  for (const auto& algorithm :
       {make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f}), adafactor(true), muon()}) {
    Setting s = setting(2, 2, 0);
    s.optimizer = algorithm;
    const TemporaryFolder folder;
    leave_shared(ModelType::gpt2, s, folder.path, false);
    const Reader shared(folder.path / "step_2", true);
    for (const StatesAtDelink how : {StatesAtDelink::copy, StatesAtDelink::reset, StatesAtDelink::rescale}) {
      const auto store = folder.path / std::to_string(static_cast<int>(how));
      SavingRun real(whole(ModelType::gpt2, s), s, store, false, &shared, how);
      real.save();
      REQUIRE(real.saved().error.empty());
      const Reader reader(store / "step_2", true);
      CHECK(!reader.sharing());
      size_t shared_states = 0, squares = 0;
      for (const std::string& name : reader.states()->names()) {
        const std::string param = name.substr(name.find('.') + 1);
        const int64_t count = [&] {
          int64_t elements = 1;
          for (const int64_t extent : reader.states()->shape(name)) elements *= extent;
          return elements;
        }();
        std::vector<float> was(static_cast<size_t>(count)), is(was.size());
        shared.read(name, 0, was), reader.read(name, 0, is);
        const bool square = name.starts_with("exp_avg_sq");
        const float layers = models::sharers(all_but_norms, param) > 1 ? 4 : 1;
        shared_states += layers > 1, squares += layers > 1 && square;
        for (float& value : was) {
          if (layers == 1 || how == StatesAtDelink::copy) continue;
          value = how == StatesAtDelink::reset ? 0 : value / (square ? layers * layers : layers);
        }
        INFO(name);
        CHECK(is == was);
      }
      CHECK(shared_states > 0);
      CHECK(squares > 0);
    }
  }
}

TEST_CASE("a checkpoint of shared layers goes on with shared layers on another mesh to the same bits") {
  const TemporaryFolder folder;
  const Setting from = setting(2, 1, 0);
  std::string hash;
  {
    SavingRun run(models::share(whole(ModelType::gpt2, from), all_but_norms), from, folder.path, false);
    run.sharing = all_but_norms;
    run.steps(2);
    run.save();
    REQUIRE(run.saved().error.empty());
    run.steps(2);
    hash = run.hash();
  }
  const Reader reader(folder.path / "step_2", true);
  const Setting to = setting(2, 3, 2);
  SavingRun again(models::share(whole(ModelType::gpt2, to), all_but_norms), to, folder.path / "again", false, &reader);
  again.steps(2);
  CHECK(again.hash() == hash);
}

}  // namespace zrt::delink_test
