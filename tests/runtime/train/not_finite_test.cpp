// The first value that is not finite is found wherever states are resident and however ranks share them, and no
// checkpoint is made of it.
#include "runtime/train/not_finite.h"

#include <cmath>
#include <limits>

#include "catch.h"
#include "models/model.h"
#include "runtime/train/checkpointer.h"
#include "runtime/train/run_manifest.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/wrapped_block.h"
#include "tests/temporary_folder.h"

namespace zrt::not_finite_test {

using namespace zrt;
using namespace zrt::testing;
using optimizer::make_optimizer;
using runtime::LookAt;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();

// A value in a tensor that a run starts with: a parameter, or "exp_avg.PARAMETER".
struct Spoiled {
  std::string tensor;
  int64_t element;
  float value;
};

// A session whose weights are all 0.05 and whose states are 0.001, but for what is spoiled.
class Loaded {
 public:
  Loaded(const models::Model& model, const Setting& s, std::vector<Spoiled> spoiled, bool save = false,
         bool trains = true, runtime::Origin origin = nullptr)
      : setting_(s), pipeline_(model, s, even_ends(model, s.schedule.stages)) {
    std::vector<std::string> phases{"load", trains ? "step" : "eval"};
    if (save) phases.emplace_back("save");
    runtime::SessionHooks hooks;
    hooks.batch = [this](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
      synthetic_batch(pipeline_.layouts.front(), step_, rank, microbatch, to);
    };
    hooks.load = [spoiled = std::move(spoiled)](const std::string& tensor, int64_t begin, std::span<float> out) {
      std::fill(out.begin(), out.end(), tensor.rfind("exp_", 0) == 0 ? 0.001f : 0.05f);
      for (const Spoiled& one : spoiled) {
        const int64_t at = one.element - begin;
        if (one.tensor == tensor && at >= 0 && at < static_cast<int64_t>(out.size())) {
          out[static_cast<size_t>(at)] = one.value;
        }
      }
    };
    hooks.loads_states = true;
    hooks.origin = std::move(origin);
    session_ = std::make_unique<runtime::Session>(pipeline_.compile(phases), session_options(s), std::move(hooks));
    session_->run("load", {});
  }
  void step() {
    session_->run("step", {setting_.seed, step_, 0, {setting_.rate}});
    ++step_;
  }
  runtime::SaveOutcome save(const std::filesystem::path& store, bool background) {
    runtime::SaveOutcome outcome;
    runtime::Checkpointer checkpointer(*session_, {[store] { return store; }, 1000, 0, background},
                                       [&](const runtime::SaveOutcome& o) { outcome = o; });
    runtime::checkpoint::Manifest manifest;
    manifest.step = 1;
    manifest.model = manifest.made_by = runtime::checkpoint::Json::object();
    manifest.optimizer = "AdamW";
    const auto members = pipeline_.layouts.front().optimizer->members();
    manifest.control = runtime::control_json(session_->executor(0).control().persistent, members);
    checkpointer.save(manifest);
    checkpointer.wait();
    return outcome;
  }
  std::optional<runtime::NotFinite> find(LookAt what) { return runtime::find_not_finite(*session_, what); }
  runtime::Session& session() { return *session_; }

 private:
  Setting setting_;
  Pipeline pipeline_;
  uint32_t step_ = 0;
  std::unique_ptr<runtime::Session> session_;
};

models::Model toy() {
  return make_toy(3, 12, 17, 5, false, false);
}

// Puts `value` into the last gradient of one block, on the last rank.
models::Model with_gradient(int ranks, float value) {
  return wrap(toy(), {{}, [=](const models::Block& block, const Call& call, bool backward) {
                        const bool here = backward && block.name() == "linear.1" && rank_of(call, ranks) == ranks - 1;
                        if (here) poke(call.grads[0], call.shape.grad_type, 143, value);
                      }});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Setting setting(unsigned number, int stage) {
  Setting s;
  s.ranks = 1 + static_cast<int>(number % 3), s.stage = stage;
  s.compute = number % 2 == 0 ? core::DType::f32 : core::DType::bf16;
  s.unit_elements = number % 4 < 2 ? 100 : 100000;
  s.bucket = 200, s.clip = 0;
  return s;
}

}  // namespace

TEST_CASE("the first weight that is not finite is named with unit, element and rank, wherever weights are resident") {
  const std::vector<NamedPlacing> all = placings();
  unsigned number = 0;
  for (int stage = 0; stage < 4; ++stage) {
    for (size_t p = 0; p <= all.size(); ++p) {
      if (left_to_processor(number++)) continue;
      Setting s = setting(number, stage);
      if (p > 0) s.placement = all[p - 1].place;
      CAPTURE(stage, p == 0 ? "on the device" : all[p - 1].name, s.ranks, core::dtype_name(s.compute));
      CHECK_FALSE(Loaded(toy(), s, {}).find(LookAt::states));
      // The value that is found is the first in the model, not the first that is spoiled.
      Loaded run(toy(), s, {{"head.weight", 3, infinity}, {"linear.1.weight", 37, nan}, {"linear.1.weight", 40, nan}});
      const auto found = run.find(LookAt::states);
      REQUIRE(found);
      CHECK(found->kind == 0);
      CHECK(found->element == 37);
      INFO(found->text);
      CHECK(has(found->text, "the weight 'linear.1.weight' of unit '"));
      CHECK(has(found->text, "is NaN at element 37, on rank " + std::to_string(found->rank)));
      CHECK(found->rank < s.ranks);
    }
  }
}

TEST_CASE("a weight that is not finite is found where a run only evaluates and has no masters") {
  for (int stage = 0; stage < 4; ++stage) {
    for (const int64_t persistence : {0, 100}) {
      if (left_to_processor(static_cast<unsigned>(stage))) continue;
      Setting s;
      s.ranks = 3, s.stage = stage, s.compute = core::DType::bf16, s.persistence = persistence, s.eval = true;
      for (const auto& [tensor, element] :
           {std::pair<std::string, int64_t>{"linear.2.weight", 143}, {"linear.1.bias", 11}, {"embed.weight", 0}}) {
        CAPTURE(stage, persistence, tensor);
        const auto found = Loaded(toy(), s, {{tensor, element, nan}}, false, false).find(LookAt::states);
        REQUIRE(found);
        CHECK(found->element == element);
        CHECK(has(found->text, "'" + tensor + "'"));
      }
      CHECK_FALSE(Loaded(toy(), s, {}, false, false).find(LookAt::states));
    }
  }
}

TEST_CASE("what layers have from one tensor on NVMe is looked at once, and named by the first of them") {
  const auto first_layer = [](const std::string& tensor) {
    return tensor.ends_with("linear.1.weight") || tensor.ends_with("linear.2.weight")
               ? tensor.substr(0, tensor.find("linear")) + "linear.0.weight"
               : tensor;
  };
  for (const int stage : {0, 1, 3}) {
    for (const core::DType compute : {core::DType::f32, core::DType::bf16}) {
      Setting s = setting(1, stage);
      s.ranks = 2, s.compute = compute, s.unit_elements = 100;  // every tensor is a unit
      s.placement = [](const runtime::Layout& layout) {
        using core::Tier;
        return uniform(layout, Tier::device, Tier::device, Tier::nvme, Tier::nvme, Tier::device, Tier::host);
      };
      CAPTURE(stage, core::dtype_name(compute));
      for (const std::string& kind : {std::string("exp_avg."), std::string("exp_avg_sq.")}) {
        Loaded run(toy(), s, {{kind + "linear.0.weight", 37, nan}}, false, true, first_layer);
        const auto found = run.find(LookAt::states);
        REQUIRE(found);
        INFO(found->text);
        CHECK(has(found->text, "'linear.0.weight' of unit '"));
        CHECK(found->element == 37);
      }
      Loaded whole(toy(), s, {}, false, true, first_layer), apart(toy(), s, {});
      CHECK_FALSE(whole.find(LookAt::states));
      CHECK_FALSE(apart.find(LookAt::states));
      for (int r = 0; r < 2; ++r) {
        const offload::BlockFile &once = *whole.session().file(r), &each = *apart.session().file(r);
        CHECK(once.bytes_written() < each.bytes_written());
        CHECK(each.bytes_read() - once.bytes_read() == each.bytes_written() - once.bytes_written());
      }
    }
  }
}

TEST_CASE("a value deep inside a large tensor is named by its place in the whole of it") {
  const models::Model large = make_toy(2, 300, 17, 5, false, false);
  for (const int64_t element : {65535, 65536, 70001, 89999}) {
    for (const int ranks : {1, 2}) {
      Setting s = setting(0, ranks == 1 ? 0 : 3);
      s.ranks = ranks, s.unit_elements = 100000;
      CAPTURE(element, ranks);
      const auto found = Loaded(large, s, {{"linear.1.weight", element, nan}}).find(LookAt::states);
      REQUIRE(found);
      CHECK(found->element == element);
      CHECK(has(found->text, "is NaN at element " + std::to_string(element)));
    }
  }
}

TEST_CASE("where groups of ranks repeat the states, each looks at the part that it would save") {
  for (const int stage : {1, 2, 3}) {
    for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
      for (const int64_t element : {0, 37, 70, 130, 143}) {
        Setting s = setting(0, stage);
        s.ranks = 4, s.groups.inner = 2, s.groups.replicated = true, s.compute = type;
        CAPTURE(stage, core::dtype_name(type), element);
        Loaded run(toy(), s, {{"linear.1.weight", element, nan}});
        const auto found = run.find(LookAt::states);
        REQUIRE(found);
        CHECK(found->element == element);
        CHECK(has(found->text, "'linear.1.weight'"));
      }
    }
  }
}

TEST_CASE("a state of the optimizer that is not finite is named, in every form that holds such, and placement") {
  const std::vector<NamedPlacing> all = placings();
  unsigned number = 0;
  for (const auto moments : {optimizer::Moments::f32, optimizer::Moments::bf16, optimizer::Moments::int8}) {
    for (size_t p = 0; p <= all.size(); ++p) {
      if (left_to_processor(number++)) continue;
      Setting s = setting(number, static_cast<int>(number % 4));
      s.optimizer = make_optimizer(optimizer::AdamParams{.moments = moments});
      if (p > 0) s.placement = all[p - 1].place;
      CAPTURE(s.stage, p == 0 ? "on the device" : all[p - 1].name, s.ranks, static_cast<int>(moments));
      CHECK_FALSE(Loaded(toy(), s, {}).find(LookAt::states));
      Loaded run(toy(), s, {{"exp_avg_sq.linear.2.weight", 5, nan}});
      const auto found = run.find(LookAt::states);
      // 8-bit forms take what is not finite for the largest number.
      REQUIRE(found.has_value() == (moments != optimizer::Moments::int8));
      if (!found) continue;
      INFO(found->text);
      CHECK(found->kind == 1);
      CHECK(has(found->text, "the optimizer's state 'exp_avg_sq' of"));
      CHECK(has(found->text, "'linear.2.weight'"));
      CHECK(found->element == 5);
    }
  }
}

TEST_CASE(
    "a state of Adafactor's that is not finite is named and not saved, whether ranks share it or each has it all") {
  optimizer::AdafactorParams params;
  params.momentum = true, params.beta1 = 0.9;
  unsigned number = 0;
  for (int stage = 0; stage < 4; ++stage) {
    for (const auto& [kind, tensor] : {std::pair<std::string, std::string>{"exp_avg", "linear.2.weight"},
                                       {"exp_avg_sq_row", "linear.2.weight"},
                                       {"exp_avg_sq_col", "linear.2.weight"},
                                       {"exp_avg_sq", "linear.2.bias"}}) {
      Setting s = setting(number++, stage);
      s.optimizer = make_optimizer(params);
      CAPTURE(stage, kind, s.ranks, core::dtype_name(s.compute));
      CHECK_FALSE(Loaded(toy(), s, {}).find(LookAt::states));
      Loaded run(toy(), s, {{kind + "." + tensor, 5, number % 2 == 0 ? nan : infinity}}, true);
      const auto found = run.find(LookAt::states);
      REQUIRE(found);
      INFO(found->text);
      CHECK(found->kind == 1);
      CHECK(found->element == 5);
      CHECK(has(found->text, "the optimizer's state '" + kind + "' of"));
      CHECK(has(found->text, "'" + tensor + "'"));
      const TemporaryFolder folder;
      CHECK(run.save(folder.path, number % 4 < 2).not_finite == found->text);
    }
  }
}

TEST_CASE("after a skipped step the first gradient that is not finite is named, on every tier") {
  const std::vector<NamedPlacing> all = placings();
  unsigned number = 0;
  for (int stage = 0; stage < 4; ++stage) {
    for (size_t p = 0; p <= all.size(); ++p) {
      if (left_to_processor(number++)) continue;
      Setting s = setting(number, stage);
      if (p > 0) s.placement = all[p - 1].place;
      CAPTURE(stage, p == 0 ? "on the device" : all[p - 1].name, s.ranks, core::dtype_name(s.compute));
      Loaded run(with_gradient(s.ranks, nan), s, {});
      run.step();
      CHECK(run.session().executor(0).control().decision[0].skip == 1);
      CHECK_FALSE(run.find(LookAt::states));
      const auto found = run.find(LookAt::training);
      REQUIRE(found);
      INFO(found->text);
      CHECK(found->kind == 2);
      CHECK(found->element == 143);
      CHECK(has(found->text, "the gradient 'linear.1.weight' of unit '"));
      CHECK(has(found->text, "is NaN"));
    }
  }
}

TEST_CASE("a finite gradient that is too large to be squared is named as that") {
  Setting s = setting(0, 2);
  s.compute = core::DType::f32;
  Loaded run(with_gradient(s.ranks, 1e15f), s, {});
  run.step();
  CHECK(run.session().executor(0).control().decision[0].skip == 1);
  const auto found = run.find(LookAt::training);
  REQUIRE(found);
  INFO(found->text);
  CHECK(found->element == 143);
  CHECK(has(found->text, "is 1e+15 at element 143"));
  CHECK(has(found->text, "the sum of such squares"));
  // Just below the limit nothing is wrong.
  Loaded fine(with_gradient(s.ranks, 1e14f), s, {});
  fine.step();
  CHECK(fine.session().executor(0).control().decision[0].skip == 0);
  CHECK_FALSE(fine.find(LookAt::training));
}

TEST_CASE("a weight that only fp32 can hold is named in a run that computes with less") {
  for (const auto& [type, value, text] :
       {std::tuple(core::DType::f16, 65520.0f, "is 6.55e+04 at element 2, on rank 0; fp16 has no such number"),
        std::tuple(core::DType::bf16, 3.4e38f, "is 3.4e+38 at element 2, on rank 0; bf16 has no such number")}) {
    for (int stage = 0; stage < 4; ++stage) {
      Setting s = setting(0, stage);
      s.compute = type;
      CAPTURE(stage, text);
      const TemporaryFolder folder;
      Loaded run(toy(), s, {{"linear.0.weight", 2, value}}, true);
      const auto found = run.find(LookAt::states);
      REQUIRE(found);
      INFO(found->text);
      CHECK(found->kind == 0);
      CHECK(has(found->text, "the weight 'linear.0.weight' of unit '"));
      CHECK(has(found->text, text));
      CHECK(run.save(folder.path, true).not_finite == found->text);
      CHECK_FALSE(Loaded(toy(), s, {{"linear.0.weight", 2, value * 0.99f}}).find(LookAt::states));
      s.compute = core::DType::f32;
      CHECK_FALSE(Loaded(toy(), s, {{"linear.0.weight", 2, value}}).find(LookAt::states));
    }
  }
}

TEST_CASE("stages of a pipeline and ranks that share tensors agree on the first value and its place in the whole") {
  struct Mesh {
    int tensor, stages, data, zero;
  };
  for (const Mesh& mesh : {Mesh{1, 1, 1, 0}, {2, 1, 1, 1}, {2, 1, 2, 3}, {1, 2, 2, 2}, {2, 2, 1, 1}, {1, 3, 1, 3}}) {
    for (const bool tied : {false, true}) {
      Setting s;
      s.tensor = mesh.tensor, s.ranks = mesh.data, s.stage = mesh.zero, s.schedule.stages = mesh.stages;
      s.accumulation = 2, s.micro_batch = 1, s.unit_elements = 500;
      const models::Model model = models::make_gpt2(
          {.layers = 3, .hidden = 16, .heads = 4, .sequence = 8, .vocab = 31, .tied = tied, .degrees = {mesh.tensor}});
      CAPTURE(mesh.tensor, mesh.stages, mesh.data, mesh.zero, tied);
      CHECK_FALSE(Loaded(model, s, {}).find(LookAt::states));
      for (const auto& [tensor, element] : {std::pair<std::string, int64_t>{"h.1.attn.c_attn.weight", 16 * 48 - 1},
                                            {"h.2.mlp.c_proj.weight", 700},
                                            {"h.0.ln_1.bias", 9},
                                            {"wte.weight", 30 * 16 + 3}}) {
        CAPTURE(tensor);
        Loaded run(model, s, {{tensor, element, -infinity}, {"ln_f.weight", 1, nan}});
        const auto found = run.find(LookAt::states);
        REQUIRE(found);
        INFO(found->text);
        CHECK(found->element == element);
        CHECK(has(found->text, "'" + tensor + "'"));
        CHECK(has(found->text, "is -infinity"));
      }
    }
  }
}

TEST_CASE("no checkpoint is made of weights or states that are not finite, and the one before stays") {
  unsigned number = 0;
  for (const bool background : {false, true}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const char* tensor : {"linear.2.weight", "exp_avg.linear.0.weight"}) {
        if (left_to_processor(number++)) continue;
        Setting s = setting(number, stage);
        CAPTURE(background, stage, tensor, s.ranks);
        const TemporaryFolder folder;
        {
          const runtime::SaveOutcome good = Loaded(toy(), s, {}, true).save(folder.path, background);
          CHECK(good.error.empty());
          CHECK(good.not_finite.empty());
        }
        const auto written = std::filesystem::last_write_time(folder.path / "step_1");
        const runtime::SaveOutcome bad = Loaded(toy(), s, {{tensor, 70, nan}}, true).save(folder.path, background);
        CHECK(has(bad.not_finite, "at element 70"));
        CHECK_FALSE(bad.error.empty());
        CHECK(std::filesystem::last_write_time(folder.path / "step_1") == written);
        size_t entries = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path)) ++entries;
        CHECK(entries == 2);  // step_1 and "latest"
      }
    }
  }
}

}  // namespace zrt::not_finite_test
