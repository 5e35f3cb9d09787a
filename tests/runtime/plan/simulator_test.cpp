#include "runtime/plan/simulator.h"

#include <ctime>

#include "catch.h"
#include "core/error.h"
#include "runtime/passes/compile.h"
#include "tests/runtime/harness.h"

namespace zrt::simulator_test {

using namespace zrt;
using namespace zrt::testing;
using core::DType;
using runtime::Access;
using runtime::Cluster;
using runtime::LaneKind;
using runtime::Op;
using runtime::OpId;
using runtime::OpKind;
using runtime::Program;
using runtime::ProgramSet;
using runtime::Role;
using runtime::Simulation;
using runtime::Use;

namespace {

constexpr double endless = 1e30;

// One rank moves a byte a second, computes as many FLOP, and nothing else costs anything.
Cluster unit_cluster(int ranks_per_host = 2) {
  Cluster cluster;
  cluster.name = "unit";
  cluster.ranks_per_host = ranks_per_host;
  runtime::ComputeRates rates;
  rates.peak_flops_per_second = 1;
  rates.gemm = rates.attention_forward = rates.attention_backward = {{{1, 1}}};
  rates.pass_bytes_per_second = rates.sum_bytes_per_second = endless;
  cluster.compute = {rates, rates, rates};
  cluster.memory_bytes_per_second = 1;
  cluster.inside_host = cluster.host_link = cluster.disk = {0, 1};
  cluster.between_hosts = {0, 1};
  return cluster;
}

// Programs written by hand: compute ops and gathers of a given number of seconds on the unit cluster.
struct Hand {
  ProgramSet set;
  Program program{"step", {}, {}};
  runtime::Layout layout;

  Hand() {
    set.lanes = {{LaneKind::compute, ""}, {LaneKind::comm, "dp"}, {LaneKind::to_device, ""}, {LaneKind::comm, "other"},
                 {LaneKind::to_host, ""}, {LaneKind::io, ""},     {LaneKind::host, ""}};
    layout.mesh = {2, 1, 1};
    set.groups = runtime::make_groups(layout.mesh, layout.groups.shard_axes(), 1);
  }
  OpId compute(uint64_t seconds, std::vector<OpId> waits = {}) {
    return add(OpKind::init, 0, seconds, Role::weight, Use::write, std::move(waits));
  }
  // Adds a gather of both ranks' halves in place.
  OpId gather(uint64_t seconds, std::vector<OpId> waits = {}, uint8_t lane = 1) {
    return add(OpKind::gather, lane, 2 * seconds, Role::full_state, Use::update, std::move(waits));
  }
  OpId batch(uint64_t seconds, std::vector<OpId> waits = {}) {
    return add(OpKind::load_batch, 2, seconds, Role::tokens, Use::write, std::move(waits));
  }
  OpId on_host(uint64_t seconds, std::vector<OpId> waits = {}) {
    return add(OpKind::init, 6, seconds, Role::weight, Use::write, std::move(waits));
  }
  OpId move(core::Tier from, core::Tier to, uint64_t bytes, std::vector<OpId> waits = {}) {
    const uint8_t lane = from == core::Tier::nvme || to == core::Tier::nvme ? 5 : to == core::Tier::device ? 2 : 4;
    const OpId id =
        add(to < from ? OpKind::fetch : OpKind::evict, lane, bytes, Role::copy, Use::write, std::move(waits));
    set.buffers.back().tier = to;
    runtime::Buffer source;
    source.bytes = bytes, source.tier = from;
    program.ops[id].accesses.push_back({set.add(source), Role::copied, Use::read, {}});
    return id;
  }
  OpId add(OpKind kind, uint8_t lane, uint64_t bytes, Role role, Use use, std::vector<OpId> waits) {
    runtime::Buffer buffer;
    buffer.bytes = bytes;
    Op op;
    op.kind = kind;
    op.lane = lane;
    op.accesses = {{set.add(buffer), role, use, {}}};
    op.waits = std::move(waits);
    program.ops.push_back(std::move(op));
    return static_cast<OpId>(program.ops.size() - 1);
  }
  Simulation run(const Cluster& cluster, uint32_t turns = 1) {
    program.segments = {{0, static_cast<uint32_t>(program.ops.size()), turns}};
    return runtime::simulate(set, program, layout, cluster, runtime::Wanted::timeline);
  }
};

runtime::Layout step_layout(const models::Model& model, int ranks, int stage, bool overlap, uint32_t accumulation = 2) {
  Setting s;
  s.ranks = ranks, s.stage = stage, s.overlap = overlap, s.accumulation = accumulation;
  s.unit_elements = 1 << 12, s.bucket = 1 << 13;
  return make_layout(model, s);
}

models::Model small_gpt2(int64_t layers = 3) {
  models::Gpt2Config config;
  config.layers = layers, config.hidden = 64, config.heads = 2, config.sequence = 16, config.vocab = 64;
  config.tied = false;
  return models::make_gpt2(config);
}

// A cluster of the order of magnitude of the small model, with everything costing something.
Cluster slow_cluster(int ranks_per_host) {
  Cluster cluster = unit_cluster(ranks_per_host);
  for (auto& rates : cluster.compute) {
    rates->peak_flops_per_second = 1e9;
    rates->pass_bytes_per_second = rates->sum_bytes_per_second = 1e8;
  }
  cluster.memory_bytes_per_second = 1e8;
  cluster.op_seconds = 1e-5;
  cluster.inside_host = {1e-5, 1e7};
  cluster.between_hosts = {1e-4, 1e6};
  cluster.host_link = {1e-5, 1e7};
  cluster.overlap_inside = {0.7, 0.8};
  cluster.overlap_between = {0.9, 0.95};
  return cluster;
}

}  // namespace

TEST_CASE("Ops that wait for each other take the sum of their times, and what the compute lane waits for is exposed") {
  Hand hand;
  const OpId load = hand.batch(1);
  const OpId first = hand.compute(3, {load});
  const OpId gather = hand.gather(2, {first});
  const OpId second = hand.compute(4, {gather});
  const Simulation run = hand.run(unit_cluster());
  CHECK(run.seconds == Approx(10));
  CHECK(run.exposed_comm_seconds == Approx(2));
  CHECK(run.exposed_io_seconds == Approx(1));
  CHECK(run.busy_seconds[0] == Approx(7));
  CHECK(run.busy_seconds[1] == Approx(2));
  CHECK(run.timeline[second].op == second);
  CHECK(run.timeline[second].start_seconds == Approx(6));
  CHECK(run.timeline[second].end_seconds == Approx(10));
}

TEST_CASE("What runs beside a computation is hidden up to its length") {
  for (const uint64_t seconds : {1, 3, 5}) {
    Hand hand;
    const OpId gather = hand.gather(seconds);
    hand.compute(3);
    hand.compute(4, {gather});
    const Simulation run = hand.run(unit_cluster());
    const double exposed = seconds > 3 ? static_cast<double>(seconds) - 3 : 0;
    CHECK(run.exposed_comm_seconds == Approx(exposed));
    CHECK(run.seconds == Approx(7 + exposed));
  }
}

TEST_CASE("Lanes that are busy at the same time slow each other down only as long as both are") {
  Cluster cluster = unit_cluster();
  cluster.overlap_inside = {0.5, 0.25};
  Hand hand;
  hand.compute(3);
  const OpId gather = hand.gather(1);
  hand.compute(2, {gather});
  // The gather moves a quarter per second and ends at 4, when 2 of 3 seconds are computed; the rest takes until 5.
  const Simulation run = hand.run(cluster);
  CHECK(run.timeline[1].end_seconds == Approx(4));
  CHECK(run.timeline[0].end_seconds == Approx(5));
  CHECK(run.seconds == Approx(7));
  CHECK(run.exposed_comm_seconds == 0);

  Hand longer;  // the computation ends first: at 4, half a second of the gather is left
  longer.compute(2);
  const OpId half = longer.gather(1, {});
  longer.compute(1, {half});
  cluster.overlap_inside = {0.5, 0.125};
  const Simulation rest = longer.run(cluster);
  CHECK(rest.timeline[0].end_seconds == Approx(4));
  CHECK(rest.timeline[1].end_seconds == Approx(4.5));
  CHECK(rest.exposed_comm_seconds == Approx(0.5));
}

TEST_CASE("A collective that blocks stops the compute lane, which goes on where it stood") {
  Cluster cluster = unit_cluster();
  cluster.overlap_inside = {0.5, 0.25};
  cluster.software.blocking_gathers = true;
  Hand hand;
  hand.gather(2);
  hand.compute(3);
  const Simulation run = hand.run(cluster);
  CHECK(run.timeline[0].end_seconds == Approx(2));
  CHECK(run.timeline[1].end_seconds == Approx(5));
  CHECK(run.busy_seconds[0] == Approx(3));
  CHECK(run.exposed_comm_seconds == Approx(2));
}

TEST_CASE("Two comm lanes on the same link share it") {
  Hand hand;
  const OpId one = hand.gather(2, {}, 1), two = hand.gather(4, {}, 3);
  hand.compute(1, {one, two});
  const Simulation run = hand.run(unit_cluster());
  CHECK(run.timeline[one].end_seconds == Approx(4));
  CHECK(run.timeline[two].end_seconds == Approx(6));
  CHECK(run.seconds == Approx(7));
}

TEST_CASE("A wait means the latest execution so far: this turn's above, the turn before's below") {
  Hand above;
  const OpId computed = above.compute(2);
  above.gather(3, {computed});
  CHECK(above.run(unit_cluster(), 4).seconds == Approx(2 + 4 * 3));

  Hand both;
  both.compute(2, {1});
  both.gather(3, {0});
  const Simulation run = both.run(unit_cluster(), 4);
  CHECK(run.seconds == Approx(4 * (2 + 3)));
  CHECK(run.exposed_comm_seconds == Approx(4 * 3));  // the last gather outlasts all computation
  CHECK(run.timeline.back().iteration == 3);

  Hand lead;  // two turns ahead at most: the gather of a turn waits for the computation of the turn before
  lead.gather(1, {1});
  lead.compute(3, {0});
  CHECK(lead.run(unit_cluster(), 4).seconds == Approx(4 * (1 + 3)));
}

TEST_CASE("The two directions of the link do not slow each other down, nor a disk beside them") {
  using core::Tier;
  Hand hand;
  Cluster cluster = unit_cluster(1);
  cluster.disk_read_bytes_per_second = 4096;
  const OpId up = hand.move(Tier::host, Tier::device, 3), down = hand.move(Tier::device, Tier::host, 4);
  const OpId read = hand.move(Tier::nvme, Tier::host, 2 * 4096);
  hand.compute(1, {up, down, read});
  const Simulation run = hand.run(cluster);
  CHECK(run.timeline[up].end_seconds == Approx(3));
  CHECK(run.timeline[down].end_seconds == Approx(4));
  CHECK(run.timeline[read].end_seconds == Approx(2));
  CHECK(run.exposed_io_seconds == Approx(4));
}

TEST_CASE("Exposed I/O is what both computing lanes wait for, the host's behind the last computation, and the tail") {
  using core::Tier;
  Cluster cluster = unit_cluster();
  cluster.overlap_host = {1, 1};
  Hand hand;
  // compute 0-2; down 2-5; update on the host 5-7, of which the wait until 5 lies behind the last computation, at 4,
  // for one second; up 7-10, the tail.
  const OpId computed = hand.compute(2);
  const OpId down = hand.move(Tier::device, Tier::host, 3, {computed});
  hand.compute(2);
  const OpId updated = hand.on_host(2, {down});
  hand.move(Tier::host, Tier::device, 3, {updated});
  const Simulation run = hand.run(cluster);
  CHECK(run.timeline[updated].start_seconds == Approx(5));
  CHECK(run.seconds == Approx(10));
  CHECK(run.exposed_io_seconds == Approx(1 + 3));
  CHECK(run.exposed_comm_seconds == 0);

  Hand longer;  // the same with a computation beside: until 9 nothing is lost, then the tail's last second
  const OpId first = longer.compute(2);
  const OpId moved = longer.move(Tier::device, Tier::host, 3, {first});
  longer.compute(7);
  longer.move(Tier::host, Tier::device, 3, {longer.on_host(2, {moved})});
  CHECK(longer.run(cluster).exposed_io_seconds == Approx(1));

  Hand waits;  // a wait for the host's lane is no wait for I/O
  waits.compute(1, {waits.on_host(3)});
  CHECK(waits.run(cluster).exposed_io_seconds == 0);
  CHECK(waits.run(cluster).seconds == Approx(4));
}

TEST_CASE("What a step loses behind its last computation counts once, first for communication, then for copies") {
  using core::Tier;
  for (const uint64_t gathers : {0, 1, 2, 5}) {
    for (const uint64_t copies : {0, 1, 2, 7}) {
      Hand hand;
      const OpId computed = hand.compute(3);
      if (gathers > 0) hand.gather(gathers, {computed});
      if (copies > 0) hand.move(Tier::device, Tier::host, copies, {computed});
      const Simulation run = hand.run(unit_cluster());
      CAPTURE(gathers, copies);
      CHECK(run.seconds == Approx(3 + static_cast<double>(std::max(gathers, copies))));
      CHECK(run.exposed_comm_seconds == Approx(static_cast<double>(gathers)));
      CHECK(run.exposed_comm_seconds + run.exposed_io_seconds == Approx(run.seconds - run.busy_seconds[0]));
    }
  }
}

TEST_CASE("Where a CPU plays the device, its host lane takes half of it while both are busy") {
  Cluster cluster = unit_cluster();
  Hand hand;
  hand.compute(3);
  hand.on_host(1);
  const Simulation run = hand.run(cluster);
  CHECK(run.timeline[1].end_seconds == Approx(2));
  CHECK(run.timeline[0].end_seconds == Approx(4));
  cluster.overlap_host = {0.75, 0.5};
  CHECK(hand.run(cluster).timeline[0].end_seconds == Approx(1.5 + 1.5 + 0.5));
  cluster.overlap_host.reset();
  hand.layout.device = core::DeviceKind::cuda;
  CHECK(hand.run(cluster).seconds == Approx(3));
}

TEST_CASE("A step is its computations and what they wait for, at every stage") {
  const models::Model model = small_gpt2();
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool overlap : {false, true}) {
      const runtime::Layout layout = step_layout(model, 4, stage, overlap);
      const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
      Cluster cluster = slow_cluster(2);
      cluster.overlap_inside = cluster.overlap_between = {1, 1};
      const Simulation run = runtime::simulate(set, set.program("step"), layout, cluster, runtime::Wanted::timeline);
      double last_computed = 0, computed = 0;
      for (const runtime::SimulatedOp& op : run.timeline) {
        if (set.lanes[set.program("step").ops[op.op].lane].kind != LaneKind::compute) continue;
        last_computed = std::max(last_computed, op.end_seconds);
        computed += op.end_seconds - op.start_seconds;
      }
      INFO("stage " << stage << ", overlap " << overlap);
      CHECK(run.busy_seconds[0] == Approx(computed));
      CHECK(last_computed == Approx(computed + run.exposed_comm_seconds + run.exposed_io_seconds));
      CHECK(run.exposed_comm_seconds > 0);
    }
  }
}

TEST_CASE("Overlap hides communication, and slower links, memory or arithmetic never make a step faster") {
  const models::Model model = small_gpt2();
  for (const int stage : {0, 2, 3}) {
    const auto seconds = [&](bool overlap, const Cluster& cluster) {
      const runtime::Layout layout = step_layout(model, 4, stage, overlap, 4);
      const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
      return runtime::simulate(set, set.program("step"), layout, cluster).seconds;
    };
    Cluster free_overlap = slow_cluster(4);
    free_overlap.overlap_inside = {1, 1};
    if (stage == 3) CHECK(seconds(true, free_overlap) < 0.95 * seconds(false, free_overlap));
    for (const bool overlap : {false, true}) {
      const auto never_faster = [&](const char* what, auto change) {
        double before = 0;
        for (const double factor : {1.0, 1.5, 2.0, 4.0, 16.0}) {
          Cluster cluster = slow_cluster(2);
          change(cluster, factor);
          const double now = seconds(overlap, cluster);
          INFO(what << " slower by " << factor << ", stage " << stage << ", overlap " << overlap);
          CHECK(now >= before * (1 - 1e-9));
          before = now;
        }
      };
      never_faster("inside", [](Cluster& c, double f) { c.inside_host.bytes_per_second /= f; });
      never_faster("between", [](Cluster& c, double f) { c.between_hosts->bytes_per_second /= f; });
      never_faster("latency", [](Cluster& c, double f) { c.between_hosts->latency_seconds *= f; });
      never_faster("memory", [](Cluster& c, double f) { c.memory_bytes_per_second /= f; });
      never_faster("arithmetic", [](Cluster& c, double f) { c.compute[0]->peak_flops_per_second /= f; });
      never_faster("overlap", [](Cluster& c, double f) { c.overlap_between.compute /= f; });
    }
  }
}

TEST_CASE("Ninety-six layers and 512 microbatches take no longer than their executions are many") {
  models::Gpt2Config config;
  config.layers = 96, config.hidden = 64, config.heads = 2, config.sequence = 16, config.vocab = 64;
  const models::Model model = models::make_gpt2(config);
  Setting s;
  s.ranks = 64, s.stage = 3, s.overlap = true, s.accumulation = 512, s.unit_elements = 1 << 14;
  const runtime::Layout layout = make_layout(model, s);
  const ProgramSet set = runtime::compile(layout, {"init", "step"}, {}, false).set;
  const std::clock_t start = std::clock();
  const Simulation run =
      runtime::simulate(set, set.program("step"), layout, slow_cluster(8), runtime::Wanted::timeline);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  INFO(run.timeline.size() << " executions in " << seconds << " s");
  CHECK(run.timeline.size() > 200'000);
  // This is processor time, which neighbours cannot stretch far: 0.2 s here; what grows with the square takes minutes.
  CHECK(seconds < (poisons ? 60 : 10));
}

}  // namespace zrt::simulator_test
