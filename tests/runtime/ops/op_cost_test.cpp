// The constants of a cluster say what an op costs: computation, updates and transfers.
#include <map>

#include "catch.h"
#include "core/error.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/ops/spec.h"
#include "runtime/passes/compile.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/ops/round_cluster.h"
#include "tests/runtime/placements.h"

namespace zrt::op_cost_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Cluster;
using runtime::Op;
using runtime::OpKind;
using runtime::ProgramSet;

namespace {

double seconds_of(const std::vector<OpKind>& kinds, const runtime::Layout& layout, const Cluster& cluster) {
  const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
  double seconds = 0;
  runtime::for_each_execution(set.program("step"), ~0u, [&](runtime::OpId id, uint32_t) {
    const Op& op = set.program("step").ops[id];
    if (std::find(kinds.begin(), kinds.end(), op.kind) != kinds.end()) {
      seconds += runtime::op_cost(set, op, layout, cluster).seconds;
    }
  });
  return seconds;
}

}  // namespace

TEST_CASE("A layer costs its products, its attention and its passes; a backward twice the products") {
  models::Gpt2Config config;
  config.layers = 1, config.hidden = 64, config.heads = 2, config.sequence = 16, config.vocab = 96;
  const models::Model model = models::make_gpt2(config);
  const models::Shape shape{2, 16, core::DType::f32, core::DType::f32};
  Cluster cluster = cluster_of(1);
  const double R = 32, C = 64, V = 96, T = 16;
  const runtime::BlockCost layer = block_cost(*model.blocks[1], shape, false, cluster);
  const double products = 2 * R * 12 * C * C / 0.5e9, attention = 2 * 2 * R * T / 2 * C;
  const double passes = 4 * 18 * R * C / 1e6;
  CHECK(layer.forward_seconds == Approx(products + attention / 0.25e9 + passes));
  CHECK(layer.backward_seconds == Approx(2 * products + 2.5 * attention / 0.125e9 + 2 * passes));

  // The head makes its products in its backward.
  const runtime::BlockCost head = block_cost(*model.blocks[2], shape, true, cluster);
  CHECK(head.backward_seconds == Approx(3 * 2 * R * V * C / 0.5e9 + 2 * 4 * R * (V + 3 * C) / 1e6));
  CHECK(head.forward_seconds == Approx(4 * 2 * R * C / 1e6));
  // Products too small for the arithmetic to matter are bound by memory.
  cluster.memory_bytes_per_second = 1e3;
  const double narrow = block_cost(*model.blocks[2], shape, true, cluster).backward_seconds;
  CHECK(narrow - head.backward_seconds == Approx(3 * 4 * (R * C + C * V + R * V) / 1e3).epsilon(0.01));
}

TEST_CASE("Attention that writes its scores costs products of whole squares and passes over these") {
  const models::Model model = models::make_gpt2({.layers = 1, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 96});
  const models::Shape shape{2, 16, core::DType::f32, core::DType::f32};
  Cluster fused = cluster_of(1);
  fused.memory_bytes_per_second = 1e9;
  Cluster unfused = fused;
  unfused.software.score_bytes_forward = 12, unfused.software.score_bytes_backward = 17;
  const auto cost = [&](const Cluster& cluster) { return block_cost(*model.blocks[1], shape, false, cluster); };
  const double scores = 2 * 2 * 16 * 16, product = 2 * scores * 32 / 0.5e9;  // of samples and heads; one of width 32
  const double half = 2 * 2 * 32 * 8 * 64;                                   // FLOPs of the causal half
  CHECK(cost(unfused).forward_seconds - cost(fused).forward_seconds ==
        Approx(2 * product + 12 * scores / 1e9 - half / 0.25e9));
  CHECK(cost(unfused).backward_seconds - cost(fused).backward_seconds ==
        Approx(4 * product + 17 * scores / 1e9 - 2.5 * half / 0.125e9));
  // A block without attention has no scores.
  CHECK(block_cost(*model.blocks[2], shape, true, unfused).backward_seconds ==
        Approx(block_cost(*model.blocks[2], shape, true, fused).backward_seconds));
}

TEST_CASE("Software that runs whole layers again pays a recompute like its forward, and both exchanges") {
  const models::Model model =
      models::make_gpt2({.layers = 1, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 64, .degrees = {2}});
  Setting s;
  s.tensor = 2;
  s.recompute = {runtime::Recompute::full};
  const runtime::Layout layout = make_layout(model, s);
  const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
  Cluster cluster = cluster_of(2);
  const auto seconds = [&](OpKind kind, bool again) {
    double sum = 0;
    for (const Op& op : set.program("step").ops) {
      if (op.kind == kind && op.block == 1 && op.again == again) sum += op_cost(set, op, layout, cluster).seconds;
    }
    return sum;
  };
  const double before = seconds(OpKind::exchange, true), others = seconds(OpKind::exchange, false);
  CHECK(before > 0);
  CHECK(others == Approx(4 * before));  // two forward, two backward
  cluster.software.whole_recompute = true;
  CHECK(seconds(OpKind::recompute, false) == Approx(seconds(OpKind::forward, false)));
  CHECK(seconds(OpKind::exchange, true) == Approx(2 * before));
  CHECK(seconds(OpKind::exchange, false) == Approx(others));
}

TEST_CASE("A recompute costs of its forward the share of the products and attention that it repeats") {
  const models::Model model = models::make_gpt2({.layers = 1, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 64});
  const double C = 64, T = 16, all = 24 * C * C + 2 * T * C, mlp = 8 * C * C;
  for (const auto how : {runtime::Recompute::full, runtime::Recompute::selective}) {
    Setting s;
    s.recompute = {how};
    const runtime::Layout layout = make_layout(model, s);
    const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
    double forward = 0, recompute = 0;
    for (const Op& op : set.program("step").ops) {
      if (op.block != 1) continue;
      if (op.kind == OpKind::forward) forward = runtime::op_cost(set, op, layout, cluster_of(1)).seconds;
      if (op.kind == OpKind::recompute) recompute = runtime::op_cost(set, op, layout, cluster_of(1)).seconds;
    }
    const double share = how == runtime::Recompute::full ? (all - mlp) / all : mlp / all;
    CHECK(forward > 0);
    CHECK(recompute == Approx(forward * share));
  }
}

TEST_CASE("Halves of a backward cost together what it costs in one piece, that of weights its products alone") {
  const models::Model model =
      models::make_gpt2({.layers = 1, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 64, .degrees = {2}});
  Setting s;
  s.tensor = 2;
  const auto seconds = [&](bool overlap) {
    s.overlap = overlap;
    const runtime::Layout layout = make_layout(model, s);
    const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
    std::map<std::pair<int, models::Half>, double> of;
    for (const Op& op : set.program("step").ops) {
      if (op.kind != OpKind::backward || op.block != 1) continue;
      of[{op.parts.first, op.half}] = runtime::op_cost(set, op, layout, cluster_of(1)).seconds;
    }
    return of;
  };
  auto whole = seconds(false), halves = seconds(true);
  const double C = 64, A = 32, T = 16;
  for (const int attention : {1, 3}) {  // the first part of its run; the MLP's is the other one
    using models::Half;
    const double piece = whole.at({attention, Half::both});
    CHECK(halves.at({attention, Half::input}) + halves.at({attention, Half::weight}) == Approx(piece));
    const double products = attention == 1 ? 8 * C * A : 2 * 2 * C * 4 * A, core = attention == 1 ? 2 * T * A : 0;
    CHECK(halves.at({attention, Half::weight}) == Approx(piece * products / (2 * products + 2.5 * core)));
  }
}

TEST_CASE("An update moves the rank's part of every state, reads and writes counted") {
  const models::Model model = models::make_gpt2({.layers = 1, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 64});
  for (const int stage : {0, 1, 2, 3}) {
    Setting s;
    s.ranks = 2, s.stage = stage, s.compute = core::DType::bf16;
    const runtime::Layout layout = make_layout(model, s);
    const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
    Cluster cluster = cluster_of(2);
    cluster.memory_bytes_per_second = 1;
    double update = 0, norm = 0;
    for (const Op& op : set.program("step").ops) {
      if (op.kind == OpKind::update) update += runtime::op_cost(set, op, layout, cluster).seconds;
      if (op.kind == OpKind::norm) norm += runtime::op_cost(set, op, layout, cluster).seconds;
    }
    double elements = 0;
    for (const auto& unit : layout.units.units) {
      elements += static_cast<double>(stage == 0 ? unit.elements : unit.shard);
    }
    // Gradient read; weight, master and two moments read and written. The control block is small.
    const double gradient = static_cast<double>(core::dtype_size(layout.grad));
    INFO("stage " << stage);
    CHECK(update == Approx(elements * (gradient + 2 * (2 + 12))).epsilon(0.01));
    CHECK(norm == Approx(elements * gradient / (stage == 0 ? 2 : 1)).epsilon(0.05));
  }
}

TEST_CASE("What moves takes its bytes over the link, slowed down as the run's, or over the disk that ranks share") {
  const models::Model model = models::make_gpt2({.layers = 2, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 64});
  for (const core::Tier tier : {core::Tier::host, core::Tier::nvme}) {
    Setting s;
    s.ranks = 2, s.stage = 3, s.compute = core::DType::bf16;
    runtime::Layout layout = make_layout(model, s);
    layout.placement = uniform(layout, tier, tier, tier, tier, tier, core::Tier::device);
    const ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
    const runtime::Moved bytes = runtime::forecast_moved(set, set.program("step"));
    REQUIRE(bytes.to_device > 0);
    const auto moving = [&](const Cluster& cluster) {
      return seconds_of({OpKind::fetch, OpKind::evict}, layout, cluster);
    };
    Cluster cluster = cluster_of(2);
    cluster.host_link = {0, 100}, cluster.disk = {0, 10}, cluster.disk_read_bytes_per_second = 50;
    const double link = static_cast<double>(bytes.to_device + bytes.to_host);
    const double disk = 2 * static_cast<double>(bytes.written) / 10 + 2 * static_cast<double>(bytes.read) / 50;
    CHECK((disk > 0) == (tier == core::Tier::nvme));
    CHECK(moving(cluster) == Approx(link / 100 + disk));
    layout.link_bytes_per_second = 25;
    CHECK(moving(cluster) == Approx(link / 25 + disk));
    layout.link_bytes_per_second = 400;
    CHECK(moving(cluster) == Approx(link / 100 + disk));
    cluster.disk_read_bytes_per_second.reset();
    CHECK(moving(cluster) == Approx(link / 100 + 2 * static_cast<double>(bytes.written + bytes.read) / 10));
    cluster.host_link.latency_seconds = 1000;
    CHECK(moving(cluster) > 1000);
  }
}

TEST_CASE("An update on the host moves the rank's part through the host's memory") {
  const models::Model model = models::make_gpt2({.layers = 1, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 64});
  for (const int stage : {0, 1, 2, 3}) {
    Setting s;
    s.ranks = 2, s.stage = stage, s.compute = core::DType::bf16;
    runtime::Layout layout = make_layout(model, s);
    const auto host = core::Tier::host, device = core::Tier::device;
    layout.placement = uniform(layout, device, device, host, host, device, host);
    Cluster cluster = cluster_of(2);
    cluster.host_memory_bytes_per_second = 10;
    double elements = 0;
    for (const auto& unit : layout.units.units) {
      elements += static_cast<double>(stage == 0 ? unit.elements : unit.shard);
    }
    // The gradient is read, the weight written; master and two moments are both.
    const double bytes = elements * static_cast<double>(core::dtype_size(layout.grad) + 2 + 2 * 12);
    INFO("stage " << stage);
    CHECK(seconds_of({OpKind::update}, layout, cluster) == Approx(bytes / 10).epsilon(0.01));
    cluster.host_memory_bytes_per_second.reset();
    cluster.memory_bytes_per_second = 5;
    CHECK(seconds_of({OpKind::update}, layout, cluster) == Approx(bytes / 5).epsilon(0.01));
  }
}

TEST_CASE("The machines of today have all constants, for either device and any number of ranks") {
  const models::Model model = models::make_gpt2({.layers = 1, .hidden = 64, .heads = 2, .sequence = 16, .vocab = 64});
  for (const core::DeviceKind device : {core::DeviceKind::cpu, core::DeviceKind::cuda}) {
    const Cluster& cluster = runtime::nominal_cluster(device);
    for (const int ranks : {1, 12}) {
      Setting s;
      s.ranks = ranks, s.stage = 3, s.compute = core::DType::bf16;
      runtime::Layout layout = make_layout(model, s);
      const auto nvme = core::Tier::nvme;
      layout.placement = uniform(layout, nvme, nvme, nvme, nvme, nvme, core::Tier::host);
      for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::gather, OpKind::update, OpKind::fetch}) {
        const double seconds = seconds_of({kind}, layout, cluster);
        CHECK((seconds > 0 && seconds < 1));
      }
    }
  }
}

}  // namespace zrt::op_cost_test
