#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "runtime/bench/calibrate.h"

namespace zrt::runtime {
namespace {

constexpr double long_enough = 0.05;  // seconds of one round, beside which starting its threads is nothing
constexpr int rounds = 3;

}  // namespace

Rig::Rig(comm::Transport& transport, int threads, Effort effort, Progress progress)
    : transport_(transport),
      threads_(threads),
      effort_(effort),
      progress_(std::move(progress)),
      group_(transport.make_group("calibrate", std::chrono::minutes(2))) {}

std::unique_ptr<core::Arena> Rig::arena(int rank, uint64_t bytes) {
  auto arena = transport_.make_arena(transport_.first_local() + rank, core::Tier::device, bytes);
  std::fill_n(arena->data(), bytes, std::byte{0x3c});
  return arena;
}

double Rig::round(const std::function<void(int)>& body, int calls) {
  if (world() > local()) time_ranks(local(), 1, [&](int rank) { group(rank).barrier("calibrate"); });
  return time_ranks(local(), threads_, [&](int rank) {
    for (int i = 0; i < calls; ++i) body(rank);
  });
}

double Rig::seconds(const std::function<void(int)>& body, bool together) {
  double warm = round(body, 1);
  // Processes make the same number of rounds, as each begins with a rendezvous.
  const bool alone = world() == local();
  if (!alone || warm < long_enough) warm = std::min(warm, round(body, 1));
  double calls = std::clamp(std::ceil(long_enough / warm), 1.0, 10000.0);
  if (together && !alone) {
    // The number that the slowest process needs: all must call equally often.
    double least = calls;
    for (const std::string& text : transport_.exchange(std::to_string(calls), std::chrono::minutes(2))) {
      least = std::min(least, std::stod(text));
    }
    calls = least;
  }
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(round(body, static_cast<int>(calls)) / calls);
  return spread(times).median;
}

}  // namespace zrt::runtime
