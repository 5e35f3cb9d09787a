#include <algorithm>
#include <memory>
#include <vector>

#include "core/arena.h"
#include "core/parallel.h"
#include "models/kernels/gemm.h"
#include "runtime/bench/bench.h"
#include "runtime/setup.h"

namespace zrt::runtime {
namespace {

using models::GemmSpec;

struct Product {
  GemmSpec spec;
  double times;  // per microbatch
  double flops() const {
    return 2.0 * static_cast<double>(spec.M) * static_cast<double>(spec.N) * static_cast<double>(spec.K);
  }
};

std::vector<Product> model_products(const Config& config) {
  models::Shape shape{config.batch.micro, config.model.sequence};
  shape.type = config.precision.compute, shape.grad_type = config.precision.local_grad;
  std::vector<Product> products;
  for (const auto& block : make_model(config.model).blocks) {
    for (const GemmSpec& spec : block->products(shape)) {
      const auto same =
          std::find_if(products.begin(), products.end(), [&](const Product& other) { return other.spec == spec; });
      if (same == products.end()) {
        products.push_back({spec, 1});
      } else {
        same->times += 1;
      }
    }
  }
  return products;
}

}  // namespace

double gemm_ceiling(const Config& config, int rounds) {
  const int ranks = config.mesh.world(), threads = config.run.threads_per_rank;
  double flops = 0, seconds = 0;
  for (const Product& product : model_products(config)) {
    const GemmSpec& spec = product.spec;
    const uint64_t a = static_cast<uint64_t>(spec.M * spec.K) * core::dtype_size(spec.a);
    const uint64_t b = static_cast<uint64_t>(spec.K * spec.N) * core::dtype_size(spec.b);
    const uint64_t c = static_cast<uint64_t>(spec.M * spec.N) * core::dtype_size(spec.c);
    auto align = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
    std::vector<std::unique_ptr<core::Arena>> arenas(static_cast<size_t>(ranks));
    std::vector<double> times;
    for (int round = 0; round <= rounds; ++round) {
      const double elapsed = time_ranks(ranks, threads, [&](int rank) {
        const models::Gemm& gemm = models::find_gemm(spec);
        auto& arena = arenas[static_cast<size_t>(rank)];
        if (!arena) {  // the uncounted first round
          arena = std::make_unique<core::Arena>(core::Tier::device,
                                                align(a) + align(b) + align(c) + gemm.workspace_bytes());
          std::fill_n(arena->data(), align(a) + align(b), std::byte{0x3c});  // small, finite values of either type
        }
        std::byte* base = arena->data();
        gemm.run(base, base + align(a), base + align(a) + align(b), nullptr, base + align(a) + align(b) + align(c));
      });
      if (round > 0) times.push_back(elapsed);
    }
    flops += product.flops() * product.times * ranks;
    seconds += spread(times).median * product.times;
  }
  return flops / seconds;
}

}  // namespace zrt::runtime
