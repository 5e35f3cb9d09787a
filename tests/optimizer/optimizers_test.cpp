// All optimizers through the interface that the runtime uses: values, and independence of how a unit is cut.
#include <cstring>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "core/philox.h"
#include "optimizer/optimizer.h"
#include "tests/optimizer/goldens.h"
#include "tests/optimizer/kind_of.h"

namespace zrt::optimizer::optimizers_test {
namespace {

using core::DType;
using nlohmann::json;

std::vector<models::Param> make_params(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<models::Param> params;
  for (const auto& shape : shapes) params.push_back({"p" + std::to_string(params.size()), shape, {}, 0});
  return params;
}

// One unit of parameters on `ranks` ranks.
Unit make_unit(const std::vector<models::Param>& params, int ranks) {
  Unit unit;
  for (const models::Param& param : params) {
    unit.params.push_back({&param, unit.elements, static_cast<uint32_t>(unit.params.size())});
    unit.elements += (param.elements() + 63) / 64 * 64;
  }
  const int64_t multiple = 64 * ranks;
  unit.elements = (unit.elements + multiple - 1) / multiple * multiple;
  unit.shard = unit.elements / ranks;
  return unit;
}

// A run over several ranks, as one process sees it: it keeps element-wise states once, the others on every rank.
struct Run {
  std::shared_ptr<const Optimizer> optimizer;
  Unit unit;
  int ranks;
  bool sharded_update;  // each rank updates its shard, else all update everything
  std::vector<UnitState> kinds;
  test::Visible<float> master;
  std::vector<std::vector<test::Visible<float>>> states;  // [rank][kind], whole
  Progress progress;

  Run(const OptimizerPtr& params, const std::vector<models::Param>& of, int on, bool sharded)
      : optimizer(params), unit(make_unit(of, on)), ranks(on), sharded_update(sharded) {
    kinds = optimizer->states(unit);
    master.resize(static_cast<size_t>(unit.elements));
    states.resize(static_cast<size_t>(ranks));
    for (auto& of_rank : states) {
      for (const UnitState& kind : kinds) of_rank.emplace_back(static_cast<size_t>(kind.elements));
    }
  }

  void step(const test::Visible<float>& grad, const Rates& rates, float grad_scale = 1) {
    test::Visible<Decision> visible(1);
    Decision& decision = visible[0];
    decision.grad_scale = grad_scale;
    for (float g : grad) decision.grad_squares += std::pow(static_cast<double>(g * grad_scale), 2);
    optimizer->decide(rates, progress, decision);
    std::vector<test::Visible<std::byte>> work(static_cast<size_t>(ranks));
    for (auto& of_rank : work) of_rank.resize(optimizer->work_bytes(unit));
    for (uint32_t round = 0; round < optimizer->rounds(unit); ++round) {
      const size_t bytes = optimizer->share_bytes(unit, round);
      test::Visible<std::byte> shares(bytes * static_cast<size_t>(ranks), std::byte{0xFB});
      each_rank(grad, work, true, [&](size_t r, const UnitPart& part) {
        optimizer->sum(round, decision, part, shares.data() + r * bytes);
      });
      each_rank(grad, work, sharded_update,
                [&](size_t, const UnitPart& part) { optimizer->fold(round, decision, part, shares.data(), ranks); });
    }
    const test::Visible<float> before = master;
    each_rank(grad, work, sharded_update, [&](size_t, UnitPart part) {
      if (!sharded_update) master = before;
      part.master = master.data() + part.begin;
      optimizer->update(decision, part);
    });
  }

  template <class Body>
  void each_rank(const test::Visible<float>& grad, std::vector<test::Visible<std::byte>>& work, bool sharded,
                 Body body) {
    for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
      UnitPart part;
      part.unit = &unit;
      part.begin = sharded ? static_cast<int64_t>(r) * unit.shard : 0;
      part.count = sharded ? unit.shard : unit.elements;
      part.master = master.data() + part.begin;
      part.grad = grad.data() + part.begin;
      part.work = work[r].data();
      std::vector<float*> pointers;
      for (size_t k = 0; k < kinds.size(); ++k) {
        pointers.push_back(states[r][k].data() + (kinds[k].sharded ? part.begin : 0));
      }
      part.states = pointers;
      body(r, part);
      test::settle();
    }
  }

  test::Visible<float> flat(const json& tensors) const {
    test::Visible<float> result(static_cast<size_t>(unit.elements));
    for (size_t p = 0; p < unit.params.size(); ++p) {
      for (size_t i = 0; i < tensors[p].size(); ++i) {
        result[static_cast<size_t>(unit.params[p].offset) + i] = tensors[p][i].get<float>();
      }
    }
    return result;
  }
};

OptimizerPtr params_of(const json& golden) {
  const json& p = golden["params"];
  const auto real = [&](const char* key, double fallback) { return p.value(key, fallback); };
  const auto small = [&](const char* key, double fallback) { return static_cast<float>(p.value(key, fallback)); };
  if (golden["optimizer"] == "sgd") {
    return make_optimizer(
        SgdParams{small("momentum", 0), small("dampening", 0), small("weight_decay", 0), p.value("nesterov", false)});
  }
  if (golden["optimizer"] == "lion") {
    return make_optimizer(LionParams{p["betas"][0].get<float>(), p["betas"][1].get<float>(), small("weight_decay", 0)});
  }
  AdafactorParams a;
  if (p.contains("eps")) a.eps1 = p["eps"][0], a.eps2 = p["eps"][1];
  a.clip_threshold = real("clip_threshold", a.clip_threshold);
  a.decay_rate = real("decay_rate", a.decay_rate);
  a.momentum = p.contains("beta1");
  a.beta1 = real("beta1", 0);
  a.weight_decay = real("weight_decay", 0);
  a.scale_parameter = p.value("scale_parameter", true);
  a.relative_step = p.value("relative_step", true);
  a.warmup_init = p.value("warmup_init", false);
  return make_optimizer(a);
}

std::vector<OptimizerPtr> all_optimizers() {
  std::vector<OptimizerPtr> all{make_optimizer(AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true})};
  for (const json& golden : goldens()["cases"]) all.push_back(params_of(golden));
  return all;
}

TEST_CASE("trajectories are those of PyTorch's SGD, Hugging Face's Adafactor and the formula of Lion") {
  const json& data = goldens();
  REQUIRE(data["cases"].size() == 10);
  const auto params = make_params(data["shapes"].get<std::vector<std::vector<int64_t>>>());
  for (const json& golden : data["cases"]) {
    INFO(golden["optimizer"] << " " << golden["params"].dump());
    Run run(params_of(golden), params, 2, true);
    run.master = run.flat(data["starts"]);
    for (size_t step = 0; step < golden["weights"].size(); ++step) {
      // Gradients as they come from a step with a loss scale: multiplied, and divided again by the update.
      test::Visible<float> grad = run.flat(data["grads"][step]);
      for (float& g : grad) g *= 1024;
      run.step(grad, {golden["params"].value("lr", 0.0)}, 1.0f / 1024);
      const test::Visible<float> expected = run.flat(golden["weights"][step]);
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::abs(static_cast<double>(run.master[i]) - static_cast<double>(expected[i])));
      }
      CAPTURE(step);
      CHECK(worst < 3e-6);
    }
  }
}

TEST_CASE("ranks, shards and whole updates give the same bits for every optimizer") {
  const auto params = make_params({{7, 130}, {65}, {3, 5, 9}, {1, 70}, {300, 1}, {5}});
  for (const OptimizerPtr& optimizer : all_optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    INFO(zrt::testing::kind_of(*optimizer));
    std::vector<float> reference;

    for (int ranks : {1, 2, 3, 5}) {
      for (bool sharded : {true, false}) {
        Run run(optimizer, params, ranks, sharded);
        test::Visible<float> grad(run.master.size());
        for (const UnitParam& place : run.unit.params) {
          for (int64_t i = 0; i < place.param->elements(); ++i) {
            run.master[static_cast<size_t>(place.offset + i)] =
                core::random_normal({1, 0, place.number}, static_cast<uint64_t>(i));
          }
        }
        for (uint32_t step = 1; step < 4; ++step) {
          for (const UnitParam& place : run.unit.params) {
            for (int64_t i = 0; i < place.param->elements(); ++i) {
              const float size = std::ldexp(1.0f, -static_cast<int>((place.number * 7 + i) % 30));
              grad[static_cast<size_t>(place.offset + i)] =
                  size * core::random_normal({1, step, place.number}, static_cast<uint64_t>(i));
            }
          }
          run.step(grad, {1e-2}, 0.37f);
        }
        std::vector<float> weights;
        for (const UnitParam& place : run.unit.params) {
          const auto* first = run.master.data() + place.offset;
          weights.insert(weights.end(), first, first + place.param->elements());
          // Padding stays zero, or the norm and the sums would see it.
          for (int64_t i = place.param->elements(); (place.offset + i) % 64 != 0; ++i) CHECK(first[i] == 0);
        }
        if (reference.empty()) reference = weights;
        CAPTURE(ranks, sharded);
        CHECK(std::memcmp(weights.data(), reference.data(), weights.size() * sizeof(float)) == 0);
        for (size_t k = 0; k < run.kinds.size(); ++k) {
          if (run.kinds[k].sharded) continue;
          for (const auto& of_rank : run.states) CHECK(of_rank[k] == run.states[0][k]);
        }
      }
    }
    for (float w : reference) REQUIRE(std::isfinite(w));
  }
}

TEST_CASE("states have the names, shapes and sizes of PyTorch and Hugging Face") {
  const auto params = make_params({{7, 130}, {65}, {3, 5, 9}});
  const Unit unit = make_unit(params, 4);
  const auto kinds = [&](const OptimizerPtr& optimizer) {
    std::set<std::string> names;
    for (const UnitState& state : optimizer->states(unit)) {
      names.insert(state.kind + (state.sharded ? "/" : "") + " " + std::to_string(state.elements));
      // Tensors lie behind each other and inside.
      int64_t end = 0;
      for (const StateTensor& tensor : state.tensors) {
        int64_t elements = 1;
        for (int64_t side : tensor.shape) elements *= side;
        CHECK(tensor.offset >= end);
        end = tensor.offset + elements;
      }
      CHECK(end <= state.elements);
    }
    return names;
  };
  using Names = std::set<std::string>;
  const std::string whole = std::to_string(unit.elements);
  CHECK(kinds(make_optimizer(AdamParams{})) == Names{"exp_avg/ " + whole, "exp_avg_sq/ " + whole});
  CHECK(kinds(make_optimizer(SgdParams{})).empty());
  CHECK(kinds(make_optimizer(SgdParams{.momentum = 0.9f})) == Names{"momentum_buffer/ " + whole});
  CHECK(kinds(make_optimizer(LionParams{})) == Names{"exp_avg/ " + whole});
  const Names statistics{"exp_avg_sq_row " + std::to_string(7 + 3 * 5), "exp_avg_sq_col " + std::to_string(130 + 3 * 9),
                         "exp_avg_sq 65"};
  CHECK(kinds(make_optimizer(AdafactorParams{})) == statistics);
  AdafactorParams momentum;
  momentum.momentum = true;
  Names with_momentum = statistics;
  with_momentum.insert("exp_avg/ " + whole);
  CHECK(kinds(make_optimizer(momentum)) == with_momentum);
  const auto states = make_optimizer(AdafactorParams{})->states(unit);
  CHECK(states[0].tensors[1].shape == std::vector<int64_t>{3, 5});
  CHECK(states[1].tensors[1].shape == std::vector<int64_t>{3, 9});
}

TEST_CASE("Adafactor refuses a matrix whose rows are too long for exact sums") {
  const auto params = make_params({{2, (int64_t{1} << 24) + 1}});
  CHECK_THROWS_WITH(make_optimizer(AdafactorParams{})->states(make_unit(params, 1)),
                    Catch::Contains("p0") && Catch::Contains("16777216"));
}

TEST_CASE("a schedule's betas replace the optimizer's own, in Adam and Lion") {
  Progress progress;
  Decision decision;
  const Rates rates{1e-3, true, 0.7, 0.99};
  make_optimizer(AdamParams{})->decide(rates, progress, decision);
  CHECK(decision.beta1 == 0.7f);
  CHECK(decision.beta2 == 0.99f);
  CHECK(decision.bias_correction1 == Approx(0.3));
  make_optimizer(AdamParams{})->decide({1e-3, true, 0.6, 0.99}, progress, decision);
  CHECK(decision.bias_correction1 == Approx(1 - 0.36));
  CHECK(progress.updates == 2);
  make_optimizer(LionParams{})->decide(rates, progress, decision);
  CHECK(decision.beta1 == 0.7f);
}

}  // namespace
}  // namespace zrt::optimizer::optimizers_test
