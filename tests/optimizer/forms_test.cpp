// Element-wise optimizers with states in fewer bytes and without master weights: the documented rule, whatever computes
// it.
#include "optimizer/forms.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "catch.h"
#include "core/kernel_form.h"
#include "core/parallel.h"
#include "isa_levels.h"
#include "optimizer/element_rules.h"
#include "optimizer/form_kernels.h"
#include "optimizer/rounding_word.h"
#include "thread_counts.h"

namespace zrt::optimizer::forms_test {
namespace {

using core::DType;
using core::Form;
using test::Visible;

constexpr int64_t block = core::form_block;

// Everything a step reads or writes, of a unit of three parameters.
struct State {
  Visible<float> master;
  Visible<std::byte> first, second, weight, grad;
  Visible<Decision> decision{1};
  bool operator==(const State& other) const {
    return first == other.first && second == other.second && weight == other.weight &&
           std::memcmp(master.data(), other.master.data(), master.size() * sizeof(float)) == 0;
  }
};

// Does what a step does with one element's gradient, weight and states.
using Apply = std::function<void(const Decision&, float, float&, float&, float&)>;
struct Rule {
  OptimizerPtr optimizer;
  size_t states;
  Apply apply;
};

template <class Of, int variant>
Rule plain_rule(const typename Of::Params& params) {
  return {make_optimizer(params), Of::states(variant),
          [params](const Decision& d, float g, float& w, float& m, float& v) {
            Of::template apply<variant>(Of::scalars(params, d), g, w, m, v);
          }};
}
// Leaves out what happens to the whole matrix, which is 5000 x 1.
Rule muon_rule(MuonParams params) {
  MuonParams updating = params;
  updating.matrix_rate = std::sqrt(5000.0f);
  return {make_optimizer(params), 1, [params, updating](const Decision& d, float g, float& w, float& m, float& v) {
            float proposal = 0;
            MuonRule::apply<MuonRule::nesterov>(MuonRule::scalars(params, d), g, proposal, m, v);
            MuonRule::apply<MuonRule::updating>(MuonRule::scalars(updating, d), proposal, w, m, v);
          }};
}

AdamParams adam_params(Moments moments, bool decoupled = true) {
  return {0.9f, 0.999f, 1e-8f, 0.1f, decoupled, true, moments};
}
// The optimizers in turn.
Rule make_rule(size_t number, Moments moments) {
  switch (number % 6) {
    case 0:
      return plain_rule<AdamRule, 1>(adam_params(moments));
    case 1:
      return plain_rule<AdamRule, 0>(adam_params(moments, false));
    case 2:
      return plain_rule<LionRule, 0>({0.9f, 0.99f, 0.1f, moments});
    case 3:
      return plain_rule<SgdRule, SgdRule::nesterov>({0.9f, 0, 0.1f, true, moments});
    case 4:
      return muon_rule({.weight_decay = 0.1f, .moments = moments});
    default:
      return plain_rule<SgdRule, SgdRule::plain>({0, 0, 0.1f, false, moments});
  }
}

struct Subject {
  Moments moments;
  bool master = true;
  Rule rule;
  DType grad_type = DType::bf16;
  std::vector<models::Param> tensors;
  Unit unit;

  Subject(Moments form, bool keeps_master, Rule of) : moments(form), master(keeps_master), rule(std::move(of)) {
    for (int64_t n : {int64_t{5000}, int64_t{70}, 3 * block}) {
      tensors.push_back({"p" + std::to_string(tensors.size()), {n, 1}, {}, 0});
    }
    const int64_t alignment = rule.optimizer->alignment();
    uint32_t number = 7;
    for (const models::Param& param : tensors) {
      unit.params.push_back({&param, unit.elements, number++});
      unit.elements += (param.elements() + alignment - 1) / alignment * alignment;
    }
    unit.elements += alignment;  // padding of a shard
    unit.shard = unit.elements;
  }
  Form form(size_t state) const { return state_form(moments, state); }

  State start() const {
    State s;
    const auto n = static_cast<size_t>(unit.elements);
    s.master.resize(n);
    s.first.resize(core::form_bytes(form(0), unit.elements));
    s.second.resize(core::form_bytes(form(1), unit.elements));
    s.weight.resize(2 * n), s.grad.resize(2 * n);
    for (const UnitParam& place : unit.params) {
      for (int64_t i = 0; i < place.param->elements(); ++i) {
        const auto at = static_cast<size_t>(place.offset + i);
        const float w = core::random_normal({1, 0, place.number}, static_cast<uint64_t>(i));
        const uint16_t half = core::to_bf16(w).bits;
        std::memcpy(s.weight.data() + 2 * at, &half, 2);
        s.master[at] = w;
      }
    }
    decide(s, 1);
    return s;
  }
  void decide(State& s, uint64_t step) const {
    Decision& d = s.decision[0];
    d.updates = step, d.seed = 11, d.lr = 1e-2, d.grad_scale = 0.5f, d.beta1 = 0.9f, d.beta2 = 0.999f;
    d.bias_correction1 = static_cast<float>(1 - std::pow(0.9, static_cast<double>(step)));
    d.bias_correction2 = static_cast<float>(1 - std::pow(0.999, static_cast<double>(step)));
    for (const UnitParam& place : unit.params) {
      for (int64_t i = 0; i < place.param->elements(); ++i) {
        const float normal =
            core::random_normal({2, static_cast<uint32_t>(step), place.number}, static_cast<uint64_t>(i));
        const uint16_t half = core::to_bf16(std::ldexp(normal, -static_cast<int>(i * 7 % 30))).bits;
        std::memcpy(s.grad.data() + 2 * (place.offset + i), &half, 2);
      }
    }
  }
  // Elements [begin, begin + count) of the unit.
  void step(State& s, int64_t begin, int64_t count) const {
    const auto at = static_cast<size_t>(begin);
    const test::Lent whole(s.master);
    const test::Lent first(s.first), second(s.second), weight(s.weight), grad(s.grad);
    const test::Lent decision(s.decision);
    float* states[] = {reinterpret_cast<float*>(first.data() + core::form_bytes(form(0), begin)),
                       reinterpret_cast<float*>(second.data() + core::form_bytes(form(1), begin))};
    UnitPart part;
    part.unit = &unit, part.begin = begin, part.count = count;
    part.master = master ? whole.data() + begin : nullptr;
    part.weight = weight.data() + 2 * at, part.weight_type = DType::bf16;
    part.grad = grad.data() + 2 * at, part.grad_type = grad_type;
    part.states = std::span<float* const>(states).first(rule.states);
    test::Visible<float> proposals(rule.optimizer->refines(0) ? static_cast<size_t>(count) : 0);
    const test::Lent proposal(proposals);
    part.proposal = proposal.data();
    if (rule.optimizer->refines(0)) rule.optimizer->propose(*decision.data(), part);
    rule.optimizer->update(*decision.data(), part);
    test::settle();
    whole.fetch(), first.fetch(), second.fetch(), weight.fetch();
  }

  // The documented rule, a parameter at a time with the scalar functions.
  void reference(State& s) const {
    const Decision& d = s.decision[0];
    for (const UnitParam& place : unit.params) {
      const int64_t alignment = rule.optimizer->alignment();
      const int64_t n = (place.param->elements() + alignment - 1) / alignment * alignment;
      const auto at = static_cast<size_t>(place.offset);
      std::vector<float> w(static_cast<size_t>(n)), m = w, v = w, g = w;
      std::byte *first = s.first.data() + core::form_bytes(form(0), place.offset),
                *second = s.second.data() + core::form_bytes(form(1), place.offset);
      core::read_form(form(0), first, 0, n, m.data());
      core::read_form(form(1), second, 0, n, v.data());
      core::read_form(Form::bf16, s.grad.data() + 2 * at, 0, n, g.data());
      if (master) {
        std::copy_n(s.master.data() + at, n, w.data());
      } else {
        core::read_form(Form::bf16, s.weight.data() + 2 * at, 0, n, w.data());
      }
      for (size_t i = 0; i < w.size(); ++i) rule.apply(d, g[i], w[i], m[i], v[i]);
      const auto word = [&](bool states, int64_t i) {
        const RoundingBases bases = rounding_bases(d, place.number, i / block);
        return rounding_word(states ? bases.states : bases.weights, static_cast<uint32_t>(i % block));
      };
      if (rule.states > 0) {
        write(
            form(0), m, [&](int64_t i) { return word(true, i) & 0xffff; }, first);
      }
      if (rule.states > 1) {
        write(
            form(1), v, [&](int64_t i) { return word(true, i) >> 16; }, second);
      }
      if (!master) {
        write(
            Form::bf16, w, [&](int64_t i) { return word(false, i) & 0xffff; }, s.weight.data() + 2 * at);
        continue;
      }
      std::copy_n(w.data(), n, s.master.data() + at);
      core::write_form(Form::bf16, w.data(), n, s.weight.data() + 2 * at);
    }
  }
  template <class Noise>
  static void write(Form form, const std::vector<float>& values, const Noise& noise, std::byte* to) {
    const auto n = static_cast<int64_t>(values.size());
    if (form == Form::f32) return core::write_form(form, values.data(), n, to);
    for (int64_t i = 0; i < n; ++i) {
      const float x = values[static_cast<size_t>(i)];
      if (form == Form::bf16) {
        const uint16_t half = core::write_bf16(x, noise(i));
        std::memcpy(to + 2 * i, &half, 2);
        continue;
      }
      float most = 0;
      for (int64_t k = i / block * block; k < i / block * block + block; ++k) {
        most = std::max(most, std::abs(values[static_cast<size_t>(k)]));
      }
      i % block == 0 ? (void)std::memcpy(to + core::form_bytes(form, i) + block, &most, 4) : (void)0;
      const uint32_t code = most == 0               ? 0
                            : form == Form::signed8 ? core::write_signed(x, most, noise(i))
                                                    : core::write_unsigned(x, most, noise(i));
      to[core::form_bytes(form, i / block * block) + static_cast<uint64_t>(i % block)] = static_cast<std::byte>(code);
    }
  }
};

// Every form with every optimizer.
std::vector<Subject> subjects() {
  std::vector<Subject> all;
  all.reserve(30);  // units point into subjects
  size_t turn = 0;
  for (const Moments moments : {Moments::f32, Moments::bf16, Moments::int8}) {
    for (const bool master : {true, false}) {
      if (moments == Moments::f32 && master) continue;
      for (size_t i = 0; i < 6; ++i) all.emplace_back(moments, master, make_rule(turn++, moments));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("any split into shards and any number of threads follow the documented rule to the bit, on every device") {
  for (const Subject& subject : subjects()) {
    CAPTURE(static_cast<int>(subject.moments), subject.master, subject.rule.optimizer->facts(0).optimizer);
    State expected = subject.start();
    const int64_t unit = subject.rule.optimizer->alignment();
    std::vector<State> split;
    const std::vector<int64_t> shards{unit, 3 * unit, subject.unit.elements};
    for (size_t i = 0; i < shards.size(); ++i) split.push_back(expected);
    for (uint64_t step = 1; step <= 3; ++step) {
      subject.decide(expected, step);
      subject.reference(expected);
      for (size_t i = 0; i < shards.size(); ++i) {
        if (unit < 100 && i == 0 && step > 1) continue;  // many calls
        const auto threads = thread_counts();
        core::set_threads(threads[(step + i) % threads.size()]);
        subject.decide(split[i], step);
        for (int64_t begin = 0; begin < subject.unit.elements; begin += shards[i]) {
          subject.step(split[i], begin, std::min(shards[i], subject.unit.elements - begin));
        }
        test::settle();
        CAPTURE(step, shards[i]);
        CHECK(split[i] == expected);
      }
    }
  }
  core::set_threads(1);
}

TEST_CASE("every instruction set gives the bits of the scalar functions", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  constexpr int64_t n = 2 * block;
  std::vector<float> values(n);
  std::vector<uint32_t> words(n);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    values[at] =
        i % 9 == 0 ? 0 : std::ldexp(core::random_normal({4}, static_cast<uint64_t>(i)), -static_cast<int>(i % 50));
    words[at] = rounding_word(99, static_cast<uint32_t>(i % block));
  }
  for (const core::Isa isa : test::compiled_isas()) {
    const FormKernels& kernels = form_kernels(isa);
    std::vector<uint32_t> made(block);
    kernels.words(99, 64, block - 64, made.data());
    CHECK(std::equal(made.begin(), made.end() - 64, words.begin() + 64));
    for (const Form form : {Form::bf16, Form::signed8, Form::unsigned8}) {
      std::vector<float> from = values;
      if (form == Form::unsigned8) {
        for (float& x : from) x = std::abs(x);
      }
      std::fill(from.begin() + block, from.end(), form == Form::bf16 ? std::nanf("") : 1e-30f);  // a block of zeros
      for (const int shift : {0, 16}) {
        std::vector<std::byte> expected(core::form_bytes(form, n)), bytes = expected;
        Subject::write(
            form, from, [&](int64_t i) { return words[static_cast<size_t>(i)] >> shift & 0xffff; }, expected.data());
        if (form != Form::bf16) std::fill(expected.begin() + block + 4, expected.end(), std::byte{});
        kernels.write[static_cast<size_t>(form)](from.data(), words.data(), shift, n, bytes.data());
        CAPTURE(core::isa_name(isa), core::form_name(form), shift);
        CHECK(bytes == expected);
        std::vector<float> read(n), scalar(n);
        kernels.read[static_cast<size_t>(form)](bytes.data(), n, read.data());
        core::read_form(form, bytes.data(), 0, n, scalar.data());
        CHECK(std::memcmp(read.data(), scalar.data(), n * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("random rounding keeps the mean: a moment that decays by less than its last place a step does decay") {
  for (const Moments moments : {Moments::bf16, Moments::int8}) {
    const Subject subject(moments, true, make_rule(0, moments));
    State s = subject.start();
    for (uint64_t step = 1; step <= 1000; ++step) {
      subject.decide(s, step);
      if (step > 1) std::fill(s.grad.begin(), s.grad.end(), std::byte{});
      subject.step(s, 0, subject.unit.elements);
      test::settle();
    }
    // v = 0.001 g² 0.999^999 where g is of the first step.
    const int64_t n = subject.tensors[0].elements();
    std::vector<float> kept(static_cast<size_t>(block));
    core::read_form(subject.form(1), s.second.data(), 0, block, kept.data());
    double sum = 0, expected = 0;
    for (int64_t i = 0; i < std::min(n, block); i += 30) {  // the largest ones
      const float g = 0.5f * core::to_float(core::to_bf16(core::random_normal({2, 1, 7}, static_cast<uint64_t>(i))));
      sum += static_cast<double>(kept[static_cast<size_t>(i)]);
      expected += 0.001 * std::pow(0.999, 999) * static_cast<double>(g) * static_cast<double>(g);
    }
    CAPTURE(static_cast<int>(moments));
    CHECK(sum == Approx(expected).epsilon(moments == Moments::bf16 ? 0.03 : 0.15));
  }
}

TEST_CASE("a weight without a master moves by its mean, though steps are far below its last place") {
  const Subject subject(Moments::f32, false, make_rule(0, Moments::f32));
  State s = subject.start();
  for (float& w : s.master) w = 1;
  core::write_form(Form::bf16, s.master.data(), subject.unit.elements, s.weight.data());
  double sum = 0;
  for (uint64_t step = 1; step <= 50; ++step) {
    subject.decide(s, step);
    for (int64_t i = 0; i < subject.unit.elements; ++i) {
      const uint16_t half = core::to_bf16(1).bits;
      std::memcpy(s.grad.data() + 2 * i, &half, 2);
    }
    s.decision[0].lr = 1e-5;  // about a 400th of the distance of bf16 numbers below 1
    subject.step(s, 0, subject.unit.elements);
    test::settle();
  }
  std::vector<float> weights(5000);
  core::read_form(Form::bf16, s.weight.data(), 0, 5000, weights.data());
  for (float w : weights) sum += static_cast<double>(w);
  CHECK(1 - sum / 5000 == Approx(50 * 1.1e-5).epsilon(0.12));  // the step and a tenth of decay
}

TEST_CASE("a skipped step changes nothing") {
  for (const Subject& subject : subjects()) {
    State s = subject.start();
    subject.step(s, 0, subject.unit.elements);
    test::settle();
    const State before = s;
    s.decision[0].skip = 1;
    subject.step(s, 0, subject.unit.elements);
    test::settle();
    CHECK(s == before);
  }
}

}  // namespace zrt::optimizer::forms_test
