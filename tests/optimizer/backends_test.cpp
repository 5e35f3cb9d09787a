// Steps of every optimizer at the test's device against the same on the CPU with one thread, bit by bit.
#include <cmath>
#include <cstring>
#include <limits>

#include "catch.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "optimizer/exact_sum.h"
#include "optimizer/forms.h"
#include "optimizer/steps.h"
#include "tests/optimizer/kind_of.h"

namespace zrt::optimizer::backends_test {
namespace {

using core::DType;
using test::Lent;
using test::Visible;

constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};

std::vector<std::byte> narrow(const std::vector<float>& values, DType type) {
  const size_t size = core::dtype_size(type);
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = type == DType::bf16 ? core::to_bf16(values[i]).bits : core::to_f16(values[i]).bits;
    std::memcpy(bytes.data() + i * size, type == DType::f32 ? static_cast<const void*>(&values[i]) : &half, size);
  }
  return bytes;
}

// The bits of a NaN differ between processors.
bool same(const Visible<float>& a, const Visible<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) {
      UNSCOPED_INFO("element " << i << ": " << a[i] << " and " << b[i]);
      return false;
    }
  }
  return a.size() == b.size();
}
bool same(const Visible<std::byte>& a, const Visible<std::byte>& b, DType type) {
  const auto floats = [&](const Visible<std::byte>& bytes) {
    Visible<float> values(bytes.size() / core::dtype_size(type));
    for (size_t i = 0; i < values.size(); ++i) {
      const std::byte* at = bytes.data() + i * core::dtype_size(type);
      uint16_t half;
      std::memcpy(&half, at, sizeof half);
      std::memcpy(&values[i], at, core::dtype_size(type));
      if (type == DType::bf16) values[i] = core::to_float(core::bf16{half});
      if (type == DType::f16) values[i] = core::to_float(core::f16{half});
    }
    return values;
  };
  return same(floats(a), floats(b));
}

struct Arrays {
  Visible<float> master;
  std::vector<Visible<float>> states;
  Visible<std::byte> grad, weight, work, shares;
  Visible<Decision> decision{1};
};
// The same where kernels have them.
struct Lents {
  Lent<Visible<float>> master;
  std::vector<Lent<Visible<float>>> states;
  Lent<Visible<std::byte>> grad, weight, work;
  Lent<Visible<Decision>> decision;
  explicit Lents(Arrays& arrays)
      : master(arrays.master), grad(arrays.grad), weight(arrays.weight), work(arrays.work), decision(arrays.decision) {
    for (Visible<float>& state : arrays.states) states.emplace_back(state);
  }
  void fetch() const {
    master.fetch(), grad.fetch(), weight.fetch(), work.fetch(), decision.fetch();
    for (const Lent<Visible<float>>& state : states) state.fetch();
  }
};
bool same(const Arrays& a, const Arrays& b, DType weight) {
  bool equal = same(a.master, b.master) && same(a.weight, b.weight, weight);
  for (size_t k = 0; k < a.states.size(); ++k) equal = equal && same(a.states[k], b.states[k]);
  return equal;
}

// One unit whose sums two ranks share, and whose update one rank makes.
struct Subject {
  std::vector<models::Param> params;
  Unit unit;
  std::shared_ptr<const Optimizer> optimizer;
  DType grad_type, weight_type;
  bool copy;  // of the weights
  static constexpr int ranks = 2;

  Subject(const OptimizerPtr& of, const std::vector<std::vector<int64_t>>& shapes, DType grad, DType weight,
          bool copies)
      : optimizer(of), grad_type(grad), weight_type(weight), copy(copies) {
    for (const auto& shape : shapes) params.push_back({"p" + std::to_string(params.size()), shape, {}, 0});
    for (const models::Param& param : params) {
      unit.params.push_back({&param, unit.elements, 0});
      unit.elements += (param.elements() + 63) / 64 * 64;
    }
    unit.elements += unit.elements % (64 * ranks);
    unit.shard = unit.elements / ranks;
  }

  // The parameters' elements; zero between them.
  std::vector<float> values(uint32_t tensor, float (*value)(uint32_t tensor, uint64_t i)) const {
    std::vector<float> all(static_cast<size_t>(unit.elements));
    for (const UnitParam& place : unit.params) {
      for (int64_t i = 0; i < place.param->elements(); ++i) {
        const auto at = static_cast<uint64_t>(place.offset + i);
        all[at] = value(tensor, at);
      }
    }
    return all;
  }

  Arrays start(float (*value)(uint32_t tensor, uint64_t i)) const {
    Arrays arrays;
    arrays.master = test::visible(values(0, value));
    arrays.weight = Visible<std::byte>(copy ? arrays.master.size() * core::dtype_size(weight_type) : 0);
    for (const UnitState& state : optimizer->states(unit)) {
      arrays.states.push_back(Visible<float>(static_cast<size_t>(state.elements)));
    }
    arrays.work.resize(optimizer->work_bytes(unit) + 1);
    return arrays;
  }

  void step(Arrays& arrays, const Rates& rates, uint32_t number, Progress& progress,
            float (*value)(uint32_t tensor, uint64_t i), bool skip = false) const {
    const std::vector<float> gradient = values(number + 1, value);
    arrays.grad = test::visible(narrow(gradient, grad_type));
    Decision& decision = arrays.decision[0];
    optimizer->decide(rates, progress, decision);
    decision.grad_scale = 0.37f;
    decision.grad_squares = 0;
    for (float g : gradient) decision.grad_squares += std::pow(static_cast<double>(g) * 0.38, 2);
    decision.skip = skip;
    const Lents there(arrays);
    const Decision& decided = *there.decision.data();
    for (uint32_t round = 0; round < optimizer->rounds(unit); ++round) {
      const uint64_t bytes = optimizer->share_bytes(unit, round);
      arrays.shares.assign(bytes * ranks, std::byte{0xFB});
      const Lent shares(arrays.shares);
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<float*> states;
        optimizer->sum(round, decided, part(there, rank * unit.shard, unit.shard, states),
                       shares.data() + static_cast<uint64_t>(rank) * bytes);
      }
      std::vector<float*> states;
      optimizer->fold(round, decided, part(there, 0, unit.elements, states), shares.data(), ranks);
      test::settle();
    }
    std::vector<float*> states;
    optimizer->update(decided, part(there, 0, unit.elements, states));
    test::settle();
    there.fetch();
  }

  UnitPart part(const Lents& arrays, int64_t begin, int64_t count, std::vector<float*>& states) const {
    const auto at = static_cast<size_t>(begin);
    UnitPart part;
    part.unit = &unit, part.begin = begin, part.count = count;
    part.master = arrays.master.data() + begin;
    part.grad = arrays.grad.data() + at * core::dtype_size(grad_type), part.grad_type = grad_type;
    part.weight = copy ? arrays.weight.data() + at * core::dtype_size(weight_type) : nullptr;
    part.weight_type = weight_type;
    const auto kinds = optimizer->states(unit);
    for (size_t k = 0; k < kinds.size(); ++k) {
      states.push_back(arrays.states[k].data() + (kinds[k].sharded ? begin : 0));
    }
    part.states = states;
    part.work = arrays.work.data();
    return part;
  }
};

float usual(uint32_t tensor, uint64_t i) {
  if (i % 11 == 0) return 0;
  return std::ldexp(core::random_normal({.seed = 3, .tensor = tensor}, i), -static_cast<int>(i * 7 % 30));
}

// Everything that a float can be, NaN and infinity too.
float extreme(uint32_t tensor, uint64_t i) {
  constexpr float special[] = {0.0f,
                               -0.0f,
                               std::numeric_limits<float>::denorm_min(),
                               -1e-40f,
                               std::numeric_limits<float>::min(),
                               1e-20f,
                               65504.0f,
                               65520.0f,
                               -1e30f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               -0x1p-24f,
                               0x1p-25f,
                               6e-5f};
  const uint32_t word = core::random_word({.seed = 4, .tensor = tensor}, i);
  if (word % 4 != 0) return special[word / 4 % std::size(special)];
  return std::bit_cast<float>(core::random_word({.seed = 5, .tensor = tensor}, i));
}

std::vector<OptimizerPtr> element_wise_optimizers() {
  return {make_optimizer(AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true}),
          make_optimizer(AdamParams{0.9f, 0.999f, 1e-8f, 0.01f, false, false}),
          make_optimizer(SgdParams{0, 0, 0.01f}),
          make_optimizer(SgdParams{0.9f, 0.1f, 0.01f}),
          make_optimizer(SgdParams{0.9f, 0, 0.01f, true}),
          make_optimizer(LionParams{0.9f, 0.99f, 0.1f})};
}

// The step of a rule alone, whatever else its optimizer does.
template <class Rule, const auto& step>
class OfRule : public ElementWise<typename Rule::Params> {
 public:
  using ElementWise<typename Rule::Params>::ElementWise;

  std::vector<UnitState> states_of(const Unit& unit) const override {
    std::vector<UnitState> all;
    const int count = Rule::states(Rule::variant(this->params_));
    for (size_t number = 0; number < static_cast<size_t>(count); ++number) {
      all.push_back(this->state(unit, "state", number));
    }
    return all;
  }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    decision.beta1 = 0.9f, decision.beta2 = 0.95f;
    decision.bias_correction1 = 0.5f, decision.bias_correction2 = 0.25f;
  }

  void update(const Decision& decision, const UnitPart& part) const override { step(this->params_, decision, part); }
};

template <class Rule, const auto& step>
OptimizerPtr of_rule() {
  typename Rule::Params params;
  params.weight_decay = 0.1f;
  return std::make_shared<OfRule<Rule, step>>(params);
}

void compare(const Subject& subject, float (*value)(uint32_t tensor, uint64_t i)) {
  Arrays here = subject.start(value), host = here;
  Progress here_progress, host_progress;
  for (uint32_t number = 0; number < 3; ++number) {
    subject.step(here, {1e-2}, number, here_progress, value);
    {
      const core::OnPlace cpu(core::Place{});
      subject.step(host, {1e-2}, number, host_progress, value);
    }
    CAPTURE(number, core::dtype_name(subject.grad_type), core::dtype_name(subject.weight_type), subject.copy);
    CHECK(same(here, host, subject.weight_type));
  }
}

template <class Body>
void each_type(const Body& body) {
  for (DType grad : types) {
    for (DType weight : types) body(grad, weight, true);
    body(grad, DType::f32, false);
  }
}

TEST_CASE("element-wise optimizers give the host's bits at every device, for all types, counts and values") {
  for (const OptimizerPtr& optimizer : element_wise_optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    for (int64_t count : {64, 192, 64 * 37}) {
      each_type([&](DType grad, DType weight, bool copy) {
        CAPTURE(count);
        compare({optimizer, {{count}}, grad, weight, copy}, usual);
        compare({optimizer, {{count}}, grad, weight, copy}, extreme);
      });
    }
  }
}

TEST_CASE("every registered rule gives the host's bits at every device, with the parameters of its defaults") {
#define ZRT_OF_RULE(step, name, Name) of_rule<Name##Rule, step>(),
  for (const OptimizerPtr& rule : {ZRT_ELEMENT_RULES(ZRT_OF_RULE)}) {
    INFO(zrt::testing::kind_of(*rule));
    each_type([&](DType grad, DType weight, bool copy) {
      compare({rule, {{64 * 37}}, grad, weight, copy}, usual);
      compare({rule, {{64 * 37}}, grad, weight, copy}, extreme);
    });
  }
}

TEST_CASE("Adafactor gives the host's bits at every device, for all types and shapes") {
  AdafactorParams momentum;
  momentum.momentum = true, momentum.beta1 = 0.9, momentum.weight_decay = 0.01, momentum.relative_step = false;
  AdafactorParams plain;
  plain.scale_parameter = false;
  for (const OptimizerPtr& optimizer :
       {make_optimizer(AdafactorParams{}), make_optimizer(momentum), make_optimizer(plain)}) {
    each_type([&](DType grad, DType weight, bool copy) {
      CAPTURE(find_params<AdafactorParams>(optimizer)->momentum);
      compare({optimizer, {{7, 130}, {65}, {3, 5, 9}, {1, 70}, {700, 1}, {5}, {130, 300}}, grad, weight, copy}, usual);
    });
  }
}

TEST_CASE("a skipped step changes nothing, whatever the gradients are") {
  std::vector<OptimizerPtr> optimizers = element_wise_optimizers();
  optimizers.push_back(make_optimizer(AdafactorParams{}));
  for (const OptimizerPtr& optimizer : optimizers) {
    INFO(zrt::testing::kind_of(*optimizer));
    const Subject subject(optimizer, {{7, 130}, {65}}, DType::bf16, DType::bf16, true);
    Arrays arrays = subject.start(usual);
    Progress progress;
    subject.step(arrays, {1e-2}, 0, progress, usual);
    const Arrays before = arrays;
    subject.step(arrays, {1e-2}, 1, progress, extreme, true);

    CHECK(same(arrays, before, DType::bf16));
    subject.step(arrays, {1e-2}, 2, progress, usual);
    CHECK(!same(arrays, before, DType::bf16));
  }
}

TEST_CASE("sums of squares have the host's limbs at every device, for all types, counts and values") {
  for (DType type : types) {
    for (int64_t count : {64, 640, 64 * 333, 64 * 4097}) {
      for (auto* value : {usual, extreme}) {
        std::vector<float> values;
        for (int64_t i = 0; i < count; ++i) values.push_back(value(1, static_cast<uint64_t>(i)));
        const Visible<std::byte> data = test::visible(narrow(values, type));
        Visible<ExactSum> sum(1);
        const Lent data_there(data);
        const Lent sum_there(sum);
        ExactSum host;
        for (int turn = 0; turn < 3; ++turn) {  // carries, from one call to the next
          add_squares(*sum_there.data(), count, data_there.data(), type);
          sum_there.fetch();
          const core::OnPlace cpu(core::Place{});
          add_squares(host, count, data.data(), type);
          CAPTURE(core::dtype_name(type), count, turn);
          CHECK(sum[0] == host);
        }
      }
    }
  }
}

}  // namespace
}  // namespace zrt::optimizer::backends_test
