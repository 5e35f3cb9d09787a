#include <algorithm>
#include <memory>

#include "core/arena.h"
#include "core/isa.h"
#include "core/parallel.h"
#include "optimizer/adam_update.h"
#include "runtime/bench/bench.h"
#include "runtime/bench/triad.h"

namespace zrt::runtime {

TriadKernel triad_kernel() {
  const TriadKernel kernels[] = {triad_baseline, triad_v3, triad_v4};
  return kernels[static_cast<size_t>(core::best_isa())];
}

AdamBench bench_adam(int64_t parameters, bool bf16, int ranks, int rounds, const Progress& progress) {
  const auto n = static_cast<uint64_t>(parameters);
  const uint64_t grad_bytes = bf16 ? 2 * n : 4 * n;
  const uint64_t arena_bytes = 12 * n + grad_bytes + (bf16 ? 2 * n : 0);
  std::vector<std::unique_ptr<core::Arena>> arenas(static_cast<size_t>(ranks));
  auto adam = [&](int rank) {
    auto& arena = arenas[static_cast<size_t>(rank)];
    auto* master = reinterpret_cast<float*>(arena->data());
    std::byte* grad = arena->data() + 12 * n;
    const optimizer::AdamParams params{0.9f, 0.95f, 1e-8f, 0.1f, true};
    const optimizer::AdamStep step{1e-4f, 1.0f, 0.1f, 0.05f};
    optimizer::adam_update(params, step, parameters, master, master + n, master + 2 * n, grad,
                           bf16 ? core::DType::bf16 : core::DType::f32, bf16 ? grad + 2 * n : nullptr,
                           core::DType::bf16);
  };
  const TriadKernel run_triad = triad_kernel();
  auto triad = [&](int rank) {
    auto* a = reinterpret_cast<float*>(arenas[static_cast<size_t>(rank)]->data());
    core::parallel_for(parameters, 4096, [&](int64_t begin, int64_t end) {
      run_triad(end - begin, a + begin, a + n + begin, a + 2 * n + begin, 1e-9f);
    });
  };
  progress("filling the buffers");
  time_ranks(ranks, 1, [&](int rank) {
    auto& arena = arenas[static_cast<size_t>(rank)];
    arena = std::make_unique<core::Arena>(core::Tier::device, arena_bytes);
    std::fill_n(arena->data(), arena_bytes, std::byte{0x3c});
  });
  const double adam_bytes =
      static_cast<double>((24 * n + grad_bytes + (bf16 ? 2 * n : 0)) * static_cast<uint64_t>(ranks));
  const double triad_bytes = static_cast<double>(12 * n * static_cast<uint64_t>(ranks));
  std::vector<double> adam_rates, triad_rates, ratios;
  for (int round = 0; round <= rounds; ++round) {
    progress("measuring");
    const double a = adam_bytes / time_ranks(ranks, 1, adam);
    const double t = triad_bytes / time_ranks(ranks, 1, triad);
    if (round == 0) continue;
    adam_rates.push_back(a);
    triad_rates.push_back(t);
    ratios.push_back(a / t);
  }
  return {parameters, bf16 ? "bf16" : "fp32", spread(adam_rates), spread(triad_rates), spread(ratios)};
}

}  // namespace zrt::runtime
