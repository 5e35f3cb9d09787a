// Collectives cost what a cluster's constants say: over links, inside and between hosts, in groups of either.
#include <cmath>

#include "catch.h"
#include "core/error.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/ops/spec.h"
#include "runtime/passes/compile.h"
#include "tests/csv.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/ops/round_cluster.h"
#include "tests/runtime/placements.h"

namespace zrt::collective_cost_test {

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
  Collective replicas(OpKind::reduce_grad, 4, 800, runtime::outer_axes, 2);
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
                                      {runtime::outer_axes, Use::read, core::DType::f32}}) {
    Collective sums(OpKind::reduce_grad, 4, 800, axes, 2);
    sums.layout.zero = optimizer::zero_strategy(2);
    sums.layout.local_grad = core::DType::bf16, sums.layout.grad = core::DType::f32;
    sums.op.accesses.push_back({sums.op.accesses[0].buffer, Role::partial, use, {}});
    const runtime::Volume volume = runtime::spec(OpKind::reduce_grad).volume(sums.set, sums.op, sums.layout);
    CHECK(volume.from == core::DType::bf16);
    CHECK(volume.to == to);
  }
}

TEST_CASE(
    "Between hosts the ranks of one share its link: all parts but one once, as a ring has it, or for every rank") {
  Cluster cluster = cluster_of(2);
  const Collective gather(OpKind::gather, 6, 600);
  CHECK(gather.cost(cluster).seconds == Approx(500 / 10.0));
  CHECK(gather.cost(cluster).resource == Resource::between_hosts);
  cluster.exchange = runtime::Exchange::once_per_rank;
  CHECK(gather.cost(cluster).seconds == Approx(2 * 400 / 10.0));
  cluster.exchange = runtime::Exchange::once_per_host;
  CHECK(Collective(OpKind::gather, 5, 500).cost(cluster).seconds == Approx(400 / 10.0));
}

TEST_CASE("Sums between hosts are fetched by each rank, over NCCL too, and inside a host as much as a gather") {
  Cluster cluster = cluster_of(2);
  const Collective sum(OpKind::reduce_grad, 4, 800), gather(OpKind::gather, 4, 800);
  // Two ranks of a host are each sent their 200 by the two ranks of the other one.
  CHECK(sum.cost(cluster).seconds == Approx(2 * 2 * 200 / 10.0));
  CHECK(gather.cost(cluster).seconds == Approx(3 * 200 / 10.0));
  cluster.exchange = runtime::Exchange::once_per_rank;
  CHECK(sum.cost(cluster).seconds == gather.cost(cluster).seconds);  // messages, each to each
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

TEST_CASE("Fast sums between hosts take what a gather of as much takes: all parts but one cross once") {
  constexpr uint64_t each = uint64_t{64} << 20;
  Cluster cluster = cluster_of(8);
  cluster.between_hosts->latency_seconds = 3;
  cluster.fast_sums = true;
  const Collective sum(OpKind::reduce_grad, 16, 16 * each), gather(OpKind::gather, 16, 16 * each);
  CHECK(sum.cost(cluster).seconds == Approx(3 + 15 * each / 10.0));
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

TEST_CASE("NCCL takes a while of its own, and is as fast as so many ranks can be") {
  Cluster cluster = cluster_of(8);
  cluster.inside_host = {1, 100, 5, {{{2, 50}, {8, 200}}}};
  CHECK(Collective(OpKind::gather, 8, 800).cost(cluster).seconds == Approx(1 + 700 / 200.0));  // by memory
  cluster.nccl_inside_hosts = true;
  CHECK(Collective(OpKind::gather, 8, 800).cost(cluster).seconds == Approx(5 + 7 + 700 / 200.0));
  CHECK(Collective(OpKind::gather, 2, 800).cost(cluster).seconds == Approx(5 + 1 + 400 / 50.0));
}

TEST_CASE("Software with a call for each tensor waits for each, and may use a share of the link between hosts") {
  Cluster cluster = cluster_of(2);
  cluster.between_hosts->latency_seconds = 3;
  Collective gather(OpKind::gather, 4, 800);
  const models::Param param{};
  for (int64_t i = 0; i < 3; ++i) gather.layout.units.units[0].params.push_back({&param, i});
  CHECK(gather.cost(cluster).seconds == Approx(3 + 600 / 10.0));
  cluster.software.call_per_tensor = true;
  CHECK(gather.cost(cluster).seconds == Approx(3 * 3 + 600 / 10.0));
  cluster.software.between_hosts_share = 0.5;
  CHECK(gather.cost(cluster).seconds == Approx(3 * 3 + 600 / 5.0));
  CHECK(!gather.cost(cluster).blocks);
  cluster.software.blocking_gathers = true;
  CHECK(gather.cost(cluster).blocks);
  CHECK(!Collective(OpKind::reduce_grad, 4, 800).cost(cluster).blocks);
}

TEST_CASE("All-reduces of A100s over NVLink take what was measured within 15 %, and within 7 % on average") {
  const Cluster cluster = runtime::find_cluster("dgx-a100:megatron-2021");
  double off = 0;
  const auto rows = test::read_csv("a100_nvlink_allreduce.csv");
  for (const auto& row : rows) {
    const int ranks = std::stoi(row.at("ranks"));
    const double bytes = std::stod(row.at("bytes")), ring = 2.0 * (ranks - 1) / ranks;
    Collective collective(OpKind::gather, ranks, 0);
    runtime::Volume volume;
    volume.bytes = bytes, volume.rounds = 2, volume.copies = false;
    const double planned =
        collective_cost(collective.op, collective.set.group(collective.op), volume, collective.layout, cluster).seconds;
    const double error = planned / (ring * bytes / (std::stod(row.at("busbw_GBps")) * 1e9)) - 1;
    CAPTURE(ranks, bytes, error);
    CHECK(std::abs(error) < 0.15);
    off += std::abs(error);
  }
  CHECK(rows.size() == 33);
  CHECK(off / static_cast<double>(rows.size()) < 0.07);
}

TEST_CASE("With groups of a host, the inner level stays inside and the outer level's groups share the link") {
  const Cluster cluster = cluster_of(2);
  // Eight ranks in groups of two: four hosts, each with both groups' members.
  const Collective inner(OpKind::gather, 8, 800, runtime::island_axes, 2),
      outer(OpKind::gather, 8, 400, runtime::outer_axes, 2);
  CHECK(inner.cost(cluster).resource == Resource::inside_host);
  CHECK(inner.cost(cluster).seconds == Approx(400 / 100.0));
  CHECK(outer.cost(cluster).resource == Resource::between_hosts);
  CHECK(outer.cost(cluster).seconds == Approx(2 * 300 / 10.0));
  // Eight ranks in one ring send a host seven parts of 100 instead.
  CHECK(Collective(OpKind::gather, 8, 800).cost(cluster).seconds == Approx(700 / 10.0));

  const auto of_eight = [](Axes axes, int island, int per_host) {
    return runtime::host_spread(runtime::Mesh(8, 1, 1, island).groups(axes), 8, per_host);
  };
  const auto outer_of_four = [&](int island) { return of_eight(runtime::outer_axes, island, 4); };
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

TEST_CASE("A collective of a run on more hosts than the link between them connects is refused") {
  Cluster cluster = cluster_of(2);
  const double seconds = Collective(OpKind::gather, 6, 800).cost(cluster).seconds;
  cluster.most_hosts = 3;
  for (const int ranks : {2, 4, 5, 6}) CHECK_NOTHROW(Collective(OpKind::gather, ranks, 800).cost(cluster));
  CHECK(Collective(OpKind::gather, 6, 800).cost(cluster).seconds == seconds);
  std::string message;
  try {
    Collective(OpKind::gather, 7, 800).cost(cluster);
  } catch (const core::ConfigError& error) {
    message = error.what();
  }
  for (const char* part : {"7 ranks take 4 hosts of 2 each", "connects 3", "at most 6 ranks"}) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace zrt::collective_cost_test
