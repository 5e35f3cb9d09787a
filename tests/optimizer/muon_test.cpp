// Muon's steps of single matrices against PyTorch's, and what its iteration does to singular values.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "optimizer/muon_rule.h"
#include "optimizer/optimizer.h"
#include "tests/data_folder.h"
#include "tests/device.h"

namespace zrt::muon_test {

using namespace zrt::optimizer;
using nlohmann::json;
using Floats = std::vector<float>;

namespace {

const json& muon_goldens() {
  static const json data = json::parse(std::ifstream(test::data_folder() + "/muon_goldens.json"));
  return data;
}

MuonParams params_of(const json& given) {
  MuonParams params;
  params.weight_decay = given.value("weight_decay", 0.1f);
  params.momentum = given.value("momentum", 0.95f);
  params.nesterov = given.value("nesterov", true);
  params.steps = given.value("ns_steps", 5);
  if (given.contains("ns_coefficients")) {
    const json& c = given["ns_coefficients"];
    params.a = c[0].get<float>(), params.b = c[1].get<float>(), params.c = c[2].get<float>();
  }
  params.match_adamw = given.value("adjust_lr_fn", "") == "match_rms_adamw";
  return params;
}

// One matrix, all of it on one rank.
class Matrix {
 public:
  Matrix(const MuonParams& params, const std::vector<int64_t>& shape, const Floats& weights)
      : optimizer_(make_optimizer(params)), param_{"w", shape} {
    unit_.params = {{&param_, 0, 0}};
    unit_.elements = unit_.shard = (param_.elements() + 63) / 64 * 64;
    weights_.resize(size()), momentum_.resize(size()), grad_.resize(size()), proposal_.resize(size());
    std::copy(weights.begin(), weights.end(), weights_.begin());
    decision_.resize(1);
  }
  size_t size() const { return static_cast<size_t>(unit_.elements); }

  void propose(const Floats& grad, double lr) {
    std::copy(grad.begin(), grad.end(), grad_.begin());
    optimizer_->decide({lr}, progress_, decision_[0]);
    call([&](const Decision& decision, const UnitPart& part) { optimizer_->propose(decision, part); });
  }
  void refine() {
    test::Visible<std::byte> workspace(optimizer_->refine_bytes(unit_));
    const test::Lent proposal(proposal_);
    const test::Lent work(workspace);
    optimizer_->refine(unit_, proposal.data(), work.data());
    test::settle();
    proposal.fetch();
  }
  Floats update() {
    call([&](const Decision& decision, const UnitPart& part) { optimizer_->update(decision, part); });
    return {weights_.begin(), weights_.begin() + param_.elements()};
  }
  Floats proposal() const { return {proposal_.begin(), proposal_.begin() + param_.elements()}; }

 private:
  template <class Work>
  void call(const Work& work) {
    const test::Lent weights(weights_), momentum(momentum_), grad(grad_), proposal(proposal_);
    const test::Lent decision(decision_);
    float* const states[] = {momentum.data()};
    UnitPart part;
    part.unit = &unit_, part.count = unit_.elements;
    part.master = weights.data(), part.grad = grad.data(), part.proposal = proposal.data(), part.states = states;
    work(*decision.data(), part);
    test::settle();
    weights.fetch(), momentum.fetch(), proposal.fetch();
  }

  OptimizerPtr optimizer_;
  models::Param param_;
  Unit unit_;
  Progress progress_;
  test::Visible<float> weights_, momentum_, grad_, proposal_;
  test::Visible<Decision> decision_;
};

// |a - b| / |b - from|: how far a step is from another, in terms of the step.
double distance(const Floats& a, const Floats& b, const Floats& from) {
  double difference = 0, step = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    step += std::pow(static_cast<double>(b[i]) - static_cast<double>(from[i]), 2);
  }
  return std::sqrt(difference / step);
}

}  // namespace

// bf16 rounds to 4e-3, in each of some fifteen products and sums; small singular values grow by up to 3.4 an iteration.
TEST_CASE("steps of a matrix are PyTorch's to 1e-5 without its cast to bf16, and to 6e-2 as it is shipped") {
  const json& data = muon_goldens();
  for (const json& golden : data["cases"]) {
    INFO(golden["params"].dump());
    for (size_t m = 0; m < data["shapes"].size(); ++m) {
      CAPTURE(m);
      Floats before = data["weights"][m].get<Floats>();
      Matrix matrix(params_of(golden["params"]), data["shapes"][m].get<std::vector<int64_t>>(), before);
      for (size_t step = 0; step < data["grads"].size(); ++step) {
        matrix.propose(data["grads"][step][m].get<Floats>(), golden["params"]["lr"].get<double>());
        matrix.refine();
        const Floats after = matrix.update();
        const Floats exact = golden["exact"][step][m].get<Floats>();
        CHECK(distance(after, exact, before) < 1e-5);
        CHECK(distance(after, golden["shipped"][step][m].get<Floats>(), before) < 6e-2);
        before = exact;
      }
    }
  }
}

TEST_CASE("singular values from a hundredth of the largest on come near 1, and a matrix of zeros stays one") {
  for (const auto& shape : {std::vector<int64_t>{6, 6}, {3, 9}, {9, 3}}) {
    const int64_t n = std::min(shape[0], shape[1]);
    Floats grad(static_cast<size_t>(shape[0] * shape[1]));
    // Diagonal, so that the singular values are the elements.
    for (int64_t i = 0; i < n; ++i) {
      grad[static_cast<size_t>(i * shape[1] + i)] = static_cast<float>(std::pow(10.0, -2.0 * double(i) / double(n)));
    }
    Matrix matrix(MuonParams{}, shape, Floats(grad.size()));
    matrix.propose(grad, 1);
    matrix.refine();
    const Floats refined = matrix.proposal();
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t j = 0; j < shape[1]; ++j) {
        const auto value = static_cast<double>(refined[static_cast<size_t>(i * shape[1] + j)]);
        CAPTURE(shape[0], shape[1], i, j, value);
        if (i == j) CHECK((value > 0.6 && value < 1.3));
        if (i != j) CHECK(value == 0);
      }
    }
    Matrix zeros(MuonParams{}, shape, Floats(grad.size()));
    zeros.propose(Floats(grad.size()), 1);
    zeros.refine();
    CHECK(zeros.proposal() == Floats(grad.size()));
  }
}

}  // namespace zrt::muon_test
