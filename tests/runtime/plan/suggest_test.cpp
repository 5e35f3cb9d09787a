// Suggestions where a run does not fit say what becomes of it: each is followed, by a plan and by a run.
#include "runtime/plan/suggest.h"

#include <fmt/format.h>

#include <regex>

#include "catch.h"
#include "core/error.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"

namespace zrt::suggest_test {

using namespace zrt::runtime;

namespace {

struct Subject {
  std::string model, more;  // members of the configuration before the model
  int ranks;
};

const std::vector<Subject> subjects{
    {R"({"preset": "gpt2-tiny"})", "", 2},
    // Copies for checkpoints are worth no state's place, so that they come and go with other changes.
    {R"({"type": "gpt2", "layers": 4, "hidden": 128, "heads": 4, "sequence": 64, "vocab": 512})",
     R"("run": {"checkpoint_interval": 5}, "bf16": {"enabled": true},)", 2},
    // The second stage has more of the model, and receives more.
    {R"({"preset": "llama-tiny"})",
     R"("run": {"checkpoint_interval": 5}, "parallel": {"pipeline": 2, "partition": [1, 3]},)", 4},
    {R"({"type": "llama", "layers": 3, "hidden": 96, "heads": 4, "sequence": 64, "vocab": 512})",
     R"("zero_optimization": {"offload_optimizer": {"device": "cpu"}}, "scheduler": {"type": "WarmupDecayLR",
        "params": {"total_num_steps": "auto", "warmup_max_lr": "auto", "warmup_num_steps": 5}},)",
     2}};

std::string text_of(const Subject& subject) {
  return R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4, )" + subject.more +
         R"("memory": {"unit_bytes": 1048576}, "model": )" + subject.model + "}";
}

struct Case {
  Subject subject;
  std::vector<std::string> sets;
  std::optional<Cluster> cluster;

  Config config(const std::string& options = "") const {
    std::vector<std::string> all = sets;
    int ranks = subject.ranks;
    // The options are taken apart as by a shell.
    static const std::regex option("--(ranks|set) (\\S+)");
    for (std::sregex_iterator at(options.begin(), options.end(), option), end; at != end; ++at) {
      if ((*at)[1] == "ranks") {
        ranks = std::stoi((*at)[2]);
      } else {
        all.push_back((*at)[2]);
      }
    }
    return parse_config(text_of(subject), "suggest.json", all, ranks);
  }
  Plan plan(const std::string& options = "") const {
    const Config changed = config(options);
    return make_plan(changed, changed.model.make(), training_phases(changed, "init"), cluster);
  }
  TierBytes peaks(const std::string& options = "") const { return peaks_of(plan(options)); }
  static TierBytes peaks_of(const Plan& plan) {
    TierBytes most{};
    for (const StagePlan& stage : plan.stages) {
      for (size_t t = 0; t < most.size(); ++t) most[t] = std::max(most[t], stage.compiled.plan.tiers[t].peak_bytes);
    }
    return most;
  }
};

// Budgets of which some hold all on the device, some a part of it, and some hold next to nothing.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Subject& subject : subjects) {
    for (const char* stage : {"1", "2"}) {
      for (const char* placement : {"device", "auto"}) {
        Case base{subject, {std::string("zero_optimization.stage=") + stage}, {}};
        const bool offloads = subject.more.find("offload") != std::string::npos;
        if (!offloads) base.sets.push_back(std::string("memory.placement=") + placement);
        if (placement == std::string("device")) base.sets.push_back("memory.recompute=none");
        const TierBytes peaks = base.peaks();
        for (const double part : {0.95, 0.6, 0.3}) {
          for (const double host : {0.0, 1.0, 0.5}) {
            Case one = base;
            const auto budget = [](double share, uint64_t bytes) {
              return std::max<uint64_t>(1, static_cast<uint64_t>(share * static_cast<double>(bytes)));
            };
            one.sets.push_back(fmt::format("memory.device_budget_bytes={}", budget(part, peaks[0])));
            if (host > 0) one.sets.push_back(fmt::format("memory.host_budget_bytes={}", budget(host, peaks[0] / 2)));
            all.push_back(one);
          }
        }
      }
    }
  }
  // These cases are on a cluster, whose devices limit too.
  Case timed = all.front();
  for (const double part : {0.9, 0.5}) {
    timed.sets = {"zero_optimization.stage=1", "memory.placement=device"};
    timed.cluster = std::nullopt;
    const uint64_t peak = timed.peaks()[0];
    timed.cluster = find_cluster("dgx-a100");
    timed.cluster->reserved = {};
    timed.cluster->tier_bytes[0] = static_cast<uint64_t>(part * static_cast<double>(peak));
    all.push_back(timed);
  }
  return all;
}

}  // namespace

TEST_CASE("a suggestion that is followed fits, with the bytes of each tier, the traffic and the time that it states",
          "[long]") {
  int suggested = 0, short_of = 0, moved = 0, with_host = 0;
  for (const Case& one : cases()) {
    const Plan plan = one.plan();
    if (plan.fits) continue;
    ++short_of;
    for (const Suggestion& suggestion : plan.suggestions) {
      INFO(text_of(one.subject) << "\n" << fmt::format("{}", fmt::join(one.sets, " ")) << "\n" << suggestion.options());
      const Plan then = one.plan(suggestion.options());
      ++suggested;
      moved += suggestion.changes[0].first == "memory.placement";
      with_host += suggestion.peaks[1] > 0;
      CHECK(then.fits);
      CHECK(then.suggestions.empty());
      CHECK(Case::peaks_of(then) == suggestion.peaks);
      uint64_t received = 0;
      for (const StagePlan& stage : then.stages) received = std::max(received, total(stage.comm));
      CHECK(received == suggestion.comm_bytes);
      CHECK(suggestion.seconds_per_step.has_value() == one.cluster.has_value());
      if (one.cluster) CHECK(then.seconds_per_step() == *suggestion.seconds_per_step);
    }
  }
  CHECK(short_of >= 20);
  CHECK(suggested >= 40);
  CHECK(moved >= 5);
  CHECK(with_host >= 5);
}

TEST_CASE("a suggestion's text has the figures of each tier, and leaves out those that hold nothing") {
  Suggestion one;
  one.changes = {{"zero_optimization.stage", "3"}};
  one.peaks = {uint64_t{3} << 30, uint64_t{5} << 30, uint64_t{7} << 30};
  one.comm_bytes = uint64_t{11} << 30;
  const std::string text = suggestions_text({one});
  for (const char* part : {"--set zero_optimization.stage=3", "peak 3221225472 bytes (3.00 GiB) a rank",
                           "a rank receives 11.00 GiB a step", "; 5.00 GiB of host memory", "; 7.00 GiB on NVMe"}) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }
  one.peaks[1] = one.peaks[2] = 0;
  CHECK(suggestions_text({one}).find("host memory") == std::string::npos);
  CHECK(suggestions_text({one}).find("NVMe") == std::string::npos);
}

TEST_CASE("a run that does as its refusal says has the peak that this states", "[long]") {
  int followed = 0;
  for (const Case& one : cases()) {
    if (one.cluster) continue;
    const auto compiled = [&](const std::string& options) {
      const Config config = one.config(options);
      return compile_within_budget(config, config.model.make(), training_phases(config, "init"));
    };
    std::string refusal;
    try {
      compiled("");
      continue;
    } catch (const core::MemoryError& error) {
      refusal = error.what();
    }
    static const std::regex suggestion("\n  (--[^\n]+)\n    peak ([0-9]+) bytes");
    for (std::sregex_iterator at(refusal.begin(), refusal.end(), suggestion), end; at != end; ++at) {
      INFO(refusal << "\n" << (*at)[1]);
      ++followed;
      CHECK(peak_bytes(compiled((*at)[1]))[0] == std::stoull((*at)[2]));
    }
  }
  CHECK(followed >= 40);
}

TEST_CASE("every ZeRO stage above a plan's own is suggested where it fits and those between do not") {
  const Subject four{subjects[1].model, subjects[1].more, 4};
  const auto at = [&](int stage, uint64_t budget) {
    Case one{four, {}, {}};
    one.sets = {fmt::format("zero_optimization.stage={}", stage), "memory.placement=device", "memory.recompute=none"};
    if (budget > 0) one.sets.push_back(fmt::format("memory.device_budget_bytes={}", budget));
    return one;
  };
  uint64_t before = ~uint64_t{0};
  for (int stage = 1; stage < 4; ++stage) {
    const uint64_t peak = at(stage, 0).peaks()[0];
    REQUIRE(peak < before);
    before = peak;
    for (int from = 0; from < stage; ++from) {
      CAPTURE(from, stage);
      std::string all;
      for (const Suggestion& suggestion : at(from, peak).plan().suggestions) all += suggestion.options() + "\n";
      INFO(all);
      CHECK(all.find(fmt::format("--set zero_optimization.stage={}\n", stage)) != std::string::npos);
    }
  }
}

TEST_CASE("where auto stands for a number a plan suggests what it suggests for that number") {
  const auto suggestions = [](const std::string& total) {
    Case one{subjects.back(), {}, {}};
    one.sets = {"zero_optimization.stage=1",
                "zero_optimization.offload_optimizer.device=none",
                "memory.placement=device",
                "memory.recompute=none",
                "memory.device_budget_bytes=5000000",
                "scheduler.params.total_num_steps=" + total};
    std::string all;
    for (const Suggestion& suggestion : one.plan().suggestions) all += suggestion.options() + "\n";
    return all;
  };
  const std::string number = suggestions("1000");
  CHECK(number.find("--set zero_optimization.stage=") != std::string::npos);
  CHECK(suggestions("auto") == number);
}

}  // namespace zrt::suggest_test
