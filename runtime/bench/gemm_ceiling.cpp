#include <algorithm>
#include <memory>
#include <vector>

#include "core/arena.h"
#include "core/parallel.h"
#include "models/kernels/gemm.h"
#include "runtime/bench/bench.h"

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

// y = x · W with W (in, out), and its two gradients.
void add_linear(std::vector<Product>& products, const Config& config, int64_t rows, int64_t in, int64_t out,
                double times) {
  const core::DType type = config.precision.compute, grad = config.precision.local_grad;
  products.push_back({{rows, out, in, false, false, in, out, out, type, type, type}, times});
  products.push_back({{rows, in, out, false, true, out, out, in, type, type, type}, times});
  products.push_back({{in, out, rows, true, false, in, out, out, type, type, grad}, times});
}

std::vector<Product> model_products(const Config& config) {
  const int64_t rows = config.batch.micro * config.model.sequence, C = config.model.hidden;
  const auto layers = static_cast<double>(config.model.layers);
  std::vector<Product> products;
  for (auto [in, out] : {std::pair{C, 3 * C}, {C, C}, {C, 4 * C}, {4 * C, C}}) {
    add_linear(products, config, rows, in, out, layers);
  }
  // The head in one piece: logits, gradient of its input, gradient of its weight.
  const core::DType type = config.precision.compute;
  const int64_t V = config.model.vocab;
  products.push_back({{rows, V, C, false, true, C, C, V, type, type, type}, 1});
  products.push_back({{rows, C, V, false, false, V, C, C, type, type, type}, 1});
  products.push_back({{V, C, rows, true, false, V, C, C, type, type, config.precision.local_grad}, 1});
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
