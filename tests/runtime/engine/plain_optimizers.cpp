#include "tests/runtime/engine/plain_optimizers.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace zrt::testing {
namespace {

using nlohmann::json;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

struct Spec {
  std::string type;
  json params;
};
Spec spec_of(const json& value) {
  if (value.is_string()) return {lower(value.get<std::string>()), json::object()};
  return {lower(value.at("type").get<std::string>()), value.value("params", json::object())};
}

bool matches(const json& match, const std::string& name) {
  for (const json& pattern : match.is_string() ? json::array({match}) : match) {
    if (fnmatch(pattern.get<std::string>().c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

double root_mean_square(const Values& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// (rows, columns) times (columns, width).
Values product(const Values& a, const Values& b, size_t rows, size_t columns, size_t width) {
  Values c(rows * width);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < columns; ++k) {
      for (size_t j = 0; j < width; ++j) c[i * width + j] += a[i * columns + k] * b[k * width + j];
    }
  }
  return c;
}
Values turned(const Values& a, size_t rows, size_t columns) {
  Values t(a.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

// Newton–Schulz iterations, of a matrix with no more rows than columns or its transpose.
Values orthogonalised(Values x, size_t rows, size_t columns, const json& params) {
  const bool tall = rows > columns;
  if (tall) x = turned(x, rows, columns), std::swap(rows, columns);
  double norm = 0;
  for (const double value : x) norm += value * value;
  for (double& value : x) value /= std::max(std::sqrt(norm), 1e-7);
  const auto c = params.value("ns_coefficients", std::vector<double>{3.4445, -4.775, 2.0315});
  for (int step = 0; step < params.value("ns_steps", 5); ++step) {
    const Values gram = product(x, turned(x, rows, columns), rows, columns, rows);
    Values factor = product(gram, gram, rows, rows, rows);
    for (size_t i = 0; i < factor.size(); ++i) factor[i] = c[1] * gram[i] + c[2] * factor[i];
    for (size_t i = 0; i < rows; ++i) factor[i * rows + i] += c[0];
    x = product(factor, x, rows, rows, columns);
  }
  return tall ? turned(x, rows, columns) : x;
}

}  // namespace

size_t PlainRule::states() const {
  if (type == "sgd") return params.value("momentum", 0.0) == 0 ? 0 : 1;
  if (type == "lion" || type == "muon") return 1;
  return type == "adafactor" ? 0 : 2;
}

PlainRule plain_rule(const json& config, const PlainTensor& tensor) {
  Spec spec = spec_of(config.at("optimizer"));
  const auto first_of = [](const json& params, std::vector<const char*> names, double otherwise) {
    for (const char* name : names) {
      if (params.contains(name)) return params[name].get<double>();
    }
    return otherwise;
  };
  const double run = first_of(spec.params, {"lr", "muon_lr"}, 0.001);
  double scale = 1, own = run;
  json decay;
  for (const json& group : config.value("parameter_groups", json::array())) {
    if (!matches(group["match"], tensor.name)) continue;
    scale = group.value("lr_scale", 1.0);
    decay = group.value("weight_decay", json());
    if (group.contains("optimizer")) {
      spec = spec_of(group["optimizer"]);
      own = first_of(spec.params, {"lr", "muon_lr"}, run);
    }
    break;
  }
  PlainRule rule{spec.type, spec.params, own, spec.params.value("weight_decay", 0.0)};
  if (spec.type == "muon") {
    const bool matrix = tensor.hidden && tensor.shape.size() == 2;
    rule.rate = first_of(spec.params, {matrix ? "muon_lr" : "adam_lr"}, own);
    if (!matrix) {
      rule.type = "adamw";
      rule.params["betas"] = spec.params.value("betas", json{0.9, 0.95});
      rule.params["eps"] = spec.params.value("eps", 1e-10);
    }
  }
  rule.rate *= scale;
  if (!decay.is_null()) rule.decay = decay.get<double>();
  return rule;
}

PlainOptimizer::PlainOptimizer(const json& config, const std::vector<PlainTensor>& tensors) {
  for (const PlainTensor& tensor : tensors) {
    const Values zeros(tensor.weights.size());
    const auto columns = static_cast<size_t>(tensor.shape.back());
    tensors_[tensor.name] = {plain_rule(config, tensor),
                             tensor.shape,
                             tensor.weights,
                             zeros,
                             zeros,
                             Values(tensor.weights.size() / columns),
                             Values(columns)};
  }
}

void PlainOptimizer::step(const std::map<std::string, Values>& gradients) {
  ++steps_;
  for (auto& [name, tensor] : tensors_) update(tensor, gradients.at(name));
}

void PlainOptimizer::update(Tensor& tensor, const Values& gradient) const {
  const PlainRule& rule = tensor.rule;
  const json& p = rule.params;
  const auto t = static_cast<double>(steps_);
  const double lr = rule.rate;
  Values &w = tensor.weights, &m = tensor.first, &v = tensor.second;
  const size_t n = w.size();
  if (rule.type == "adam" || rule.type == "adamw") {
    const auto betas = p.value("betas", std::vector<double>{0.9, 0.999});
    const bool decoupled = rule.type == "adamw" || p.value("adam_w_mode", true);
    for (size_t i = 0; i < n; ++i) {
      double g = gradient[i];
      if (decoupled) {
        w[i] -= lr * rule.decay * w[i];
      } else {
        g += rule.decay * w[i];
      }
      m[i] = betas[0] * m[i] + (1 - betas[0]) * g;
      v[i] = betas[1] * v[i] + (1 - betas[1]) * g * g;
      const double mean = m[i] / (1 - std::pow(betas[0], t)), square = v[i] / (1 - std::pow(betas[1], t));
      w[i] -= lr * mean / (std::sqrt(square) + p.value("eps", 1e-8));
    }
  } else if (rule.type == "sgd") {
    const double momentum = p.value("momentum", 0.0), dampening = p.value("dampening", 0.0);
    for (size_t i = 0; i < n; ++i) {
      const double g = gradient[i] + rule.decay * w[i];
      m[i] = steps_ == 1 ? g : momentum * m[i] + (1 - dampening) * g;
      w[i] -= lr * (momentum == 0 ? g : p.value("nesterov", false) ? g + momentum * m[i] : m[i]);
    }
  } else if (rule.type == "lion") {
    const auto betas = p.value("betas", std::vector<double>{0.9, 0.999});
    for (size_t i = 0; i < n; ++i) {
      const double c = betas[0] * m[i] + (1 - betas[0]) * gradient[i];
      w[i] -= lr * (rule.decay * w[i] + (c > 0 ? 1 : c < 0 ? -1 : 0));
      m[i] = betas[1] * m[i] + (1 - betas[1]) * gradient[i];
    }
  } else if (rule.type == "adafactor") {
    const double keep = 1 - std::pow(t, p.value("decay_rate", -0.8)), tiny = 1e-30;
    const size_t columns = tensor.columns.size(), rows = tensor.rows.size();
    Values u(n);
    if (tensor.shape.size() >= 2) {
      Values by_row(rows), by_column(columns);
      for (size_t i = 0; i < n; ++i) {
        const double square = gradient[i] * gradient[i] + tiny;
        by_row[i / columns] += square / static_cast<double>(columns);
        by_column[i % columns] += square / static_cast<double>(rows);
      }
      double mean = 0;
      for (size_t r = 0; r < rows; ++r) {
        tensor.rows[r] = keep * tensor.rows[r] + (1 - keep) * by_row[r];
        mean += tensor.rows[r] / static_cast<double>(rows);
      }
      for (size_t c = 0; c < columns; ++c) tensor.columns[c] = keep * tensor.columns[c] + (1 - keep) * by_column[c];
      for (size_t i = 0; i < n; ++i) {
        u[i] = gradient[i] / std::sqrt(tensor.rows[i / columns] / mean * tensor.columns[i % columns]);
      }
    } else {
      for (size_t i = 0; i < n; ++i) {
        v[i] = keep * v[i] + (1 - keep) * (gradient[i] * gradient[i] + tiny);
        u[i] = gradient[i] / std::sqrt(v[i]);
      }
    }
    const double clip = std::max(1.0, root_mean_square(u) / p.value("clip_threshold", 1.0));
    const double rate = lr * (p.value("scale_parameter", true) ? std::max(1e-3, root_mean_square(w)) : 1);
    for (size_t i = 0; i < n; ++i) {
      double step = rate * u[i] / clip;
      if (p.contains("beta1")) step = m[i] = p["beta1"].get<double>() * m[i] + (1 - p["beta1"].get<double>()) * step;
      w[i] -= rate * rule.decay * w[i] + step;
    }
  } else {  // Muon's matrices
    const double momentum = p.value("momentum", 0.95);
    Values proposal(n);
    for (size_t i = 0; i < n; ++i) {
      m[i] = momentum * m[i] + (1 - momentum) * gradient[i];
      proposal[i] = p.value("nesterov", true) ? momentum * m[i] + (1 - momentum) * gradient[i] : m[i];
    }
    const auto rows = static_cast<double>(tensor.shape[0]), columns = static_cast<double>(tensor.shape[1]);
    const double adjust = p.value("adjust_lr_fn", "original") == std::string("original")
                              ? std::sqrt(std::max(1.0, rows / columns))
                              : 0.2 * std::sqrt(std::max(rows, columns));
    const Values step = orthogonalised(proposal, tensor.rows.size(), tensor.columns.size(), p);
    for (size_t i = 0; i < n; ++i) w[i] = (1 - lr * rule.decay) * w[i] - lr * adjust * step[i];
  }
}

}  // namespace zrt::testing
