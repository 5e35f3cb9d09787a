#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

constexpr const char* legal_split =
    "legal: two or three weights, of training, validation and test, such as \"969,30,1\", of which the first two are "
    "above "
    "0; or the fraction of the documents that is held out, above 0 and below 1.";

// Numbers of 0 or more with commas between them; nothing where something else stands there.
std::vector<double> weights_of(const std::string& text) {
  std::vector<double> weights;
  const char *at = text.data(), *end = at + text.size();
  while (at <= end) {
    const char* comma = std::find(at, end, ',');
    double weight = 0;
    const auto [stop, error] = std::from_chars(at, comma, weight, std::chars_format::fixed);
    if (error != std::errc() || stop != comma || !std::isfinite(weight) || weight < 0) return {};
    weights.push_back(weight);
    at = comma + 1;
  }
  return weights;
}

// Weights as data::split_sequences() takes them.
std::string split_of(const Value& split) {
  std::string text =
      split.value.is_string() ? split.value.get<std::string>() : fmt::format("{:.12f}", split.value.get<double>());
  std::vector<double> weights = weights_of(text);
  if (weights.size() == 1 && weights[0] < 1) {
    weights = {1 - weights[0], weights[0]};
    text = fmt::format("{:.9f},{:.9f}", weights[0], weights[1]);
  }
  const bool legal = (weights.size() == 2 || weights.size() == 3) && weights[0] > 0 && weights[1] > 0;
  if (!legal) refuse(split, legal_split);
  return text;
}

}  // namespace

void build_split(const Values& values, DataConfig& data) {
  const Value& split = values.at("data.split");
  if (split.value.is_null()) return;
  const std::string weights = split_of(split);
  if (!data.validation.empty())
    refuse(split, "cuts held-out data off data.train, but data.validation names some, too. Leave one of them out.");
  if (data.train.empty()) refuse(split, "cuts data.train, which is not set.");
  for (DataSource& source : data.train) {
    source.split = weights;
    data.validation.push_back(source);
    data.validation.back().weight = 1, data.validation.back().part = 1;
  }
}

}  // namespace zrt::runtime::configuration
