// Muon: matrices of hidden layers step by their orthogonalised momentum; everything else by AdamW, with the names that
// DeepSpeed gives the settings of both. A Newton–Schulz iteration brings the singular values of a matrix near 1.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "models/kernels/gemm.h"
#include "models/kernels/matrix.h"
#include "optimizer/forms.h"
#include "optimizer/groups.h"
#include "optimizer/muon_rule.h"
#include "optimizer/spec.h"
#include "optimizer/steps.h"

namespace zrt::optimizer {
namespace {

using namespace core::keys;

constexpr Key muon_keys[] = {
    key("lr", t_real, "null", between(0, largest_rate), Effect::results,
        "The learning rate, which the scheduler changes from step to step; null: muon_lr."),
    key("momentum", t_real, "0.95", half_open(0, 1), Effect::results,
        "How much of its old value the mean of a matrix's gradients keeps in a step."),
    key("weight_decay", t_real, "0.0", at_least(0), Effect::results,
        "How much weights shrink in a step, as a multiple of the rate."),
    key("muon_lr", t_real, "null", between(0, largest_rate), Effect::results,
        "The rate of hidden matrices where lr is that of a schedule for both; null: lr."),
    key("adam_lr", t_real, "null", between(0, largest_rate), Effect::results,
        "The rate of all that is no hidden matrix, which AdamW updates; null: lr."),
    {"ns_method", t_text, R"("gram")", Handling::inert, "there is one iteration, over the smaller Gram matrix"},
    key("betas", t_list, "[0.9, 0.95]", half_open(0, 1), Effect::results,
        "Of AdamW: how much of their old values the mean of gradients and that of squares keep in a step."),
    key("eps", t_real, "1e-10", between(0, 1), Effect::results,
        "Of AdamW: what is added to the root of the mean square that updates are divided by."),
    key("nesterov", t_bool, "true", Effect::results, "Nesterov's form of momentum."),
    key("ns_steps", t_int, "5", between(1, 99), Effect::results,
        "Iterations that bring a matrix's singular values near 1."),
    key("ns_coefficients", t_list, "[3.4445, -4.775, 2.0315]", between(-100, 100), Effect::results,
        "Of the iteration's polynomial a x + b x³ + c x⁵ of singular values."),
    key("adjust_lr_fn", t_text, R"("original")", one_of("original match_rms_adamw"), Effect::results,
        "How a matrix's rate follows its shape: times sqrt(max(1, rows / columns)), or 0.2 sqrt(the longer side), by "
        "which steps are as long as AdamW's."),
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

// One matrix on its way: x (rows, columns), and its Gram matrix over the shorter side.
class Orthogonaliser {
 public:
  Orthogonaliser(const MuonParams& params, const std::vector<int64_t>& shape)
      : params_(params), rows_(shape[0]), columns_(shape[1]), wide_(rows_ <= columns_) {}

  int64_t side() const { return std::min(rows_, columns_); }
  double flops() const {
    const double m = static_cast<double>(side()), n = static_cast<double>(std::max(rows_, columns_));
    return 2 * m * m * n + params_.steps * (4 * m * m * n + 2 * m * m * m) - (params_.steps > 0 ? 2 * m * m * n : 0);
  }
  uint64_t bytes() const {
    uint64_t products = 0;
    for (const models::GemmSpec& spec : {gram(), square(), step()}) {
      products = std::max(products, find_gemm(spec).workspace_bytes());
    }
    return floats() * sizeof(float) + products;
  }

  void run(float* x, std::byte* workspace) const {
    const int64_t m = side(), n = rows_ * columns_;
    float* const scale = reinterpret_cast<float*>(workspace);
    float* const other = scale + padded(1);
    float *const g = other + padded(n), *const h = g + padded(m * m), *const p = h + padded(m * m);
    std::byte* const scratch = workspace + floats() * sizeof(float);
    const auto multiply = [&](const models::GemmSpec& spec, const float* a, const float* b, float* c) {
      find_gemm(spec).run(a, b, c, nullptr, scratch);
    };
    // x / |x|, with the Gram matrix that says how large x is.
    multiply(gram(), x, x, g);
    models::inverse_root_of_trace(g, m, params_.least_norm, scale);
    models::scale_by(x, scale, 1, x, n);
    models::scale_by(g, scale, 2, g, m * m);
    float *from = x, *to = other;
    for (int i = 0; i < params_.steps; ++i) {
      if (i > 0) multiply(gram(), from, from, g);
      // b G + c G² = G (c G + b I)
      models::scale_and_shift(g, params_.c, params_.b, h, m);
      multiply(square(), g, h, p);
      models::scale_and_shift(p, 1, params_.a, p, m);
      wide_ ? multiply(step(), p, from, to) : multiply(step(), from, p, to);
      std::swap(from, to);
    }
    if (from != x) core::copy_bytes(x, from, static_cast<uint64_t>(n) * sizeof(float));
  }

 private:
  static int64_t padded(int64_t elements) { return (elements + 63) / 64 * 64; }
  uint64_t floats() const {
    return static_cast<uint64_t>(padded(1) + padded(rows_ * columns_) + 3 * padded(side() * side()));
  }
  static models::GemmSpec product(int64_t M, int64_t N, int64_t K, bool trans_a, bool trans_b, int64_t lda,
                                  int64_t ldb) {
    models::GemmSpec spec;
    spec.M = M, spec.N = N, spec.K = K, spec.trans_a = trans_a, spec.trans_b = trans_b;
    spec.lda = lda, spec.ldb = ldb, spec.ldc = N;
    return spec;
  }
  models::GemmSpec gram() const {
    const int64_t m = side();
    return wide_ ? product(m, m, columns_, false, true, columns_, columns_)
                 : product(m, m, rows_, true, false, columns_, columns_);
  }
  models::GemmSpec square() const { return product(side(), side(), side(), false, false, side(), side()); }
  models::GemmSpec step() const {
    const int64_t m = side();
    return wide_ ? product(m, columns_, m, false, false, m, columns_) : product(rows_, m, m, false, false, columns_, m);
  }

  const MuonParams& params_;
  const int64_t rows_, columns_;
  const bool wide_;
};

class Muon : public ElementWise<MuonParams> {
 public:
  using ElementWise::ElementWise;

  std::vector<UnitState> states_of(const Unit& unit) const override { return {state(unit, "momentum_buffer", 0)}; }

  bool refines(uint32_t) const override { return true; }
  void propose(const Decision& decision, const UnitPart& part) const override {
    UnitPart proposed = part;
    proposed.master = part.proposal;
    proposed.weight = nullptr;
    muon_step(params_, decision, proposed);
  }
  uint64_t refine_bytes(const Unit& unit) const override { return Orthogonaliser(params_, matrix(unit)).bytes(); }
  double refine_flops(const Unit& unit) const override { return Orthogonaliser(params_, matrix(unit)).flops(); }
  void refine(const Unit& unit, float* proposal, std::byte* workspace) const override {
    Orthogonaliser(params_, matrix(unit)).run(proposal, workspace);
  }

  void update(const Decision& decision, const UnitPart& part) const override {
    const std::vector<int64_t> shape = matrix(*part.unit);
    const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
    MuonParams params = params_;
    params.matrix_rate = static_cast<float>(params_.match_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                                                : std::sqrt(std::max(1.0, rows / columns)));
    UnitPart updated = part;
    updated.grad = part.proposal;
    updated.grad_type = core::DType::f32;
    updated.states = {};
    muon_step(params, decision, updated);
  }

 private:
  // The shape of the whole, whatever part of it a rank has.
  static std::vector<int64_t> matrix(const Unit& unit) { return unit.params.front().param->whole_shape(); }
};

const std::string muon_prefix = "optimizer.params.";

// The rate that the schedule moves, and what Muon's and AdamW's are of it.
struct MuonRates {
  double base = 0, muon = 1, adam = 1;
};

MuonRates read_rates(Values& values) {
  const auto rate = [&](const char* key) -> std::optional<double> {
    if (values.is_null(muon_prefix + key)) return std::nullopt;
    return values.real(muon_prefix + key);
  };
  const auto lr = rate("lr"), muon = rate("muon_lr"), adam = rate("adam_lr");
  const double base = lr ? *lr : muon ? *muon : 0;
  if (!lr && !muon)
    values.missing(muon_prefix + "lr", "Muon needs it, or muon_lr; 0.02 is usual, with adam_lr = 0.0003.");
  if (!lr) values.infer(muon_prefix + "lr", base);
  if (!(base > 0)) {
    if (muon.value_or(0) > 0 || adam.value_or(0) > 0) {
      refuse(values.at(muon_prefix + "lr"), "must be above 0: muon_lr and adam_lr are multiples of it on a schedule.");
    }
    return {};
  }
  return {base, muon.value_or(base) / base, adam.value_or(base) / base};
}

OptimizerPtr read_muon(Values& values, const std::string&) {
  MuonParams muon;
  AdamParams adam;
  values.check([&] {
    const MuonRates rates = read_rates(values);
    muon.lr_scale = rates.muon, adam.lr_scale = rates.adam;
  });
  values.check([&] { std::tie(adam.beta1, adam.beta2) = read_betas(values); });
  adam.eps = read_float(values, "eps");
  muon.momentum = read_float(values, "momentum");
  muon.weight_decay = adam.weight_decay = read_float(values, "weight_decay");
  muon.moments = adam.moments = read_moments(values);
  muon.nesterov = values.flag(muon_prefix + "nesterov");
  muon.steps = static_cast<int>(values.integer(muon_prefix + "ns_steps"));
  values.check([&] {
    const std::vector<double> three = values.reals(muon_prefix + "ns_coefficients", 3);
    muon.a = static_cast<float>(three[0]), muon.b = static_cast<float>(three[1]), muon.c = static_cast<float>(three[2]);
  });
  values.check([&] { muon.match_adamw = values.choice(muon_prefix + "adjust_lr_fn") == "match_rms_adamw"; });
  return make_split(make_optimizer(adam), make_optimizer(muon),
                    [](const models::Param& param, bool hidden) { return hidden && param.shape.size() == 2; });
}

}  // namespace

OptimizerPtr make_optimizer(const MuonParams& params) {
  return std::make_shared<Muon>(params);
}

const OptimizerSpec& muon_spec() {
  static const OptimizerSpec spec{{"Muon"}, "muon", muon_keys, true, read_muon};
  return spec;
}

}  // namespace zrt::optimizer
