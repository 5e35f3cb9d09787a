// Traces: what an executor saw as a file for viewers, with the bytes that were live meanwhile.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "catch.h"
#include "runtime/train/telemetry/chrome_trace.h"
#include "runtime/train/telemetry/step_trace.h"
#include "temporary_folder.h"
#include "tests/device.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::trace_test {

using namespace zrt;
using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;

namespace {

models::Model toy() {
  return make_toy(4, 12, 17, 5, false, false);
}

Setting setting(int stage) {
  Setting s;
  s.stage = stage, s.ranks = 2, s.accumulation = 6, s.overlap = true;
  s.unit_elements = 100, s.bucket = 200;
  return s;
}

// A session that has run "init".
struct Running {
  Setting s;
  Layout layout;
  Session session;
  Running(const models::Model& model, const Setting& setting)
      : s(setting),
        layout(testing::make_layout(model, s)),
        session(compile(layout, phases_of(s)), testing::session_options(s),
                {[this](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                   synthetic_batch(layout, 0, rank, microbatch, to);
                 },
                 {}}) {
    session.run("init", {});
  }
  void step(uint32_t number) { session.run("step", {s.seed, number, 0, {1e-2}}); }
};

core::CategoryBytes peak_of(const std::vector<LiveBytes>& series) {
  core::CategoryBytes peak{};
  for (const LiveBytes& point : series) {
    if (total(point.live[0]) > total(peak)) peak = point.live[0];
  }
  return peak;
}

json events_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return json::parse(in)["traceEvents"];
}

std::set<int64_t> steps_of(const json& events) {
  std::set<int64_t> steps;
  for (const json& event : events) {
    if (event["ph"] == "X") steps.insert(event["args"]["step"].get<int64_t>());
  }
  return steps;
}

}  // namespace

TEST_CASE("A buffer is live from the start of the op that defines it to the end of the last that uses it") {
  ProgramSet set;
  Buffer state{"state", core::Category::weights};
  state.life = Life::carried, state.bytes = 100;
  Buffer a{"a", core::Category::activations};
  a.bytes = 10;
  Buffer slots{"slots", core::Category::staging};
  slots.bytes = 3, slots.slots = 2, slots.tier = core::Tier::host;
  set.add(state), set.add(a), set.add(slots);
  set.lanes = {{LaneKind::compute, ""}};
  Program program;
  program.phase = "step";
  program.ops.resize(2);
  program.ops[0].accesses = {{1, Role::output, Use::write, {}}, {2, Role::tokens, Use::write, {0, 1}}};
  program.ops[1].accesses = {{1, Role::input, Use::read, {}}};
  program.segments = {{0, 2, 2}};
  set.programs = {program};
  const TimedRun run{&set.programs[0], 0, {{0, 0, 1, 2}, {1, 0, 3, 4}, {0, 1, 5, 6}, {1, 1, 7, 9}}};
  const auto series = live_series(set, run);
  std::vector<std::array<double, 4>> found;
  found.reserve(series.size());
  for (const LiveBytes& p : series) {
    found.push_back({p.seconds, static_cast<double>(p.live[0][static_cast<size_t>(core::Category::weights)]),
                     static_cast<double>(p.live[0][static_cast<size_t>(core::Category::activations)]),
                     static_cast<double>(p.live[1][static_cast<size_t>(core::Category::staging)])});
  }
  // `a` dies and is born again each turn; the slots live as one.
  CHECK(found == std::vector<std::array<double, 4>>{
                     {1, 100, 10, 6}, {4, 100, 0, 6}, {5, 100, 10, 6}, {6, 100, 10, 0}, {9, 100, 0, 0}});
}

TEST_CASE("Live bytes over a traced step peak where and as high as the plan says") {
  for (const int stage : {0, 1, 2, 3}) {
    Setting s = setting(stage);
    s.serialize = true;
    const models::Model model = toy();
    Running running(model, s);
    Executor& executor = running.session.executor(1);
    executor.set_tracing(true);
    running.step(0);
    const auto runs = timed_runs(executor.trace());
    REQUIRE(runs.size() == 1);
    const ProgramSet& set = running.session.stage(0).set;
    const auto series = live_series(set, runs[0]);
    // The plan's own count of the phase.
    LivePoint peak{};
    for (const LivePoint& point : live_bytes(set, set.program("step"))) {
      if (total(point.tiers[0]) > total(peak.tiers[0])) peak = point;
    }
    CHECK(peak_of(series) == peak.tiers[0]);
    CHECK(series.front().live == series.back().live);  // what is carried
  }
}

TEST_CASE("With lanes at work at once live bytes stay below the arena") {
  const models::Model model = toy();
  for (const int stage : {0, 3}) {
    Running running(model, setting(stage));
    running.session.executor(0).set_tracing(true);
    for (uint32_t step = 0; step < 5; ++step) running.step(step);
    const auto runs = timed_runs(running.session.executor(0).trace());
    REQUIRE(runs.size() == 5);
    for (const TimedRun& run : runs) {
      for (const LiveBytes& point : live_series(running.session.stage(0).set, run)) {
        CHECK(total(point.live[0]) <= running.session.stage(0).plan.device().peak_bytes);
      }
    }
  }
}

TEST_CASE("The file holds every op of every rank once, on its lane, with names, arguments and counters") {
  const TemporaryFolder folder;
  const models::Model model = toy();
  Running running(model, setting(3));
  const core::HeldFolder out(folder.path);
  StepTrace trace(running.session, out, {2, 3});
  CHECK(trace.note().empty());
  for (int64_t step = 1; step <= 4; ++step) {
    trace.before_step(step);
    running.step(static_cast<uint32_t>(step - 1));
    CHECK(trace.after_step(step, false).empty());
    CHECK(std::filesystem::exists(folder.path / "trace.json") == (step >= 3));
  }
  CHECK(running.session.executor(0).trace().empty());
  const ProgramSet& set = running.session.stage(0).set;
  size_t executions = 0;
  for_each_execution(set.program("step"), ~0u, [&](OpId, uint32_t) { ++executions; });
  const json events = events_of(folder.path / "trace.json");
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
  std::map<int, std::string> processes;
  std::map<std::string, int> kinds, threads;
  std::map<std::pair<int, int>, int> ops;  // by rank and step
  std::set<int> microbatches;
  std::set<std::string> blocks;
  double received = 0;
  for (const json& event : events) {
    const std::string ph = event["ph"], name = event["name"];
    const int pid = event["pid"];
    ++kinds[ph];
    if (name == "process_name") processes[pid] = event["args"]["name"];
    if (name == "thread_name") ++threads[event["args"]["name"]];
    if (ph == "C") {
      double sum = 0;
      for (const auto& [category, bytes] : event["args"].items()) sum += bytes.get<double>();
      // A GPU's batches come by way of the host tier.
      const bool host = name == "host memory" && zrt::test::test_device() == zrt::core::DeviceKind::cuda;
      if (!host) CHECK(name == "device memory");
      const auto& plan = running.session.stage(0).plan;
      CHECK(sum <= static_cast<double>(host ? plan.host().peak_bytes : plan.device().peak_bytes));
    }
    if (ph != "X") continue;
    slices[{pid, event["tid"]}].push_back({event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
    if (event["cat"] == "program") continue;
    ++ops[{pid, event["args"]["step"]}];
    CHECK(event["args"]["bytes"].is_number_unsigned());
    if (event["args"].contains("microbatch")) microbatches.insert(event["args"]["microbatch"].get<int>());
    if (event["args"].contains("block")) blocks.insert(event["args"]["block"].get<std::string>());
    const bool comm = set.lanes[event["tid"].get<size_t>() - 1].kind == LaneKind::comm;
    if (comm && pid == 1) received += event["args"]["bytes"].get<double>();
  }
  CHECK(processes == std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}});
  for (const Lane& lane : set.lanes) CHECK(threads[lane.name()] == 2);
  CHECK(threads["programs"] == 2);
  const int each = static_cast<int>(executions);
  CHECK(ops == std::map<std::pair<int, int>, int>{{{0, 2}, each}, {{0, 3}, each}, {{1, 2}, each}, {{1, 3}, each}});
  CHECK(microbatches == std::set<int>{0, 1, 2, 3, 4, 5});
  CHECK(blocks.size() == model.blocks.size());
  CHECK(kinds["C"] > 4);
  double counted = 0;  // four steps, of which two are traced
  for (const auto& [kind, volume] : running.session.executor(1).comm_volume()) {
    counted += static_cast<double>(volume.bytes);
  }
  CHECK(received * 2 == counted);
  // Viewers want the slices of a track not to overlap.
  double first = INFINITY;
  for (auto& [track, own] : slices) {
    std::sort(own.begin(), own.end());
    first = std::min(first, own.front().first);
    for (size_t i = 1; i < own.size(); ++i) CHECK(own[i].first >= own[i - 1].second - 0.002);  // rounded to ns
  }
  CHECK(first < 1);  // µs
}

TEST_CASE("A run that is stopped early leaves the steps traced so far") {
  const TemporaryFolder folder;
  const models::Model model = toy();
  Running running(model, setting(2));
  const core::HeldFolder out(folder.path);
  StepTrace trace(running.session, out, {2, 100});
  for (int64_t step = 1; step <= 3; ++step) {
    trace.before_step(step);
    running.step(static_cast<uint32_t>(step - 1));
    CHECK(trace.after_step(step, step == 3).empty());
  }
  CHECK(steps_of(events_of(folder.path / "trace.json")) == std::set<int64_t>{2, 3});
  // Later steps are not traced.
  trace.before_step(4);
  running.step(3);
  CHECK(running.session.executor(0).trace().empty());
}

TEST_CASE("A trace is cut where it would grow too large, and says so") {
  const TemporaryFolder folder;
  const models::Model model = toy();
  Running running(model, setting(3));
  const core::HeldFolder out(folder.path);
  StepTrace trace(running.session, out, {1, 1000000});
  INFO(trace.note());
  CHECK(trace.note().find("of the 1000000 steps asked for") != std::string::npos);
  size_t executions = 0;
  for_each_execution(running.session.stage(0).set.program("step"), ~0u, [&](OpId, uint32_t) { ++executions; });
  CHECK(trace.note().find("holds " + std::to_string(StepTrace::most_events / (2 * executions)) + " of") !=
        std::string::npos);
}

TEST_CASE("A trace that cannot be written is told and ends nothing") {
  const models::Model model = toy();
  Running running(model, setting(0));
  const core::HeldFolder out("/proc/nothing");
  StepTrace trace(running.session, out, {1, 1});
  trace.before_step(1);
  running.step(0);
  CHECK(trace.after_step(1, false).find("the trace is lost: /proc/nothing") == 0);
}

}  // namespace zrt::trace_test
