#include "runtime/bench/gemm_contest.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "core/arena.h"
#include "core/error.h"
#include "core/isa.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "runtime/bench/bench.h"
#include "runtime/bench/blas.h"

namespace zrt::runtime {
namespace {

using models::GemmSpec;

// A product and its operands on every rank.
class Contest {
 public:
  Contest(const GemmSpec& spec, int ranks, int threads) : spec_(spec), ranks_(ranks), threads_(threads) {
    entries_.resize(static_cast<size_t>(ranks));
    time_ranks(ranks, threads, [&](int rank) { set_up(entries_[static_cast<size_t>(rank)]); });
  }

  bool has(Contender contender) const {
    return contender == blas_product ? Blas::at_hand() != nullptr && Blas::has(spec_)
                                     : entries_.front().gemms[contender] != nullptr;
  }

  // Returns the seconds of one call, on average over the ranks: what slows one of them down must not count for both, as
  // it would not in a step, where they seldom wait for each other.
  double seconds(Contender contender, int calls) {
    std::vector<double> seconds(entries_.size());
    time_ranks(ranks_, threads_, [&](int rank) {
      const Entry& entry = entries_[static_cast<size_t>(rank)];
      const ProductRoom room(spec_, 0);
      std::byte* base = entry.arena->data();
      const auto begin = std::chrono::steady_clock::now();
      for (int call = 0; call < calls; ++call) {
        if (contender == blas_product) {
          Blas::at_hand()->run(spec_, base, base + room.a, base + room.a + room.b);
        } else {
          room.run(*entry.gemms[contender], base);
        }
      }
      seconds[static_cast<size_t>(rank)] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
    });
    return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  }

 private:
  struct Entry {
    std::array<std::unique_ptr<models::Gemm>, 2> gemms;  // own_product, dnnl_product
    std::unique_ptr<core::Arena> arena;
  };

  void set_up(Entry& entry) const {
    using models::cpu::Way;
    const core::Isa level = core::best_isa();
    entry.gemms[own_product] = models::cpu::make_gemm_by(models::cpu::choose_way(spec_, level, false), spec_, level);
    try {
      entry.gemms[dnnl_product] = models::cpu::make_gemm_by(Way::dnnl, spec_, level);
    } catch (const core::Error&) {  // of bf16 below AVX-512, for example
    }
    uint64_t workspace = 0;
    for (const auto& gemm : entry.gemms) workspace = std::max(workspace, gemm ? gemm->workspace_bytes() : 0);
    const ProductRoom room(spec_, workspace);
    entry.arena = std::make_unique<core::Arena>(core::Tier::device, room.bytes());
    std::fill_n(entry.arena->data(), room.a + room.b, std::byte{0x3c});  // small, finite values of either type
  }

  GemmSpec spec_;
  int ranks_, threads_;
  std::vector<Entry> entries_;
};

}  // namespace

std::array<double, contenders> contest_seconds(const GemmSpec& spec, int ranks, int threads, int rounds) {
  constexpr double hopeless = 1.3, shortest = 0.005;  // seconds, below which a call is repeated
  Contest contest(spec, ranks, threads);
  std::array<double, contenders> first{}, medians{};
  medians.fill(std::numeric_limits<double>::infinity());
  first = medians;
  const std::array all{own_product, dnnl_product, blas_product};
  for (const Contender c : all) first[c] = contest.has(c) ? contest.seconds(c, 1) : medians[c];
  const double best = *std::min_element(first.begin(), first.end());
  const int calls = static_cast<int>(std::clamp(shortest / best, 1.0, 1000.0));
  std::array<std::vector<double>, contenders> times;
  for (int round = 0; round < rounds; ++round) {
    for (const Contender c : all) {
      const bool contends = calls > 1 || first[c] <= best * hopeless;
      if (contends && contest.has(c)) times[c].push_back(contest.seconds(c, calls));
    }
  }
  for (const Contender c : all) medians[c] = times[c].empty() ? first[c] : spread(times[c]).median;
  return medians;
}

}  // namespace zrt::runtime
