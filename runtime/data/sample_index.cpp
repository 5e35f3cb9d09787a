#include "runtime/data/sample_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>

#include "core/error.h"
#include "runtime/data/numpy_random.h"

namespace zrt::runtime::data {

namespace {

constexpr int64_t extra_token = 1;  // the label of a sample's last token

int64_t product(int64_t a, int64_t b, const std::string& source) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > INT64_MAX - extra_token)
    throw core::DataError(fmt::format(
        "{}: {} times {} tokens cannot be counted in 64 bits. Ask for fewer steps or smaller batches.", source, a, b));
  return result;
}

// `epochs` copies of the ids, shuffled together, or the last copy by itself.
std::vector<int32_t> document_order(int64_t count, int32_t first, const SampleIndex& index, Order order,
                                    NumpyRandom& random) {
  std::vector<int32_t> ids(static_cast<size_t>(count * index.epochs));
  for (int64_t i = 0; i < count * index.epochs; ++i) ids[i] = first + static_cast<int32_t>(i % count);
  if (order == Order::sequential) return ids;
  const auto together = static_cast<size_t>(count * (index.epochs - (index.separate_last_epoch ? 1 : 0)));
  random.shuffle(std::span(ids).first(together));
  random.shuffle(std::span(ids).subspan(together));
  return ids;
}

// A sample takes S + 1 tokens and the next starts at its last one. A sample that ends with a document leaves the walk
// on that document's last token.
std::vector<SampleStart> walk(const SampleIndex& index, const std::vector<int32_t>& lengths, int32_t first,
                              int64_t sequence, int64_t samples) {
  std::vector<SampleStart> starts;
  starts.reserve(static_cast<size_t>(samples) + 1);
  SampleStart at;
  starts.push_back(at);
  for (int64_t sample = 0; sample < samples; ++sample) {
    int64_t needed = sequence + extra_token;
    for (;;) {
      const int64_t here = lengths[static_cast<size_t>(index.documents[at.position] - first)] - at.offset;
      if (here >= needed) break;
      needed -= here;
      at = {at.position + 1, 0};
    }
    at.offset += needed - extra_token;
    starts.push_back(at);
  }
  return starts;
}

}  // namespace

SampleIndex build_sample_index(const std::vector<int32_t>& lengths, int32_t first, int64_t sequence,
                               std::optional<int64_t> samples, uint32_t seed, Order order, const std::string& source) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (sequence < 1 || samples.value_or(0) < 0)
    throw core::ConfigError(fmt::format("{}: {} samples of {} tokens were asked for; legal are 0 or more of 1 or more.",
                                        source, samples.value_or(0), sequence));
  if (tokens <= sequence)
    throw core::DataError(fmt::format(
        "{}: its {} documents hold {} tokens, too few for one sample: model.sequence {} needs at least one more for "
        "the last target. Add text or lower model.sequence.",
        source, lengths.size(), tokens, sequence));

  SampleIndex index;
  index.epochs = 1;
  if (samples) {
    const int64_t wanted = product(*samples, sequence, source) + extra_token;
    index.epochs = std::max<int64_t>(1, wanted / tokens + (wanted % tokens != 0));
  }
  const int64_t total = product(index.epochs, tokens, source);
  product(index.epochs, static_cast<int64_t>(lengths.size()), source);
  const int64_t whole = (total - extra_token) / sequence;
  int64_t before_last = whole;
  if (index.epochs > 1 && order == Order::megatron) {
    before_last = ((index.epochs - 1) * tokens - extra_token) / sequence;
    const int64_t per_epoch = (tokens - extra_token) / sequence;
    // 0.80 as a double and truncation: an exact fraction would differ from Megatron at some sizes.
    index.separate_last_epoch = *samples - before_last < static_cast<int64_t>(0.80 * static_cast<double>(per_epoch));
    if (!index.separate_last_epoch) before_last = whole;
  }
  index.left_out = total - extra_token - whole * sequence;

  NumpyRandom random(seed);  // one stream: documents first, then samples
  index.documents = document_order(static_cast<int64_t>(lengths.size()), first, index, order, random);
  index.starts = walk(index, lengths, first, sequence, whole);
  index.order.resize(static_cast<size_t>(whole));
  std::iota(index.order.begin(), index.order.end(), int64_t{0});
  if (order == Order::megatron) {
    const std::span all(index.order);
    random.shuffle(all.first(static_cast<size_t>(before_last)));
    random.shuffle(all.subspan(static_cast<size_t>(before_last)));
  }
  return index;
}

std::array<std::pair<int64_t, int64_t>, 3> split_sequences(const std::string& split, int64_t sequences) {
  std::array<double, 3> weights{};
  size_t count = 0;
  const char *at = split.data(), *end = at + split.size();
  bool legal = !split.empty();
  while (legal && at <= end) {
    const char* comma = std::find(at, end, ',');
    double weight = 0;
    const auto [stop, error] = std::from_chars(at, comma, weight, std::chars_format::fixed);
    legal = error == std::errc() && stop == comma && weight >= 0 && count < weights.size();
    if (legal) weights[count++] = weight;
    at = comma + 1;
  }
  const double sum = numpy_sum(weights);
  if (!legal || !(sum > 0) || !std::isfinite(sum))
    throw core::ConfigError(fmt::format(
        "data.split is '{}'; it must be one to three weights of 0 or more with a positive sum, such as 969,30,1.",
        split));
  std::array<std::pair<int64_t, int64_t>, 3> parts;
  double begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double stop = begin + weights[i] / sum;
    // nearbyint rounds halves to even, as Python's round does.
    const auto bound = [&](double x) {
      return static_cast<int64_t>(std::nearbyint(x * static_cast<double>(sequences)));
    };
    parts[i] = {bound(begin), stop > begin ? bound(stop) : bound(begin)};
    begin = stop;
  }
  return parts;
}

}  // namespace zrt::runtime::data
