// The search for changes that make a run fit: every candidate is a configuration of its own.
#include "runtime/plan/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/mesh.h"
#include "runtime/plan/comm_bytes.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/setup.h"
#include "runtime/plan/simulator.h"
#include "runtime/plan/trials.h"
#include "runtime/program/moved.h"

namespace zrt::runtime {
namespace {

// A candidate may change these; one that is left as it is stays out of its changes.
struct Knobs {
  int ranks, stage;
  int64_t micro, every, unit_bytes;
  bool overlap;
  bool operator==(const Knobs&) const = default;
};

Knobs knobs_of(const Config& config) {
  return {config.mesh.world(),          config.zero.stage,        config.batch.micro,
          config.parallel.reduce_every, config.memory.unit_bytes, config.zero.overlap_comm};
}

constexpr int64_t smallest_unit_bytes = 1 << 20;
// A program of more units takes long to make, and each needs little already.
constexpr int64_t most_units = 1024;

// Candidates along one of the knobs, from the mildest change to the strongest, which needs the least memory.
using Ladder = std::vector<Knobs>;

class SuggestionSearch {
 public:
  SuggestionSearch(const Config& config, const models::Model& model, const std::vector<std::string>& phases,
                   const Limits& limits, const Cluster* cluster, const FitRules& rules)
      : config_(config),
        model_(model),
        phases_(phases),
        limits_(limits),
        cluster_(cluster),
        rules_(rules),
        trials_(config, model, phases, limits, cluster),
        base_(knobs_of(config)),
        given_every_(is_given("parallel.reduce_every")) {}

  std::vector<Suggestion> run() {
    std::vector<Knobs> found;
    const auto take = [&](const std::optional<Knobs>& knobs) {
      if (knobs) found.push_back(*knobs);
      return knobs.has_value();
    };
    if (!take(mildest(stages(base_)))) {
      for (const Knobs& higher : stages(base_)) take(mildest(microbatches(higher)));
    }
    for (const Ladder& ladder : {microbatches(base_), windows(base_), units(base_), overlaps(base_)}) {
      take(mildest(ladder));
    }
    Knobs all = strongest(base_);
    if (found.empty() && fits(all)) found.push_back(relaxed(all));
    if (!take(more_ranks(base_)) && found.empty() && take_ranks(all)) found.push_back(relaxed(all));
    std::vector<Suggestion> suggestions;
    const auto add = [&](const std::optional<Suggestion>& suggestion) {
      if (suggestion) suggestions.push_back(*suggestion);
    };
    for (const Knobs& knobs : found) add(fitted(changes_of(knobs), knobs.ranks));
    add(placed());
    for (const std::vector<Changes>& way : ways()) add(first_of(way));
    std::stable_sort(suggestions.begin(), suggestions.end(),
                     [](const Suggestion& a, const Suggestion& b) { return a.cost < b.cost; });
    return suggestions;
  }

 private:
  // Suggests an automatic placement instead of the configuration's own.
  std::optional<Suggestion> placed() const {
    if (config_.memory.open_placement || phases_.empty()) return std::nullopt;
    return fitted({{"memory.placement", "auto"}}, base_.ranks);
  }

  // Changes of keys that are no matter of more or less, in turns from the mildest on: of each way the first that fits
  // is suggested. The ranks stay; where fewer of them have different samples, each takes more microbatches.
  std::vector<std::vector<Changes>> ways() const {
    std::vector<std::vector<Changes>> all;
    const MemoryConfig& memory = config_.memory;
    if (!memory.open_recompute && memory.recompute != Recompute::full) {
      std::vector<Changes>& again = all.emplace_back();
      if (memory.recompute == Recompute::never) again.push_back({{"memory.recompute", "none"}});
      if (memory.recompute <= Recompute::none) again.push_back({{"memory.recompute", "selective"}});
      again.push_back({{"memory.recompute", "full"}});
    }
    const Mesh& mesh = config_.mesh;
    if (mesh.tensor() > 1 && !config_.model.degrees.sequence_parallel) all.push_back({{{"parallel.sequence", "true"}}});
    all.push_back(shared("parallel.tensor", mesh.tensor()));
    all.push_back(shared("parallel.pipeline", mesh.pipeline()));
    if (mesh.pipeline() > 1 && config_.parallel.schedule.kind != ScheduleKind::one_f_one_b) {
      all.push_back({{{"parallel.schedule", "1f1b"}, {"parallel.virtual_pipeline", "1"}}});
    }
    if (!model_.frozen.empty() && !memory.frozen) {
      all.push_back({{{"memory.frozen", "int8"}}, {{"memory.frozen", "nf4"}}});
    }
    std::vector<Changes>& forms = all.emplace_back();
    for (const char* moments : {"bf16", "int8"}) forms.push_back({{"memory.moments", moments}});
    if (memory.master && config_.precision.compute == core::DType::bf16) {
      forms.push_back({{"memory.moments", "int8"}, {"memory.master", "none"}});
    }
    return all;
  }

  // Two, four … times as many ranks of a model share it, as long as some are left that do not.
  std::vector<Changes> shared(const char* key, int degree) const {
    std::vector<Changes> all;
    for (int times = 2; config_.mesh.data() % times == 0; times *= 2) {
      all.push_back({{key, fmt::format("{}", degree * times)},
                     {"gradient_accumulation_steps", fmt::format("{}", config_.batch.accumulation * times)}});
    }
    return all;
  }

  std::optional<Suggestion> first_of(const std::vector<Changes>& way) {
    for (const Changes& changes : way) {
      try {
        if (!trials_.may_fit(changes, base_.ranks)) continue;
      } catch (const core::ConfigError&) {
        continue;  // for example heads that so many ranks cannot share
      }
      if (std::optional<Suggestion> found = fitted(changes, base_.ranks)) return found;
    }
    return std::nullopt;
  }

  // Plans the changed configuration as its user will; none when it is refused or does not fit.
  std::optional<Suggestion> fitted(Changes changes, int ranks) const {
    Suggestion result;
    result.changes = std::move(changes);
    try {
      const Config config = trials_.changed(result.changes, ranks);
      FitRequest request = rules_.request(config);
      request.check = false;
      const std::vector<Compiled> stages = fit(config, make_layouts(config, trials_.model_of(config)), request).stages;
      if (!rules_.holds(config, stages)) return std::nullopt;
      result.peaks = peak_bytes(stages);
      if (!stages.front().set.has("step")) return result;
      result.comm_bytes = comm_bytes(stages);
      result.cost = static_cast<double>(result.comm_bytes + moved_bytes(stages));
      if (cluster_) {
        result.seconds_per_step = simulate_step(stages, *cluster_, Wanted::seconds).front().seconds;
        result.cost = *result.seconds_per_step;
      }
      result.cost *= static_cast<double>(ranks) / static_cast<double>(config.batch.train * model_.sequence);
    } catch (const core::ConfigError&) {
      return std::nullopt;
    }
    return result;
  }

  // Returns the bytes that a rank of the stage that receives most receives in a step.
  static uint64_t comm_bytes(const std::vector<Compiled>& stages) {
    uint64_t most = 0;
    for (const Compiled& stage : stages) {
      if (!stage.set.has("step")) continue;
      most = std::max(most, total(runtime::comm_bytes(stage.set, stage.set.program("step"), stage.layout)));
    }
    return most;
  }

  // Returns the bytes that a rank of the stage that moves most moves between tiers in a step.
  static uint64_t moved_bytes(const std::vector<Compiled>& stages) {
    uint64_t most = 0;
    for (const Compiled& stage : stages) {
      const Moved moved = forecast_moved(stage.set, stage.set.program("step"));
      most = std::max(most, moved.to_device + moved.to_host + moved.read + moved.written);
    }
    return most;
  }

  bool is_given(std::string_view path) const {
    return std::any_of(config_.keys.begin(), config_.keys.end(), [&](const ResolvedKey& key) {
      return key.path == path && (key.from == "file" || key.from == "command line");
    });
  }

  Ladder stages(Knobs knobs) const {
    Ladder ladder;
    while (knobs.stage < 3) ++knobs.stage, ladder.push_back(knobs);
    return ladder;
  }
  // Divisors keep the batch as it is.
  static Ladder smaller_divisors(Knobs knobs, int64_t Knobs::*number) {
    Ladder ladder;
    const int64_t whole = knobs.*number;
    for (int64_t part = whole / 2; part >= 1; --part) {
      if (whole % part != 0) continue;
      knobs.*number = part;
      ladder.push_back(knobs);
    }
    return ladder;
  }
  static Ladder microbatches(const Knobs& knobs) { return smaller_divisors(knobs, &Knobs::micro); }
  static Ladder windows(const Knobs& knobs) { return smaller_divisors(knobs, &Knobs::every); }
  Ladder units(Knobs knobs) const {
    Ladder ladder;
    const int64_t bytes = model_.parameters() * static_cast<int64_t>(core::dtype_size(config_.precision.compute));
    const int64_t smallest = std::max(smallest_unit_bytes, bytes / most_units);
    while (knobs.unit_bytes / 2 >= smallest) knobs.unit_bytes /= 2, ladder.push_back(knobs);
    return ladder;
  }
  static Ladder overlaps(Knobs knobs) {
    if (!knobs.overlap) return {};
    knobs.overlap = false;
    return {knobs};
  }
  Knobs strongest(const Knobs& knobs) const {
    Knobs all = knobs;
    for (auto ladder : {stages(all), microbatches(all), units(all), overlaps(all)}) {
      if (ladder.empty()) continue;
      const Knobs& end = ladder.back();
      all = {end.ranks, std::max(all.stage, end.stage),           std::min(all.micro, end.micro),
             all.every, std::min(all.unit_bytes, end.unit_bytes), all.overlap && end.overlap};
    }
    if (given_every_) all.every = 1;
    return all;
  }

  // Takes each change back as far as it is not needed; what one frees may make another needless.
  Knobs relaxed(Knobs knobs) {
    const auto weaken = [&](auto member, Ladder ladder) {
      ladder.insert(ladder.begin(), base_);
      for (const Knobs& rung : ladder) {
        if (rung.*member == knobs.*member) return;
        Knobs milder = knobs;
        milder.*member = rung.*member;
        if (fits(milder)) {
          knobs = milder;
          return;
        }
      }
    };
    for (Knobs before = base_; !(before == knobs);) {
      before = knobs;
      weaken(&Knobs::overlap, overlaps(base_));
      weaken(&Knobs::unit_bytes, units(base_));
      weaken(&Knobs::every, windows(base_));
      weaken(&Knobs::micro, microbatches(base_));
      weaken(&Knobs::stage, stages(base_));
    }
    return knobs;
  }

  std::optional<Knobs> mildest(const Ladder& ladder) {
    if (ladder.empty() || !fits(ladder.back())) return std::nullopt;
    return *std::partition_point(ladder.begin(), ladder.end() - 1, [&](const Knobs& knobs) { return !fits(knobs); });
  }

  // Doubles the ranks until they suffice, or cannot: what a doubling saves is at least what all further ones would. Of
  // those between the last two numbers the smallest that suffices is taken.
  std::optional<Knobs> more_ranks(Knobs knobs) {
    if (!limits_.more_ranks) return std::nullopt;
    std::optional<double> last = excess_of(knobs);
    while (last && knobs.ranks <= Mesh::max_ranks / 2) {
      knobs.ranks *= 2;
      const std::optional<double> next = excess_of(knobs);
      if (next && *next == 0) return fewest_ranks(knobs);
      if (!next || *next - (*last - *next) >= 0) return std::nullopt;
      last = next;
    }
    return std::nullopt;
  }
  // Returns none for a configuration that is refused, for example for a batch type that only some of the candidates
  // allow.
  std::optional<double> excess_of(const Knobs& knobs) {
    try {
      return trials_.excess(changes_of(knobs), knobs.ranks);
    } catch (const core::ConfigError&) {
      return std::nullopt;
    }
  }
  Knobs fewest_ranks(Knobs knobs) {
    int low = knobs.ranks / base_.ranks / 2, high = 2 * low;  // times the base's; the former are too few
    while (high - low > 1) {
      Knobs middle = knobs;
      middle.ranks = (low + (high - low) / 2) * base_.ranks;
      (fits(middle) ? high : low) = middle.ranks / base_.ranks;
    }
    knobs.ranks = high * base_.ranks;
    return knobs;
  }
  bool take_ranks(Knobs& knobs) {
    const auto found = more_ranks(knobs);
    if (found) knobs = *found;
    return found.has_value();
  }

  bool fits(const Knobs& knobs) {
    const auto key = std::tuple(knobs.ranks, knobs.stage, knobs.micro, knobs.every, knobs.unit_bytes, knobs.overlap);
    const auto [found, added] = fits_.try_emplace(key, false);
    try {
      if (added) found->second = trials_.fits(changes_of(knobs), knobs.ranks);
    } catch (const core::ConfigError&) {
      // No run could be so.
    }
    return found->second;
  }

  Changes changes_of(const Knobs& knobs) const {
    Changes changes;
    const auto set = [&](const char* key, auto value) { changes.emplace_back(key, fmt::format("{}", value)); };
    const int64_t times = knobs.ranks / base_.ranks;
    int64_t accumulation = config_.batch.accumulation * (base_.micro / knobs.micro);
    if (times > 1) set("ranks", knobs.ranks);
    if (times > 1 && accumulation % times != 0) {
      set("train_batch_size", config_.batch.train * times);
    } else {
      accumulation /= times;
    }
    if (knobs.stage != base_.stage) set("zero_optimization.stage", knobs.stage);
    if (knobs.micro != base_.micro) set("train_micro_batch_size_per_gpu", knobs.micro);
    if (accumulation != config_.batch.accumulation) set("gradient_accumulation_steps", accumulation);
    if (knobs.every != base_.every) set("parallel.reduce_every", knobs.every);
    if (knobs.unit_bytes != base_.unit_bytes) set("memory.unit_bytes", knobs.unit_bytes);
    if (knobs.overlap != base_.overlap) set("zero_optimization.overlap_comm", knobs.overlap);
    return changes;
  }

  const Config& config_;
  const models::Model& model_;
  const std::vector<std::string>& phases_;
  const Limits& limits_;
  const Cluster* cluster_;
  const FitRules& rules_;
  Trials trials_;
  const Knobs base_;
  const bool given_every_;
  std::map<std::tuple<int, int, int64_t, int64_t, int64_t, bool>, bool> fits_;
};

}  // namespace

std::vector<Suggestion> suggest_fits(const Config& config, const models::Model& model,
                                     const std::vector<std::string>& phases, const Limits& limits,
                                     const Cluster* cluster, const FitRules& rules) {
  return SuggestionSearch(config, model, phases, limits, cluster, rules).run();
}

}  // namespace zrt::runtime
