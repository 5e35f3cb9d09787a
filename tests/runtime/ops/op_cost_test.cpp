#include <map>

#include "catch.h"
#include "core/error.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/ops/spec.h"
#include "runtime/passes/compile.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"

namespace zrt::op_cost_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Axes;
using runtime::Axis;
using runtime::Cluster;
using runtime::Op;
using runtime::OpCost;
using runtime::OpKind;
using runtime::ProgramSet;
using runtime::Resource;
using runtime::Role;
using runtime::Use;

namespace {

Cluster cluster_of(int ranks_per_host) {
  Cluster cluster;
  cluster.name = "test";
  cluster.ranks_per_host = ranks_per_host;
  runtime::ComputeRates rates;
  rates.peak_flops_per_second = 1e9;
  rates.gemm = {{{1, 0.5}}};
  rates.attention_forward = {{{1, 0.25}}};
  rates.attention_backward = {{{1, 0.125}}};
  rates.pass_bytes_per_second = 1e6;
  rates.sum_bytes_per_second = 1e30;
  cluster.compute = {rates, rates, rates};
  cluster.memory_bytes_per_second = 1e30;
  cluster.inside_host = {0, 100};
  cluster.between_hosts = {0, 10};
  cluster.host_link = cluster.disk = {0, 1000};
  return cluster;
}

// One collective that leaves `bytes` on every rank, or takes them.
struct Collective {
  ProgramSet set;
  Op op;
  runtime::Layout layout;
  Collective(OpKind kind, int ranks, uint64_t bytes, Axes group = runtime::data_axes, int inner = 1) {
    layout.mesh = {ranks, 1, 1, inner};
    optimizer::Unit& unit = layout.units.units.emplace_back();
    unit.elements = ranks, unit.shard = 1;
    op.kind = kind;
    op.units = {0};
    set.groups = runtime::make_groups(layout.mesh, layout.groups.shard_axes(), 1);
    op.group = set.find_group(group);
    op.name = "the collective";
    runtime::Buffer buffer;
    buffer.bytes = bytes;
    const bool reduces = kind == OpKind::reduce_grad;
    op.accesses = {{set.add(buffer), reduces ? Role::local_grad : Role::full_state, Use::update, {}}};
  }
  OpCost cost(const Cluster& cluster) const { return runtime::op_cost(set, op, layout, cluster); }
};

}  // namespace

TEST_CASE("A collective inside a host takes what a rank receives over the link's bandwidth") {
  const OpCost four = Collective(OpKind::gather, 4, 800).cost(cluster_of(4));
  CHECK(four.seconds == Approx(600 / 100.0));
  CHECK(four.resource == Resource::inside_host);
  CHECK(Collective(OpKind::reduce_grad, 4, 800).cost(cluster_of(4)).seconds == Approx(6));
  CHECK(Collective(OpKind::gather, 1, 800).cost(cluster_of(4)).seconds == 0);
}

TEST_CASE("Latency is paid per hop of a ring, and once where ranks fetch directly") {
  Cluster cluster = cluster_of(2);
  cluster.inside_host = {1, 1e30}, cluster.between_hosts = {100, 1e30};
  CHECK(Collective(OpKind::gather, 8, 800).cost(cluster).seconds == Approx(3 * 100 + 4 * 1));
  cluster.exchange = runtime::Exchange::once_per_rank;
  CHECK(Collective(OpKind::gather, 8, 800).cost(cluster).seconds == Approx(100 + 1));
}

TEST_CASE("A reduction adds what the sum costs, a gather the copy of the rank's own part") {
  Cluster cluster = cluster_of(4);
  cluster.compute[0]->sum_bytes_per_second = 400;
  CHECK(Collective(OpKind::reduce_grad, 4, 800).cost(cluster).seconds == Approx(6 + 2));
  cluster.memory_bytes_per_second = 50;
  Collective apart(OpKind::gather, 4, 800);
  CHECK(apart.cost(cluster).seconds == Approx(6));
  runtime::Buffer part;
  part.bytes = 200;
  apart.op.accesses.push_back({apart.set.add(part), Role::weight, Use::read, {}});
  CHECK(apart.cost(cluster).seconds == Approx(6 + 2 * 200 / 50.0));
}

TEST_CASE("A reduction in place moves the whole gradient; between replicas it is an all-reduce of the shard") {
  const Cluster cluster = cluster_of(2);
  Collective in_place(OpKind::reduce_grad, 2, 800);
  in_place.op.accesses[0].role = Role::grad;
  CHECK(in_place.cost(cluster).seconds == Approx(400 / 100.0));

  // Four ranks on two hosts, states cut inside each: a shard of 800 bytes goes there and back by half.
  Collective replicas(OpKind::reduce_grad, 4, 800, Axis::outer, 2);
  replicas.op.accesses[0].role = Role::grad;
  replicas.layout.groups.replicated = true;
  optimizer::Unit& unit = replicas.layout.units.units[0];
  unit.shard = 2;
  unit.held = optimizer::zero_strategy(3);
  CHECK(replicas.cost(cluster).seconds == Approx(2 * 2 * 400 / 10.0));
  unit.held = optimizer::zero_strategy(1);  // the gradient is held whole, a shard of it travels
  CHECK(replicas.cost(cluster).seconds == Approx(2 * 2 * 200 / 10.0));
}

TEST_CASE("Sums inside islands are handed on as they come, those between islands are kept") {
  for (const auto& [axes, use, to] : {std::tuple{runtime::island_axes, Use::write, core::DType::bf16},
                                      {Axes(Axis::outer), Use::read, core::DType::f32}}) {
    Collective sums(OpKind::reduce_grad, 4, 800, axes, 2);
    sums.layout.zero = optimizer::zero_strategy(2);
    sums.layout.local_grad = core::DType::bf16, sums.layout.grad = core::DType::f32;
    sums.op.accesses.push_back({sums.op.accesses[0].buffer, Role::partial, use, {}});
    const runtime::Volume volume = runtime::spec(OpKind::reduce_grad).volume(sums.set, sums.op, sums.layout);
    CHECK(volume.from == core::DType::bf16);
    CHECK(volume.to == to);
  }
}

TEST_CASE("Between hosts the ranks of one share its link: each byte once, or once for every rank") {
  Cluster cluster = cluster_of(2);
  const Collective gather(OpKind::gather, 6, 600);
  CHECK(gather.cost(cluster).seconds == Approx(400 / 10.0));
  CHECK(gather.cost(cluster).resource == Resource::between_hosts);
  cluster.exchange = runtime::Exchange::once_per_rank;
  CHECK(gather.cost(cluster).seconds == Approx(2 * 400 / 10.0));
  // Five ranks: the host with one of them receives most.
  cluster.exchange = runtime::Exchange::once_per_host;
  CHECK(Collective(OpKind::gather, 5, 500).cost(cluster).seconds == Approx(400 / 10.0));
}

TEST_CASE("Sums between hosts are fetched by each rank, over NCCL too, and inside a host as much as a gather") {
  Cluster cluster = cluster_of(2);
  const Collective sum(OpKind::reduce_grad, 4, 800), gather(OpKind::gather, 4, 800);
  // Two ranks of a host are each sent their 200 by the two ranks of the other one.
  CHECK(sum.cost(cluster).seconds == Approx(2 * 2 * 200 / 10.0));
  CHECK(gather.cost(cluster).seconds == Approx(2 * 200 / 10.0));
  cluster.exchange = runtime::Exchange::once_per_rank;
  CHECK(sum.cost(cluster).seconds == gather.cost(cluster).seconds);
  CHECK(Collective(OpKind::reduce_grad, 4, 800).cost(cluster_of(4)).seconds ==
        Approx(Collective(OpKind::gather, 4, 800).cost(cluster_of(4)).seconds));
}

TEST_CASE("Large sums between hosts of many ranks go along a line of hosts, which is cheaper than an all-to-all") {
  // Each of 16 ranks asks for 64 MiB, in rounds of 1.5 MiB: 15 MiB of staging hold 7 contributions and 3 sums.
  constexpr uint64_t each = uint64_t{64} << 20;
  constexpr double rounds = 2 * 43, ticks = rounds + 2;
  Cluster cluster = cluster_of(8);
  const Collective sum(OpKind::reduce_grad, 16, 16 * each);
  CHECK(sum.cost(cluster).seconds == Approx(8 * 2 * each / 10.0));
  cluster.inside_host.bytes_per_second = 1;
  CHECK(sum.cost(cluster).seconds == Approx((ticks - 1) / rounds * 2 * 7 * each));
  cluster.inside_host = {1, 1e30}, cluster.between_hosts = {100, 1e30};
  CHECK(sum.cost(cluster).seconds == Approx(ticks * 100 + 1));
  // A rank that asks for little, hosts with two ranks, ranks that take hosts in turns, a group that fills one host and
  // half of another: an all-to-all.
  cluster.inside_host = {0, 1e30}, cluster.between_hosts = {0, 10};
  CHECK(Collective(OpKind::reduce_grad, 16, 1600).cost(cluster).seconds == Approx(8 * 8 * 100 / 10.0));
  cluster.ranks_per_host = 2;
  CHECK(Collective(OpKind::reduce_grad, 4, 4 * each).cost(cluster).seconds == Approx(2 * 2 * each / 10.0));
  cluster.ranks_per_host = 8;
  cluster.distribution = runtime::Distribution::cyclic;
  CHECK(sum.cost(cluster).seconds == Approx(8 * 8 * each / 10.0));
  cluster.distribution = runtime::Distribution::block;
  const Collective uneven(OpKind::reduce_grad, 24, 12 * each, runtime::island_axes, 12);
  CHECK(runtime::host_spread(uneven.set.group(uneven.op).ranks, 24, 8).hosts == 3);
  CHECK(uneven.cost(cluster).seconds == Approx(4 * 8 * each / 10.0));
}

TEST_CASE("Fast sums between hosts take what a gather of as much takes: each byte crosses once") {
  constexpr uint64_t each = uint64_t{64} << 20;
  Cluster cluster = cluster_of(8);
  cluster.between_hosts->latency_seconds = 3;
  cluster.fast_sums = true;
  const Collective sum(OpKind::reduce_grad, 16, 16 * each), gather(OpKind::gather, 16, 16 * each);
  CHECK(sum.cost(cluster).seconds == Approx(3 + 8 * each / 10.0));
  CHECK(sum.cost(cluster).seconds == Approx(gather.cost(cluster).seconds));
}

TEST_CASE("Inside a host ranks read each other's memory: latency is paid once, however many there are") {
  Cluster cluster = cluster_of(8);
  cluster.inside_host = {1, 1e30};
  for (const int ranks : {2, 8}) CHECK(Collective(OpKind::gather, ranks, 800).cost(cluster).seconds == Approx(1));
  // Over NCCL it is paid per hop of a ring.
  cluster.nccl_inside_hosts = true;
  CHECK(Collective(OpKind::gather, 8, 800).cost(cluster).seconds == Approx(7));
}

TEST_CASE("With groups of a host, the inner level stays inside and the outer level's groups share the link") {
  const Cluster cluster = cluster_of(2);
  // Eight ranks in groups of two: four hosts, each with both groups' members.
  const Collective inner(OpKind::gather, 8, 800, runtime::island_axes, 2),
      outer(OpKind::gather, 8, 400, Axis::outer, 2);
  CHECK(inner.cost(cluster).resource == Resource::inside_host);
  CHECK(inner.cost(cluster).seconds == Approx(400 / 100.0));
  CHECK(outer.cost(cluster).resource == Resource::between_hosts);
  CHECK(outer.cost(cluster).seconds == Approx(2 * 300 / 10.0));
  // Together as much through a host's link as in one level, which carries each byte once.
  CHECK(outer.cost(cluster).seconds == Approx(Collective(OpKind::gather, 8, 800).cost(cluster).seconds));

  const auto of_eight = [](Axes axes, int island, int per_host) {
    return runtime::host_spread(runtime::Mesh(8, 1, 1, island).groups(axes), 8, per_host);
  };
  const auto outer_of_four = [&](int island) { return of_eight(Axis::outer, island, 4); };
  CHECK(outer_of_four(2).local == 2);
  CHECK(outer_of_four(2).hosts == 2);
  CHECK(outer_of_four(2).groups == 2);
  CHECK(outer_of_four(4).local == 1);
  CHECK(outer_of_four(4).groups == 4);
  CHECK(of_eight(runtime::island_axes, 8, 4).hosts == 2);
  CHECK(of_eight(runtime::island_axes, 2, 3).hosts == 2);  // a group of three hosts' ranks lies across two
}

TEST_CASE("Where ranks lie on hosts in turns, neighbours are on different ones, and every second rank on one of two") {
  const auto spread = [](int size, int stride, int world, int ranks_per_host) {
    const runtime::HostSpread at =
        runtime::host_spread({size, stride}, world, ranks_per_host, runtime::Distribution::cyclic);
    return std::vector<int>{at.ranks, at.hosts, at.local, at.fewest, at.groups};
  };
  CHECK(spread(2, 1, 4, 2) == std::vector{2, 2, 1, 1, 2});
  CHECK(spread(2, 2, 4, 2) == std::vector{2, 1, 2, 2, 1});
  CHECK(spread(4, 1, 16, 8) == std::vector{4, 2, 2, 2, 4});
  CHECK(spread(4, 4, 16, 8) == std::vector{4, 1, 4, 4, 2});
  CHECK(spread(3, 1, 12, 4) == std::vector{3, 3, 1, 1, 4});
  CHECK(spread(4, 1, 12, 4) == std::vector{4, 3, 2, 1, 3});
  CHECK(spread(8, 1, 8, 4) == std::vector{8, 2, 4, 4, 1});
  CHECK(spread(4, 1, 4, 4) == std::vector{4, 1, 4, 4, 1});
  CHECK(spread(5, 1, 5, 4) == std::vector{5, 2, 3, 2, 1});
}

TEST_CASE("A collective over several hosts needs a cluster with a link between them") {
  Cluster cluster = cluster_of(2);
  cluster.between_hosts.reset();
  CHECK_NOTHROW(Collective(OpKind::gather, 2, 800).cost(cluster));
  std::string message;
  try {
    Collective(OpKind::gather, 4, 800).cost(cluster);
  } catch (const core::ConfigError& error) {
    message = error.what();
  }
  for (const char* part : {"the collective", "2 hosts", "between_hosts", "at most 2 ranks", "test"}) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("A layer costs its products, its attention and its passes; a backward twice the products") {
  models::Gpt2Config config;
  config.layers = 1, config.hidden = 64, config.heads = 2, config.sequence = 16, config.vocab = 96;
  const models::Model model = models::make_gpt2(config);
  const models::Shape shape{2, 16, core::DType::f32, core::DType::f32};
  const Cluster cluster = cluster_of(1);
  const double R = 32, C = 64, V = 96, T = 16;
  const runtime::BlockCost layer = block_cost(*model.blocks[1], shape, false, cluster.rates(core::DType::f32), 1e30);
  const double products = 2 * R * 12 * C * C / 0.5e9, attention = 2 * 2 * R * T / 2 * C;
  const double passes = 4 * 18 * R * C / 1e6;
  CHECK(layer.forward_seconds == Approx(products + attention / 0.25e9 + passes));
  CHECK(layer.backward_seconds == Approx(2 * products + 2.5 * attention / 0.125e9 + 2 * passes));

  // The head makes its products in its backward.
  const runtime::BlockCost head = block_cost(*model.blocks[2], shape, true, cluster.rates(core::DType::f32), 1e30);
  CHECK(head.backward_seconds == Approx(3 * 2 * R * V * C / 0.5e9 + 2 * 4 * R * (V + 3 * C) / 1e6));
  CHECK(head.forward_seconds == Approx(4 * 2 * R * C / 1e6));
  // Products too small for the arithmetic to matter are bound by memory.
  const double narrow =
      block_cost(*model.blocks[2], shape, true, cluster.rates(core::DType::f32), 1e3).backward_seconds;
  CHECK(narrow - head.backward_seconds == Approx(3 * 4 * (R * C + C * V + R * V) / 1e3).epsilon(0.01));
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
