#include <algorithm>
#include <memory>

#include "core/arena.h"
#include "core/isa.h"
#include "core/parallel.h"
#include "optimizer/forms.h"
#include "optimizer/optimizer.h"
#include "runtime/bench/bench.h"
#include "runtime/bench/triad.h"

namespace zrt::runtime {
namespace {

// The places of a rank's numbers in its arena: the fp32 weights, moments, gradient, copy of the weights.
struct Places {
  uint64_t first, second, grad, weight, end;
  explicit Places(const AdamBenchSetting& s) {
    const auto n = static_cast<uint64_t>(s.parameters);
    first = 4 * n;
    second = first + core::form_bytes(optimizer::state_form(s.moments, 0), s.parameters);
    grad = second + core::form_bytes(optimizer::state_form(s.moments, 1), s.parameters);
    weight = grad + (s.bf16 ? 2 : 4) * n;
    end = weight + (s.bf16 ? 2 * n : 0);
  }
};

}  // namespace

TriadKernel triad_kernel() {
  return core::choose_isa(core::best_isa(), triad_v3, triad_v4);
}

AdamBench bench_adam(const AdamBenchSetting& s, const Progress& progress) {
  const optimizer::AdamParams params{0.9f, 0.95f, 1e-8f, 0.1f, true, true, s.moments};
  const auto optimizer = optimizer::make_optimizer(params);
  const models::Param param{"all", {s.parameters}, {}, 0};
  optimizer::Unit unit;
  unit.params = {{&param, 0, 0}};
  unit.elements = unit.shard = s.parameters;
  optimizer::Decision decision;
  decision.updates = 10, decision.lr = 1e-4, decision.beta1 = params.beta1, decision.beta2 = params.beta2;
  decision.bias_correction1 = 0.6f, decision.bias_correction2 = 0.4f;

  const Places places(s);
  std::vector<std::unique_ptr<core::Arena>> arenas(static_cast<size_t>(s.ranks));
  auto adam = [&](int rank) {
    std::byte* data = arenas[static_cast<size_t>(rank)]->data();
    float* states[] = {reinterpret_cast<float*>(data + places.first), reinterpret_cast<float*>(data + places.second)};
    optimizer::UnitPart part;
    part.unit = &unit, part.count = s.parameters;
    part.master = reinterpret_cast<float*>(data);
    part.grad = data + places.grad, part.grad_type = s.bf16 ? core::DType::bf16 : core::DType::f32;
    part.weight = s.bf16 ? data + places.weight : nullptr, part.weight_type = core::DType::bf16;
    part.states = states;
    optimizer->update(decision, part);
  };
  // The triad runs over as much of the arena as three arrays of one length can have.
  const int64_t third = static_cast<int64_t>(places.end / 12) / 16 * 16;
  const TriadKernel run_triad = triad_kernel();
  auto triad = [&](int rank) {
    auto* a = reinterpret_cast<float*>(arenas[static_cast<size_t>(rank)]->data());
    core::parallel_for(third, 4096, [&](int64_t begin, int64_t end) {
      run_triad(end - begin, a + begin, a + third + begin, a + 2 * third + begin, 1e-9f);
    });
  };
  progress("filling the buffers");
  const auto fill = [&](int rank) {
    std::byte* data = arenas[static_cast<size_t>(rank)]->data();
    std::fill_n(data, places.end, std::byte{0x3c});
  };
  time_ranks(s.ranks, 1, [&](int rank) {
    arenas[static_cast<size_t>(rank)] = std::make_unique<core::Arena>(s.tier, places.end, s.device);
    fill(rank);
  });
  const auto count = static_cast<double>(s.ranks);
  // The gradient is read and the copy of the weights written; the rest is both.
  const uint64_t moved = 2 * places.grad + (places.end - places.grad);
  const double adam_bytes = static_cast<double>(moved) * count, triad_bytes = 12 * static_cast<double>(third) * count;
  std::vector<double> adam_rates, triad_rates, ratios;
  for (int round = 0; round <= s.rounds; ++round) {
    progress("measuring");
    const double t = triad_bytes / time_ranks(s.ranks, 1, triad);
    time_ranks(s.ranks, 1, fill);  // the triad wrote over what Adam reads
    const double a = adam_bytes / time_ranks(s.ranks, 1, adam);
    if (round == 0) continue;
    adam_rates.push_back(a);
    triad_rates.push_back(t);
    ratios.push_back(a / t);
  }
  return {s.bf16 ? "bf16" : "fp32", static_cast<double>(moved) / static_cast<double>(s.parameters), spread(adam_rates),
          spread(triad_rates), spread(ratios)};
}

}  // namespace zrt::runtime
