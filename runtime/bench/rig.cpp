#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "core/gpu.h"
#include "runtime/bench/calibrate.h"
#include "runtime/plan/gpus.h"

namespace zrt::runtime {
namespace {

constexpr double long_enough = 0.05;  // seconds of one round, beside which starting its threads is nothing
constexpr int rounds = 3;
constexpr std::chrono::minutes patience(2);

}  // namespace

Rig::Rig(comm::Transport& transport, core::DeviceKind device, bool share_gpu, int threads, Effort effort,
         Progress progress)
    : transport_(transport), device_(device), threads_(threads), effort_(effort), progress_(std::move(progress)) {
  core::require_device(device);
  run_place(transport, device, share_gpu, patience);
  gpus_ = choose_gpus(device, host_ranks(transport), share_gpu);
  core::connect_gpus(gpus_);
  for (const int gpu : gpus_) {
    const core::OnGpu here(gpu);
    auto& own = streams_.emplace_back();
    for (auto& stream : own) stream = core::make_stream(device, "calibrate");
  }
  group_ = transport.make_group("calibrate", patience);
}

std::unique_ptr<core::Arena> Rig::arena(int rank, uint64_t bytes, core::Tier tier) {
  std::unique_ptr<core::Arena> arena;
  at(rank, 0, [&] { arena = transport_.make_arena(transport_.first_local() + rank, tier, bytes, device_); });
  if (arena->on_gpu()) {
    at(rank, 0, [&] { core::fill_bytes(arena->data(), 0x3c, bytes); });
  } else {
    std::fill_n(arena->data(), bytes, std::byte{0x3c});
  }
  return arena;
}

void Rig::at(int rank, int stream, const std::function<void()>& body) {
  if (!on_gpu()) return body();
  const core::OnGpu gpu(gpus_[static_cast<size_t>(rank)]);
  core::Stream& queue = this->stream(rank, stream);
  const core::OnPlace here({device_, &queue});
  body();
  queue.synchronize();
}

double Rig::round(const std::function<void(int)>& body, int calls, Way way) {
  if (world() > local()) time_ranks(local(), 1, [&](int rank) { group(rank).barrier("calibrate"); });
  return time_ranks(local(), threads_, [&](int rank) {
    const auto all = [&] {
      for (int i = 0; i < calls; ++i) body(rank);
    };
    way.on_host ? all() : at(rank, 0, all);
  });
}

double Rig::seconds(const std::function<void(int)>& body, Way way) {
  double warm = round(body, 1, way);
  // Processes make the same number of rounds, as each begins with a rendezvous.
  const bool alone = world() == local();
  if (!alone || warm < long_enough) warm = std::min(warm, round(body, 1, way));
  double calls = std::clamp(std::ceil(long_enough / warm), 1.0, 10000.0);
  if (way.together && !alone) {
    // The number that the slowest process needs: all must call equally often.
    double least = calls;
    for (const std::string& text : transport_.exchange(std::to_string(calls), patience)) {
      least = std::min(least, std::stod(text));
    }
    calls = least;
  }
  std::vector<double> times;
  times.reserve(rounds);
  for (int i = 0; i < rounds; ++i) times.push_back(round(body, static_cast<int>(calls), way) / calls);
  return spread(times).median;
}

}  // namespace zrt::runtime
