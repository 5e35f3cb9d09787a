#include "tests/models/golden.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/data_folder.h"

namespace zrt::test {
namespace {

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014) seeded with the FNV-1a hash of a name.
class Splitmix {
 public:
  explicit Splitmix(const std::string& name) {
    for (char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325u;
};

std::string file_of(const models::Gpt2Config&) {
  return zrt::test::data_folder() + "/gpt2_goldens.json";
}
std::string file_of(const models::LlamaConfig&) {
  return zrt::test::data_folder() + "/llama_goldens.json";
}

void read_more(const nlohmann::json&, models::Gpt2Config&) {}
void read_more(const nlohmann::json& json, models::LlamaConfig& config) {
  config.kv_heads = json.at("kv_heads");
  config.ffn = json.at("ffn");
  config.rope_theta = json.at("rope_theta");
  config.rms_norm_eps = json.at("rms_norm_eps");
}

template <class Config>
nlohmann::json read_goldens() {
  std::ifstream file(file_of(Config{}));
  return nlohmann::json::parse(file);
}

template <class Config>
Config read_config(const nlohmann::json& json, bool tied) {
  Config config;
  config.layers = json.at("layers");
  config.hidden = json.at("hidden");
  config.heads = json.at("heads");
  config.sequence = json.at("sequence");
  config.vocab = json.at("vocab");
  config.tied = tied;
  read_more(json, config);
  return config;
}

}  // namespace

std::vector<double> recipe_numbers(const std::string& name, size_t count) {
  std::vector<double> numbers(count);
  Splitmix random(name);
  for (double& number : numbers) number = 2 * (static_cast<double>(random.next() >> 11) * 0x1p-53) - 1;
  return numbers;
}

Tensors recipe_weights(const std::vector<TensorShape>& shapes) {
  Tensors tensors = zeros_of(shapes);
  for (const TensorShape& t : shapes) {
    std::vector<double>& values = tensors.at(t.name);
    values = recipe_numbers(t.name, values.size());
    for (double& value : values) {
      const double exact = t.name.ends_with(".bias") ? 0.1 * value
                           : t.shape.size() == 1     ? 1 + 0.2 * value
                                                     : 0.2 * value;
      value = static_cast<float>(exact);
    }
  }
  return tensors;
}

Batch recipe_batch(int64_t vocab, int64_t B, int64_t T, int64_t index) {
  Batch batch{B, T, {}, {}};
  Splitmix random("batch." + std::to_string(index));
  const uint64_t V = static_cast<uint64_t>(vocab);
  for (int64_t b = 0; b < B; ++b) {
    uint64_t token = random.next() % V;
    for (int64_t t = 0; t < T; ++t) {
      const uint64_t r = random.next();
      batch.tokens.push_back(static_cast<int32_t>(token));
      token = r % 4 != 0 ? (5 * token + 7) % V : (r >> 8) % V;
      batch.targets.push_back(static_cast<int32_t>(token));
    }
  }
  return batch;
}

Batch recipe_batch(const models::BertConfig& config, int64_t B, int64_t T, int64_t index) {
  const models::Masking& masking = config.masking;
  Batch batch = recipe_batch(config.vocab - 3, B, T, index);
  for (int64_t b = 0; b < B; ++b) {
    const auto at = [&](int64_t t) { return static_cast<size_t>(b * T + t); };
    for (int64_t t = 0; t < T; ++t) {
      const int64_t turn = (t + b + index) % 4;
      if (turn == 0) batch.tokens[at(t)] = masking.mask;
      if (turn > 1 && T > 1) batch.targets[at(t)] = models::not_counted;
    }
    batch.tokens[at((b + 1) * T / (B + 2))] = batch.tokens[at(T - 1)] = masking.separator;
    batch.tokens[at(0)] = masking.cls;
    if (masking.sentence_order) batch.targets[at(0)] = (b + index) % 3 == 0 ? models::swapped : models::in_order;
  }
  return batch;
}

template <class Config>
GoldenGradients<Config> golden_gradients(bool tied) {
  const nlohmann::json all = read_goldens<Config>(), &json = all.at("gradients").at(tied ? "tied" : "untied");
  const nlohmann::json& shape = all.at("gradient_batch");
  GoldenGradients<Config> golden;
  golden.config = read_config<Config>(all.at("gradient_case"), tied);
  golden.batch = recipe_batch(golden.config, shape.at("B"), shape.at("T"), shape.at("index"));
  golden.loss = json.at("loss");
  std::ifstream file(zrt::test::data_folder() + "/" + json.at("file").get<std::string>(), std::ios::binary);
  const auto read = [&](std::vector<double>& values) {
    file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(double)));
    if (!file) throw std::runtime_error("a golden file in " ZRT_TEST_DATA " is missing or too short");
  };
  golden.logits.resize(golden.batch.tokens.size() * golden.config.vocab);
  read(golden.logits);
  golden.grads = zeros_of(golden.config);
  for (const TensorShape& t : tensors_of(golden.config)) {
    if (json.at("tensors").at(t.name) != t.shape) throw std::runtime_error("shape of golden " + t.name);
    read(golden.grads.at(t.name));
  }
  return golden;
}

template <class Config>
GoldenCurve<Config> golden_curve(bool tied, const std::string& type) {
  const nlohmann::json all = read_goldens<Config>(), &json = all.at("curves").at(tied ? "tied" : "untied").at(type);
  const nlohmann::json& adam = all.at("adam");
  GoldenCurve<Config> golden;
  golden.config = read_config<Config>(all.at("curve_case"), tied);
  golden.run.adam = {adam.at("lr"), adam.at("beta1"), adam.at("beta2"), adam.at("eps"), adam.at("weight_decay"), true,
                     true};
  golden.run.clip = adam.at("clip");
  golden.run.steps = all.at("steps");
  const int64_t B = all.at("curve_batch").at("B"), T = all.at("curve_batch").at("T");
  golden.run.batch = [config = golden.config, B, T](int64_t step, int64_t, int64_t) {
    return recipe_batch(config, B, T, step);
  };
  for (int64_t step = 0; step < golden.run.steps; ++step)
    golden.steps.push_back({json.at("loss").at(step), json.at("grad_norm").at(step)});
  for (const auto& [name, norm] : json.at("final_weight_norm").items())
    golden.final_weight_norm.emplace_back(name, norm);
  return golden;
}

template GoldenGradients<models::Gpt2Config> golden_gradients(bool);
template GoldenGradients<models::LlamaConfig> golden_gradients(bool);
template GoldenCurve<models::Gpt2Config> golden_curve(bool, const std::string&);
template GoldenCurve<models::LlamaConfig> golden_curve(bool, const std::string&);

std::vector<double> without_key_bias(const std::string& name, const std::vector<double>& values) {
  if (!name.ends_with("c_attn.bias")) return values;
  const auto C = static_cast<std::ptrdiff_t>(values.size() / 3);
  std::vector<double> rest(values.begin(), values.begin() + C);
  rest.insert(rest.end(), values.begin() + 2 * C, values.end());
  return rest;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

}  // namespace zrt::test
