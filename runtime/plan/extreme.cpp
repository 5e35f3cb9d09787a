#include "runtime/plan/extreme.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/keys/text.h"
#include "core/ledger.h"
#include "core/mesh.h"

namespace zrt::runtime {
namespace {

constexpr int64_t sequence_grain = 128, most_tokens = int64_t{1} << 24, most_rows = int64_t{1} << 20;

struct Value {
  int64_t number;  // as people say it
  Changes changes;
  int ranks;
};

// One thing that may be more or less. Values go from what surely fits, if anything does, to what does not.
struct Question {
  const char *best, *unit, *nothing;
  size_t count;
  std::function<Value(size_t i)> value;
};

std::string as_text(int64_t number) {
  return std::to_string(number);
}

// Ranks that divide the batch, the most first.
Question fewest_ranks(const Config& config, const Trials& trials) {
  const int of_model = config.mesh.world() / config.mesh.data();
  const int64_t microbatches = config.batch.train / config.batch.micro;  // of all ranks
  std::vector<Value> values;
  for (int64_t data = std::min<int64_t>(microbatches, Mesh::max_ranks / of_model); data >= 1; --data) {
    if (microbatches % data != 0) continue;
    const auto ranks = static_cast<int>(data) * of_model;
    const Changes changes{{"gradient_accumulation_steps", as_text(microbatches / data)}};
    try {
      trials.changed(changes, ranks);
      values.push_back({ranks, changes, ranks});
    } catch (const core::ConfigError&) {
      // There may be fewer microbatches than a schedule takes, for example.
    }
  }
  const size_t count = values.size();
  return {"the fewest ranks that fit are", "", "no number of ranks", count,
          [values = std::move(values)](size_t i) { return values[i]; }};
}

Question longest_sequence(const Config& config) {
  return {"the longest sequence that fits has", " tokens", "no sequence", most_tokens / sequence_grain,
          [ranks = config.mesh.world()](size_t i) {
            const int64_t tokens = (static_cast<int64_t>(i) + 1) * sequence_grain;
            return Value{tokens, {{"model.sequence", as_text(tokens)}}, ranks};
          }};
}

Question largest_microbatch(const Config& config) {
  const int64_t times = config.batch.accumulation * config.mesh.data();
  return {"the largest microbatch that fits has", " samples", "no microbatch", most_rows,
          [times, ranks = config.mesh.world()](size_t i) {
            const int64_t rows = static_cast<int64_t>(i) + 1;
            return Value{
                rows,
                {{"train_micro_batch_size_per_gpu", as_text(rows)}, {"train_batch_size", as_text(rows * times)}},
                ranks};
          }};
}

Question question_of(const std::string& what, const Config& config, const Trials& trials) {
  if (what == "ranks") return fewest_ranks(config, trials);
  if (what == "sequence") return longest_sequence(config);
  if (what == "microbatch") return largest_microbatch(config);
  throw core::UsageError(
      fmt::format("--find is {}; legal is ranks, sequence or microbatch", core::keys::in_quotes(what)));
}

}  // namespace

Extreme find_extreme(const std::string& what, const Config& config, const models::Model& model,
                     const std::vector<std::string>& phases, const Cluster* cluster) {
  const Limits limits = memory_limits(config, cluster);
  Trials trials(config, model, phases, limits, cluster);
  const Question question = question_of(what, config, trials);
  if (std::none_of(limits.tiers.begin(), limits.tiers.end(), [](const auto& limit) { return limit.has_value(); })) {
    throw core::UsageError(
        fmt::format("--find {} needs a limit of memory: give --cluster or memory.device_budget_bytes", what));
  }
  double lack = 0;  // of the last value that does not fit
  const auto fits_at = [&](size_t number) {
    const Value value = question.value(number - 1);
    const double excess = trials.excess(value.changes, value.ranks);
    if (excess > 0) lack = excess;
    return excess == 0;
  };
  // Numbers of values, from 1: doubles until one does not fit, then halves.
  size_t fits = 0, fails = question.count + 1;
  while (fails > question.count && fits < question.count) {
    const size_t next = std::min(std::max<size_t>(1, 2 * fits), question.count);
    (fits_at(next) ? fits : fails) = next;
  }
  while (fails <= question.count && fails - fits > 1) {
    const size_t middle = fits + (fails - fits) / 2;
    (fits_at(middle) ? fits : fails) = middle;
  }
  // A plan tries more and may find room beyond.
  const auto planned_at = [&](size_t number) {
    const Value value = question.value(number - 1);
    const double excess = trials.excess_as_planned(value.changes, value.ranks);
    // Two searches end at different placements where nothing fits; the one that lacks less counts.
    if (excess > 0) lack = std::min(excess, trials.excess(value.changes, value.ranks));
    return excess == 0;
  };
  for (size_t step = 2; fails <= question.count && planned_at(fails); step *= 2) {
    fits = fails;
    fails = fits == question.count ? fits + 1 : std::min(fits + step, question.count);
  }
  while (fails <= question.count && fails - fits > 1) {
    const size_t middle = fits + (fails - fits) / 2;
    (planned_at(middle) ? fits : fails) = middle;
  }
  Extreme found;
  found.text = fmt::format("{} fits", question.nothing);
  if (fits > 0) {
    const Value value = question.value(fits - 1);
    found = {fmt::format("{} {}{}", question.best, value.number, question.unit), value.changes, value.ranks,
             value.number};
  }
  if (fails <= question.count) {
    found.text += fmt::format("; {}{} lack {} on a rank", question.value(fails - 1).number, question.unit,
                              core::format_bytes(static_cast<uint64_t>(lack)));
  }
  return found;
}

}  // namespace zrt::runtime
