// Layers that share parameters become layers of their own in a checkpoint, and a run that goes on from it takes the
// steps of one that would have delinked them itself.
#include <cstring>
#include <limits>

#include "catch.h"
#include "core/error.h"
#include "core/file.h"
#include "models/sharing.h"
#include "runtime/train/checkpoint/store.h"
#include "tests/runtime/small_models.h"
#include "tests/runtime/train/saving_run.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::offline_delink_test {

using namespace zrt;
using namespace zrt::testing;
using models::Sharing;
using runtime::StatesAtDelink;
using runtime::checkpoint::Json;
using runtime::checkpoint::Reader;
using runtime::checkpoint::TensorSet;
namespace fs = std::filesystem;

namespace {

const Sharing pairs{{2, 2}, {"*ln_*"}}, all{{4}, {"*ln_*"}};
constexpr StatesAtDelink ways[] = {StatesAtDelink::copy, StatesAtDelink::reset, StatesAtDelink::rescale};

models::Model whole(const Setting& s) {
  return make_small(ModelType::gpt2, {.layers = 4, .hidden = 24, .heads = 4, .degrees = {s.tensor, s.rows}});
}

Setting setting(int stage, const optimizer::OptimizerPtr& optimizer) {
  Setting s;
  s.ranks = 2, s.stage = stage, s.accumulation = 2, s.unit_elements = 4000, s.optimizer = optimizer;
  return s;
}

// Trains shared layers, and leaves a checkpoint of step 2.
fs::path leave_shared(const Setting& s, const Sharing& sharing, const fs::path& store) {
  SavingRun run(models::share(whole(s), sharing), s, store, false);
  run.sharing = sharing;
  run.model_section = {{"type", "gpt2"}, {"layers", 4}};
  run.steps(2);
  run.save();
  REQUIRE(run.saved().error.empty());
  return store / "step_2";
}

std::vector<float> values(const TensorSet& set, const std::string& name) {
  std::vector<float> read(static_cast<size_t>(set.elements(name)));
  set.read(name, 0, read);
  return read;
}

// The first tensor that differs in a bit, or that one of them lacks; "" where all are alike.
std::string difference(const TensorSet& a, const TensorSet& b) {
  if (a.names() != b.names()) return "names";
  for (const std::string& name : a.names()) {
    const std::vector<float> x = values(a, name), y = values(b, name);
    if (a.shape(name) != b.shape(name) || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return name;
  }
  return "";
}

// Two steps behind the delink, as they are saved.
struct Later {
  std::string begins;  // the hash of the weights that it begins with
  std::unique_ptr<Reader> saved;
  Later(const Reader& from, const Setting& s, const fs::path& store, StatesAtDelink how) {
    SavingRun run(whole(s), s, store, false, &from, how);
    begins = run.hash();
    run.steps(2);
    run.save();
    REQUIRE(run.saved().error.empty());
    saved = std::make_unique<Reader>(store / "step_4", true);
  }
};

void check_alike(const Setting& s, const Sharing& sharing, const fs::path& path, StatesAtDelink how) {
  fs::create_directories(path);
  const Reader shared(path / ".." / "step_2", true);
  const Reader real(runtime::delink_checkpoint(shared, {how, "", nullptr}, path / "real"), true);
  CHECK(!real.sharing());
  CHECK(real.weights().names() == shared.weights().names());
  const Later online(shared, s, path / "online", how), offline(real, s, path / "offline", StatesAtDelink::copy);
  CHECK(online.begins == offline.begins);
  CHECK(difference(online.saved->weights(), offline.saved->weights()) == "");
  CHECK(difference(*online.saved->states(), *offline.saved->states()) == "");
  CHECK(online.saved->manifest().control == offline.saved->manifest().control);
  // Layers that shared do so no more.
  const std::string first = "h.0.mlp.c_fc.weight", second = "h.1.mlp.c_fc.weight";
  CHECK(values(real.weights(), first) == values(real.weights(), second));
  CHECK(values(offline.saved->weights(), first) != values(offline.saved->weights(), second));
  CHECK(models::sharers(sharing, first) == sharing.groups[0]);
}

}  // namespace

TEST_CASE("a run goes on from a checkpoint delinked on disk to the bits of one that delinks it itself") {
  using optimizer::AdamParams;
  using optimizer::Moments;
  const std::pair<const char*, optimizer::OptimizerPtr> optimizers[] = {
      {"AdamW", make_optimizer(AdamParams{0.9f, 0.95f, 1e-8f, 0.1f})},
      {"8-bit AdamW", make_optimizer(AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true, Moments::int8})},
      {"SGD", make_optimizer(optimizer::SgdParams{.momentum = 0.9f})},
      {"Lion in bf16", make_optimizer(optimizer::LionParams{.moments = Moments::bf16})},
      {"Adafactor", adafactor(true)},
      {"Muon", muon()}};
  for (const auto& [name, algorithm] : optimizers) {
    for (int stage = 0; stage < 4; ++stage) {
      const Setting s = setting(stage, algorithm);
      const Sharing& sharing = stage % 2 == 0 ? all : pairs;
      const TemporaryFolder folder;
      leave_shared(s, sharing, folder.path);
      for (const StatesAtDelink how : ways) {
        INFO(name << ", stage " << stage << ", way " << static_cast<int>(how));
        check_alike(s, sharing, folder.path / std::to_string(static_cast<int>(how)), how);
      }
    }
  }
}

TEST_CASE("a checkpoint of stages and of ranks that share blocks is delinked on disk like one of data-parallel ranks") {
  for (const auto& [tensor, stages] : {std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}}) {
    Setting s = setting(2, muon());
    s.tensor = tensor, s.schedule.stages = stages;
    const Sharing& sharing = stages == 1 ? all : pairs;
    const TemporaryFolder folder;
    leave_shared(s, sharing, folder.path);
    INFO(tensor << " ranks that share blocks, " << stages << " stages");
    check_alike(s, sharing, folder.path / "rescale", StatesAtDelink::rescale);
  }
}

TEST_CASE("a checkpoint that was delinked on disk keeps all else that a run needs to go on") {
  const TemporaryFolder folder;
  const Setting s = setting(1, muon());
  leave_shared(s, pairs, folder.path);
  const Reader shared(folder.path / "step_2", true);
  uint64_t last = 0, all_bytes = 0;
  const fs::path out = folder.path / "new/run";
  const fs::path made = runtime::delink_checkpoint(shared,
                                                   {StatesAtDelink::copy, "{\"key\": 1}",
                                                    [&](uint64_t done, uint64_t bytes) {
                                                      CHECK(done > last);
                                                      last = done, all_bytes = bytes;
                                                    }},
                                                   out / "");
  CHECK(made == out / "checkpoints/step_2");
  CHECK(last == all_bytes);
  uint64_t held = 0;
  const Reader real(made, true);
  for (const TensorSet* set : {&real.weights(), real.states()}) {
    for (const std::string& name : set->names()) held += static_cast<uint64_t>(set->elements(name)) * sizeof(float);
  }
  CHECK(held == all_bytes);
  auto manifest = real.manifest(), before = shared.manifest();
  CHECK(manifest.made_by["delinked_at"] == 2);
  CHECK(!manifest.made_by.contains("shared_layers"));
  // Each optimizer has the parameters of all layers.
  size_t listed = 0;
  for (const auto& [name, params] : manifest.made_by["optimizers"].items()) {
    for (const Json& param : params) CHECK(real.weights().has(param.get<std::string>()));
    listed += params.size();
  }
  CHECK(listed == real.weights().names().size());
  manifest.made_by = before.made_by = nullptr;
  manifest.files = before.files = {};
  CHECK(runtime::checkpoint::format_manifest(manifest) == runtime::checkpoint::format_manifest(before));
  CHECK(core::read_text(out / "config.resolved.json", 1 << 20) == "{\"key\": 1}\n");
}

TEST_CASE("what has no shared layers is not delinked, nor into a folder that is there, nor what is not finite") {
  const TemporaryFolder folder;
  const Setting s = setting(1, make_optimizer(optimizer::AdamParams{}));
  leave_shared(s, all, folder.path);
  const Reader shared(folder.path / "step_2", true);
  const fs::path out = folder.path / "out";
  const auto refusal = [&](const Reader& from, const fs::path& to, const runtime::Delink& how = {}) {
    try {
      runtime::delink_checkpoint(from, how, to);
    } catch (const core::DataError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  fs::create_directories(out);
  CHECK_THAT(refusal(shared, out), Catch::Matchers::Contains("exists already"));
  fs::remove(out);
  CHECK_THAT(refusal(shared, ""), Catch::Matchers::Contains("has no name"));
  CHECK(refusal(shared, out) == "none");
  CHECK_THAT(refusal(Reader(out / "checkpoints/step_2", true), folder.path / "again"),
             Catch::Matchers::Contains("its layers share no parameters"));
  CHECK(!fs::exists(folder.path / "again"));

  // A state of one layer is NaN in a file that says so itself.
  runtime::checkpoint::CopyHooks spoil;
  spoil.change = [](const std::string& name, std::span<float> some) {
    if (name == "exp_avg.h.2.mlp.c_fc.bias") some[0] = std::numeric_limits<float>::quiet_NaN();
  };
  fs::create_directories(folder.path / "spoiled");
  auto manifest = shared.manifest();
  manifest.made_by["shared_layers"] = runtime::checkpoint::sharing_json({{1, 1, 2}, {"*"}});
  runtime::checkpoint::copy_checkpoint(shared, manifest, folder.path / "spoiled/checkpoints", spoil);
  CHECK_THAT(refusal(Reader(folder.path / "spoiled/checkpoints/step_2", true), folder.path / "again"),
             Catch::Matchers::Contains("exp_avg.h.2.mlp.c_fc.bias' of type F32 is NaN at element 0"));
  CHECK(!fs::exists(folder.path / "again"));
  for (const auto& entry : fs::directory_iterator(folder.path)) CHECK(entry.path().extension() != ".tmp");
}

}  // namespace zrt::offline_delink_test
