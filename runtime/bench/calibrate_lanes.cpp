// Measures what is not arithmetic: memory, the links between ranks, what starting an op costs, and how much a
// collective and a computation slow each other down.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "core/arena.h"
#include "core/parallel.h"
#include "core/stream.h"
#include "models/kernels/gemm.h"
#include "optimizer/adam_update.h"
#include "runtime/bench/calibrate.h"
#include "runtime/bench/triad.h"

namespace zrt::runtime {
namespace {

using core::DType;

using Arenas = std::vector<std::unique_ptr<core::Arena>>;

Arenas make_arenas(Rig& rig, uint64_t bytes) {
  Arenas arenas;
  for (int rank = 0; rank < rig.local(); ++rank) arenas.push_back(rig.arena(rank, bytes));
  return arenas;
}

void measure_memory(Rig& rig, MeasuredLanes& measured) {
  const int64_t parameters = rig.effort().parameters;
  const auto bytes = static_cast<double>(parameters);
  const Arenas arenas = make_arenas(rig, 16 * static_cast<uint64_t>(parameters));
  const auto base = [&](int rank) { return arenas[static_cast<size_t>(rank)]->data(); };
  rig.tell("memory: AdamW");
  const double update = rig.seconds([&](int rank) {
    auto* master = reinterpret_cast<float*>(base(rank));
    std::byte* grad = base(rank) + 12 * parameters;
    optimizer::adam_update({0.9f, 0.95f, 1e-8f, 0.1f, true}, {1e-4f, 1.0f, 0.1f, 0.05f}, parameters, master,
                           master + parameters, master + 2 * parameters, grad, DType::bf16, grad + 2 * parameters,
                           DType::bf16);
  });
  measured.update_bytes_per_second = 28 * bytes / update;
  if (!rig.on_gpu()) {
    rig.tell("memory: triad");
    const TriadKernel run_triad = triad_kernel();
    const double triad = rig.seconds([&](int rank) {
      auto* a = reinterpret_cast<float*>(base(rank));
      core::parallel_for(parameters, 4096, [&](int64_t begin, int64_t end) {
        run_triad(end - begin, a + begin, a + parameters + begin, a + 2 * parameters + begin, 1e-9f);
      });
    });
    measured.triad_bytes_per_second = 16 * bytes / triad;
  }
  rig.tell("memory: copies");
  const uint64_t copied = 4 * static_cast<uint64_t>(parameters);
  const double copy = rig.seconds([&](int rank) { core::copy_bytes(base(rank), base(rank) + 8 * parameters, copied); });
  measured.copy_bytes_per_second = measured.link_bytes_per_second = 4 * bytes / copy;
  if (!rig.on_gpu()) return;
  rig.tell("memory: copies between host and device");
  Arenas host;
  for (int rank = 0; rank < rig.local(); ++rank) host.push_back(rig.arena(rank, copied, core::Tier::host));
  double slower = 0;
  for (const bool up : {true, false}) {
    slower = std::max(slower, rig.seconds([&](int rank) {
      std::byte *const device = base(rank), *const pinned = host[static_cast<size_t>(rank)]->data();
      core::copy_bytes(up ? device : pinned, up ? pinned : device, copied);
    }));
  }
  measured.link_bytes_per_second = 4 * bytes / slower;
}

// An op costs a queued task on its lane; when it waits for one of another lane, also what passes until the lane wakes.
void measure_ops(Rig& rig, MeasuredLanes& measured) {
  rig.tell("lanes: starting ops");
  constexpr int ops = 400;
  const auto run = [](core::Stream& first, core::Stream& second, const std::function<void()>& op) {
    for (int i = 0; i < ops / 4; ++i) {
      first.run(op);
      first.run(op);
      second.wait(first.record());
      second.run(op);
      second.run(op);
      first.wait(second.record());
    }
    first.synchronize();
    second.synchronize();
  };
  if (rig.on_gpu()) {  // a kernel of next to nothing for each
    const Arenas arenas = make_arenas(rig, 64);
    measured.op_seconds = rig.seconds([&](int rank) {
      std::byte* const byte = arenas[static_cast<size_t>(rank)]->data();
      run(rig.stream(rank, 0), rig.stream(rank, 1), [byte] { core::fill_bytes(byte, 0, 1); });
    }) / ops;
    return;
  }
  measured.op_seconds = rig.seconds([&](int) {
    const auto a = core::make_stream(core::DeviceKind::cpu, "a"), b = core::make_stream(core::DeviceKind::cpu, "b");
    run(*a, *b, [] {});
  }) / ops;
}

class Collectives {
 public:
  explicit Collectives(Rig& rig)
      : rig_(rig),
        sources_(make_arenas(rig, static_cast<uint64_t>(rig.effort().collective_bytes))),
        targets_(sources_.size()) {
    for (int rank = 0; rank < rig.local(); ++rank)
      targets_[static_cast<size_t>(rank)] = rig.arena(rank, static_cast<uint64_t>(rig.effort().collective_bytes));
  }
  void gather(int rank, int64_t bytes) {
    const comm::GatherRange range{source(rank), target(rank), bytes / rig_.world()};
    rig_.group(rank).all_gather({&range, 1}, DType::u8, "gather");
  }
  void reduce(int rank, DType type, int64_t bytes) {
    const int64_t shard = bytes / rig_.world() / static_cast<int64_t>(core::dtype_size(type));
    const comm::ReduceRange range{source(rank), target(rank), shard, false};
    rig_.group(rank).reduce_scatter({&range, 1}, type, type, "reduce");
  }

 private:
  std::byte* source(int rank) { return sources_[static_cast<size_t>(rank)]->data(); }
  std::byte* target(int rank) { return targets_[static_cast<size_t>(rank)]->data(); }
  Rig& rig_;
  Arenas sources_, targets_;
};

// The inverse of what op_cost() makes of a link.
Link link_of(double latency, double seconds, double bytes) {
  return {latency, bytes / std::max(seconds - latency, 1e-9)};
}

void measure_links(Rig& rig, Collectives& collectives, MeasuredLanes& measured) {
  const int64_t bytes = rig.effort().collective_bytes;
  const auto whole = static_cast<double>(bytes);
  rig.tell("links: latency");
  const double latency = rig.seconds([&](int rank) { collectives.gather(rank, 64 * rig.world()); }, {.together = true});
  rig.tell("links: gathers");
  const double gather = rig.seconds([&](int rank) { collectives.gather(rank, bytes); }, {.together = true});
  const double n = rig.world(), share = whole / n, local = rig.on_host();
  // A rank copies its own part, too; that is not all of a gather, however slowly an update goes over memory.
  const double own = std::min(2 * share / measured.update_bytes_per_second, gather / 2);
  if (n > local) {
    measured.between = link_of(latency, gather - own, share * local * (n - local));
  } else if (n > 1) {
    measured.inside = link_of(latency, gather - own, share * (n - 1));
  }
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    double& rate = measured.sum_bytes_per_second[static_cast<size_t>(type)];
    rate = measured.update_bytes_per_second;
    if (n > local) continue;  // the link hides it
    rig.tell("links: reductions in " + std::string(core::dtype_name(type)));
    const double reduce = rig.seconds([&](int rank) { collectives.reduce(rank, type, bytes); }, {.together = true});
    const double moving = measured.inside ? share * (n - 1) / measured.inside->bytes_per_second : 0;
    rate = whole / std::max(reduce - latency - moving, reduce / 20);
  }
}

}  // namespace

Overlap measure_overlap(Rig& rig, const std::function<void(int)>& other, Rig::Way way, int threads) {
  const int64_t size = rig.effort().overlap_width;
  constexpr DType type = DType::f32;
  const models::GemmSpec spec{size, size, size, false, false, size, size, size, type, type, type};
  const auto matrix = static_cast<uint64_t>(size * size * 4);
  uint64_t workspace = 0;
  time_ranks(1, rig.threads(),
             [&](int) { rig.at(0, 0, [&] { workspace = models::find_gemm(spec).workspace_bytes(); }); });
  const Arenas arenas = make_arenas(rig, 3 * matrix + workspace);
  // A GPU is waited for behind each, or the host would queue them without end.
  const auto compute = [&](int rank) {
    rig.at(rank, 0, [&] {
      std::byte* base = arenas[static_cast<size_t>(rank)]->data();
      models::find_gemm(spec).run(base, base + matrix, base + 2 * matrix, nullptr, base + 3 * matrix);
    });
  };
  const double compute_alone = rig.seconds(compute), other_alone = rig.seconds(other, way);

  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  constexpr int calls = 30;
  std::vector<double> compute_speeds, other_speeds;
  // A round is one call of a collective body of this many calls: rank 0's clocks count.
  rig.seconds(
      [&](int rank) {
        std::atomic<bool> done = false;
        double other_seconds = 0;
        std::thread beside([&] {
          core::set_threads(threads);
          const auto start = Clock::now();
          const auto all = [&] {
            for (int i = 0; i < calls; ++i) other(rank);
          };
          way.on_host ? all() : rig.at(rank, 1, all);
          other_seconds = since(start);
          done = true;
        });
        const auto start = Clock::now();
        int products = 0;
        for (; !done; ++products) compute(rank);
        const double seconds = since(start);
        beside.join();
        if (rank != 0) return;
        compute_speeds.push_back(products * compute_alone / seconds);
        other_speeds.push_back(calls * other_alone / other_seconds);
      },
      {.together = true});
  const auto share = [](std::vector<double> speeds) { return std::clamp(spread(std::move(speeds)).median, 0.05, 1.0); };
  return {share(compute_speeds), share(other_speeds)};
}

MeasuredLanes measure_lanes(Rig& rig) {
  MeasuredLanes measured;
  measure_memory(rig, measured);
  measure_ops(rig, measured);
  Collectives collectives(rig);
  measure_links(rig, collectives, measured);
  rig.tell("lanes: a computation beside collectives");
  (rig.world() > rig.on_host() ? measured.overlap_between : measured.overlap_inside) = measure_overlap(
      rig, [&](int rank) { collectives.gather(rank, rig.effort().collective_bytes / 4); }, {.together = true}, 1);
  return measured;
}

}  // namespace zrt::runtime
