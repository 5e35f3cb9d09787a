// Lanes that are threads of the host beside those of the device: a rank on a GPU has both kinds.
#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "core/parallel.h"
#include "runtime/engine/executor.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/pauses.h"
#include "tests/runtime/toy_model.h"

namespace zrt::host_lanes_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Use;

namespace {

enum Lane : uint8_t { compute, to_device, to_host, io, host };
constexpr uint64_t bytes = 4096;
constexpr uint32_t turns = 12;

// Programs that pass what lies in the first slot of "d0" on from buffer to buffer by ops that copy: "round" through all
// lanes, and at the end of a turn to the next slot of "d0"; "watched" the same, but that the host looks at what it has
// got (`visit`); "device" through lanes of the device alone.
class Rig {
 public:
  explicit Rig(
      runtime::ExecutorOptions options, std::function<void(float* values)> visit = [](float*) {})
      : layout_(make_layout(model_, {})) {
    using runtime::LaneKind;
    set_.lanes = {{LaneKind::compute, ""},
                  {LaneKind::to_device, ""},
                  {LaneKind::to_host, ""},
                  {LaneKind::io, ""},
                  {LaneKind::host, ""}};
    add("control", core::Tier::device, sizeof(runtime::Control), 1);
    for (const char* name : {"d0", "d1"}) add(name, core::Tier::device, bytes, turns + 1);
    for (const char* name : {"h0", "h1", "h2"}) add(name, core::Tier::host, bytes, turns + 1);
    runtime::Program round, watched, device;
    round.phase = "round", watched.phase = "watched", device.phase = "device";
    for (runtime::Program* program : {&round, &watched}) {
      const runtime::OpId look = program == &watched;  // one op more
      copy(*program, compute, "d0", "d1", 0, {look + 4});
      copy(*program, to_host, "d1", "h0", 0, {0});
      if (look) {
        program->ops.push_back(op(runtime::OpKind::export_state, host, "look at h0", {1}));
        program->ops.back().accesses = {{find("h0"), runtime::Role::full_state, Use::update, {0, 1}}};
      }
      copy(*program, host, "h0", "h1", 0, {look + 1});
      copy(*program, io, "h1", "h2", 0, {look + 2});
      copy(*program, to_device, "h2", "d0", 1, {look + 3});
    }
    copy(device, compute, "d0", "d1", 0, {});
    copy(device, to_host, "d1", "h0", 0, {0});
    for (runtime::Program* program : {&round, &watched, &device}) {
      program->segments = {{0, static_cast<uint32_t>(program->ops.size()), turns}};
      set_.programs.push_back(*program);
    }
    core::Arenas arenas{};
    for (const core::Tier tier : {core::Tier::device, core::Tier::host}) {
      const auto t = static_cast<size_t>(tier);
      arenas_[t] = std::make_unique<core::Arena>(tier, set_.arena_bytes[t], test::test_device());
      arenas[t] = arenas_[t].get();
    }
    runtime::Rank rank;
    rank.layout = &layout_;
    rank.export_param = [visit](const optimizer::Unit&, const optimizer::UnitParam&, const float* values) {
      visit(const_cast<float*>(values));
    };
    executor_ = std::make_unique<runtime::Executor>(std::move(rank), set_, arenas, options);
  }

  runtime::Executor& executor() { return *executor_; }
  void run(const char* phase) {
    std::iota(pattern_.begin(), pattern_.end(), static_cast<uint8_t>(++runs_));
    for (const auto& arena : arenas_) {
      if (arena) core::fill_bytes(arena->data(), 0, arena->bytes());
    }
    core::copy_bytes(executor_->buffer("d0"), pattern_.data(), bytes);
    test::settle();
    executor_->run(set_.program(phase));
  }
  // True where a slot holds what the run began with.
  bool arrived(const char* buffer, uint32_t slot) {
    const std::vector<std::byte> seen = executor_->read(buffer, slot);
    return std::memcmp(seen.data(), pattern_.data(), bytes) == 0;
  }

 private:
  void add(const char* name, core::Tier tier, uint64_t size, uint32_t slots) {
    runtime::Buffer buffer;
    buffer.name = name, buffer.tier = tier, buffer.bytes = size, buffer.slots = slots;
    buffer.life = runtime::Life::carried;
    uint64_t& end = set_.arena_bytes[static_cast<size_t>(tier)];
    buffer.offset = end;
    end += slots * buffer.stride();
    set_.add(buffer);
  }
  runtime::BufferId find(const std::string& name) const {
    const auto found =
        std::find_if(set_.buffers.begin(), set_.buffers.end(), [&](const auto& b) { return b.name == name; });
    return static_cast<runtime::BufferId>(found - set_.buffers.begin());
  }
  static runtime::Op op(runtime::OpKind kind, Lane lane, const std::string& name, std::vector<runtime::OpId> waits) {
    runtime::Op op;
    op.kind = kind, op.lane = lane, op.name = name, op.units = {0}, op.waits = std::move(waits);
    return op;
  }
  void copy(runtime::Program& program, Lane lane, const char* from, const char* to, uint32_t ahead,
            std::vector<runtime::OpId> waits) const {
    runtime::Op made = op(runtime::OpKind::snapshot, lane, std::string(from) + " to " + to, std::move(waits));
    made.accesses = {{find(from), runtime::Role::full_state, Use::read, {0, 1}},
                     {find(to), runtime::Role::snapshot, Use::write, {ahead, 1}}};
    program.ops.push_back(std::move(made));
  }

  models::Model model_ = make_toy(2, 12, 17, 5, false, false);
  runtime::Layout layout_;
  runtime::ProgramSet set_;
  std::array<std::unique_ptr<core::Arena>, core::tier_count> arenas_;
  std::unique_ptr<runtime::Executor> executor_;
  test::Visible<uint8_t> pattern_ = test::Visible<uint8_t>(bytes);
  uint8_t runs_ = 0;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("lanes of the host and of the device pass data on in the order of the program") {
  for (const bool serialize : {false, true}) {
    for (const uint64_t seed : {0u, 3u, 4u}) {
      Rig rig({1, serialize, seed});
      for (int run = 0; run < 4; ++run) {
        CAPTURE(serialize, seed, run);
        rig.run("round");
        CHECK(rig.arrived("h2", 0));
        CHECK(rig.arrived("h2", turns - 1));
        CHECK(rig.arrived("d0", turns));
        rig.run("device");  // from the second time on a GPU replays it
        CHECK(rig.arrived("h0", 0));
        CHECK(!rig.arrived("h0", 1));
      }
    }
  }
}

TEST_CASE("ops of the host lane run on a thread of their own, on the host, with its number of threads") {
  for (const bool serialize : {false, true}) {
    std::thread::id thread;
    core::Place place;
    int threads = 0;
    runtime::ExecutorOptions options{3, serialize};
    options.host_threads = test::test_device() == core::DeviceKind::cpu ? 1 : 2;
    Rig rig(options,
            [&](float*) { thread = std::this_thread::get_id(), place = core::place(), threads = core::threads(); });
    rig.run("watched");
    CHECK(place.device == core::DeviceKind::cpu);
    const bool cpu = test::test_device() == core::DeviceKind::cpu;
    CHECK(threads == (cpu ? 3 : 2));
    CHECK((thread == std::this_thread::get_id()) == (cpu && serialize));
  }
}

TEST_CASE("times of lanes of both kinds are those of the steady clock, and standing still for the host is exposed") {
  Pauses pauses;
  Rig rig({}, [&](float*) { std::this_thread::sleep_for(pauses.length()); });
  rig.executor().set_tracing(true);
  rig.run("watched");
  rig.executor().clear_trace();
  const double begin = now();
  rig.run("watched");
  const double end = now(), slack = 200e-6;
  const auto& trace = rig.executor().trace();
  REQUIRE(trace.size() == 6 * turns);
  CHECK(trace.front().start_seconds >= begin - slack);
  CHECK(trace.back().end_seconds <= end + slack);
  for (size_t i = 0; i < trace.size(); ++i) {
    CAPTURE(i);
    CHECK(trace[i].op == i % 6);
    CHECK(trace[i].iteration == i / 6);
    CHECK(trace[i].end_seconds >= trace[i].start_seconds);
    // An op's start is taken when its lane is free, before it waits.
    if (i > 0) CHECK(trace[i].end_seconds >= trace[i - 1].end_seconds - slack);
    if (trace[i].op == 2) CHECK(trace[i].end_seconds - trace[i].start_seconds >= pauses.seconds());
  }
  CHECK(rig.executor().exposed_io_seconds() <= end - begin);
  CHECK(pauses.until([&] {
    rig.run("watched");
    return rig.executor().exposed_io_seconds() >= 0.98 * pauses.seconds() * (turns - 1);
  }));
}

TEST_CASE("an error on a lane of the host ends the run, and the next one is whole") {
  int visits = 0;
  Rig rig({}, [&](float*) {
    if (++visits == 3) throw core::DataError("the disk is gone");
  });
  CHECK_THROWS_WITH(rig.run("watched"), "the disk is gone");
  CHECK(visits == 3);
  rig.run("watched");
  CHECK(rig.arrived("d0", turns));
}

TEST_CASE("a lane of the host that writes past the end of a buffer is found") {
  Rig rig({}, [&](float* values) { values[bytes / sizeof(float)] = 1; });
  CHECK_THROWS_WITH(rig.run("watched"),
                    Catch::Contains("op 'look at h0'") && Catch::Contains("past the end of buffer 'h0'"));
}

}  // namespace zrt::host_lanes_test
