#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/arena.h"
#include "core/philox.h"
#include "core/stream.h"
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
  shape.fp8 = config.precision.fp8;
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

namespace {

uint64_t aligned(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Operands, result and workspace of a product in one block of memory.
struct Room {
  explicit Room(const GemmSpec& spec)
      : a(aligned(static_cast<uint64_t>((spec.trans_a ? spec.K : spec.M) * spec.lda) * core::dtype_size(spec.a))),
        b(aligned(static_cast<uint64_t>((spec.trans_b ? spec.N : spec.K) * spec.ldb) * core::dtype_size(spec.b))),
        c(aligned(static_cast<uint64_t>(spec.M * spec.ldc) * core::dtype_size(spec.c))),
        workspace(models::find_gemm(spec).workspace_bytes()) {}
  uint64_t bytes() const { return a + b + c + workspace; }
  void run(const models::Gemm& gemm, std::byte* base) const {
    gemm.run(base, base + a, base + a + b, nullptr, base + a + b + c);
  }
  uint64_t a, b, c, workspace;
};

double cpu_seconds_of(const GemmSpec& spec, int ranks, int threads, int rounds) {
  std::vector<std::unique_ptr<core::Arena>> arenas(static_cast<size_t>(ranks));
  std::vector<double> times;
  for (int round = 0; round <= rounds; ++round) {
    const double elapsed = time_ranks(ranks, threads, [&](int rank) {
      const Room room(spec);
      auto& arena = arenas[static_cast<size_t>(rank)];
      if (!arena) {  // the uncounted first round
        arena = std::make_unique<core::Arena>(core::Tier::device, room.bytes());
        std::fill_n(arena->data(), room.a + room.b, std::byte{0x3c});  // small, finite values of either type
      }
      room.run(models::find_gemm(spec), arena->data());
    });
    if (round > 0) times.push_back(elapsed);
  }
  return spread(times).median;
}

double gpu_seconds_of(const GemmSpec& spec, int rounds) {
  constexpr int calls = 10;
  const auto stream = core::make_stream(core::DeviceKind::cuda, "ceiling");
  const core::OnPlace here({core::DeviceKind::cuda, stream.get()});
  const Room room(spec);
  const models::Gemm& gemm = models::find_gemm(spec);
  const core::Arena arena(core::Tier::device, room.bytes(), core::DeviceKind::cuda);
  fill_random(arena.data(), room.a, spec.a);
  fill_random(arena.data() + room.a, room.b, spec.b);
  std::vector<double> times;
  for (int round = 0; round <= rounds; ++round) {
    const core::Event begin = stream->record_time();
    for (int i = 0; i < calls; ++i) room.run(gemm, arena.data());
    const core::Event end = stream->record_time();
    stream->synchronize();
    if (round > 0) times.push_back(end.seconds_since(begin) / calls);
  }
  return spread(times).median;
}

}  // namespace

void fill_random(std::byte* to, uint64_t bytes, core::DType type) {
  std::vector<float> values(1 << 20);
  core::random_normals({1, 0, 0}, 0, static_cast<int64_t>(values.size()), values.data());
  std::vector<std::byte> block(values.size() * core::dtype_size(type));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == core::DType::f32) {
      std::memcpy(block.data() + 4 * i, &values[i], 4);
    } else {
      const uint16_t bits = type == core::DType::bf16 ? core::to_bf16(values[i]).bits : core::to_f16(values[i]).bits;
      std::memcpy(block.data() + 2 * i, &bits, 2);
    }
  }
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    core::copy_bytes(to + at, block.data(), std::min<uint64_t>(block.size(), bytes - at));
  }
}

double gemm_ceiling(const Config& config, int rounds) {
  const int ranks = config.mesh.world();
  const bool gpu = config.run.device == core::DeviceKind::cuda;
  const core::OnPlace here({config.run.device, nullptr});
  double flops = 0, seconds = 0;
  for (const Product& product : model_products(config)) {
    flops += product.flops() * product.times * ranks;
    seconds += product.times * (gpu ? ranks * gpu_seconds_of(product.spec, rounds)
                                    : cpu_seconds_of(product.spec, ranks, config.run.threads_per_rank, rounds));
  }
  return flops / seconds;
}

double matrix_rate(int rounds) {
  constexpr int64_t n = 8192;
  const core::DType type = core::DType::bf16;
  const GemmSpec spec{n, n, n, false, true, n, n, n, type, type, type, false, false, 1};
  return 2.0 * n * n * n / gpu_seconds_of(spec, rounds);
}

}  // namespace zrt::runtime
