#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "core/arena.h"
#include "core/error.h"
#include "core/isa.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "core/stream.h"
#include "models/kernels/backend.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "models/kernels/gemm.h"
#include "runtime/bench/blas.h"
#include "runtime/bench/ceiling.h"
#include "runtime/bench/fma_peak.h"
#include "runtime/plan/gpus.h"
#include "runtime/plan/setup.h"

namespace zrt::runtime {
namespace {

using models::GemmSpec;

double gpu_seconds_of(const GemmSpec& spec, int rounds) {
  constexpr int calls = 10;
  const auto stream = core::make_stream(core::DeviceKind::cuda, "ceiling");
  const core::OnPlace here({core::DeviceKind::cuda, stream.get()});
  const models::Gemm& gemm = models::find_gemm(spec);
  const ProductRoom room(spec, gemm.workspace_bytes());
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

GemmCeilings::GemmCeilings(const Config& config) : GemmCeilings(config, config.precision) {}

GemmCeilings::GemmCeilings(const Config& config, const PrecisionConfig& precision)
    : device_(config.run.device),
      ranks_(config.mesh.world()),
      threads_per_rank_(config.run.threads_per_rank),
      ranks_per_gpu_(ranks_per_gpu(choose_gpus(device_, {ranks_}, config.run.share_gpu))) {
  const core::OnPlace here({device_, nullptr});
  models::Shape shape{config.batch.micro, config.model.sequence};
  shape.type = precision.compute, shape.grad_type = precision.local_grad;
  shape.fp8 = precision.fp8;
  for (const auto& block : config.model.make().blocks) {
    for (const GemmSpec& spec : block->products(shape)) {
      const auto same =
          std::find_if(products_.begin(), products_.end(), [&](const Product& other) { return other.spec == spec; });
      if (same == products_.end()) {
        products_.push_back({spec, 1});
      } else {
        same->times += 1;
      }
    }
  }
}

GemmCeilings GemmCeilings::of_fp32(const Config& config) {
  return GemmCeilings(config, PrecisionConfig{});
}

void GemmCeilings::turn() {
  constexpr int rounds = 2;
  const core::OnPlace here({device_, nullptr});
  if (device_ == core::DeviceKind::cpu && Blas::at_hand() != nullptr) Blas::at_hand()->set_threads(threads_per_rank_);
  for (Product& product : products_) {
    std::array<double, contenders> seconds;
    seconds.fill(std::numeric_limits<double>::infinity());
    if (device_ == core::DeviceKind::cuda) {
      seconds[own_product] = ranks_per_gpu_ * gpu_seconds_of(product.spec, rounds);
    } else {
      seconds = contest_seconds(product.spec, ranks_, threads_per_rank_, rounds);
    }
    for (size_t c = 0; c < contenders; ++c) product.seconds[c].push_back(seconds[c]);
  }
  if (torch_ == nullptr) return;
  std::vector<GemmSpec> specs;
  std::transform(products_.begin(), products_.end(), std::back_inserter(specs),
                 [](const Product& product) { return product.spec; });
  const std::vector<double> seconds = torch_->seconds(specs, ranks_, threads_per_rank_, rounds);
  for (size_t i = 0; i < products_.size(); ++i) products_[i].seconds[torch_product].back() = seconds[i];
}

double GemmCeilings::Product::flops() const {
  return 2.0 * static_cast<double>(spec.M) * static_cast<double>(spec.N) * static_cast<double>(spec.K) * times;
}

size_t GemmCeilings::Product::fastest() const {
  const auto median = [&](size_t c) { return spread(seconds[c]).median; };
  size_t best = 0;
  for (size_t c = 1; c < contenders; ++c) best = median(c) < median(best) ? c : best;
  return best;
}

double GemmCeilings::flops_per_second(const std::function<double(const std::vector<double>&)>& of_turns) const {
  double flops = 0, seconds = 0;
  for (const Product& product : products_) {
    flops += product.flops() * ranks_;
    seconds += of_turns(product.seconds[product.fastest()]) * product.times;
  }
  return flops / seconds;
}

double GemmCeilings::around(size_t i) const {
  return flops_per_second([i](const std::vector<double>& turns) { return (turns.at(i) + turns.at(i + 1)) / 2; });
}

GemmCeiling GemmCeilings::ceiling() const {
  GemmCeiling ceiling;
  const auto median = [](const std::vector<double>& turns) { return spread(turns).median; };
  ceiling.products = static_cast<int>(products_.size());
  std::vector<double> rates;
  for (size_t i = 0; i < products_.front().seconds.front().size(); ++i) {
    rates.push_back(flops_per_second([i](const std::vector<double>& turns) { return turns[i]; }));
  }
  ceiling.flops_per_second = spread(rates);
  ceiling.flops_per_second.median = flops_per_second(median);
  std::array<std::string, contenders> names{models::backend(device_).libraries()};
  if (device_ == core::DeviceKind::cpu) {
    names = {"zrt", "oneDNN " + models::cpu::dnnl_version(), Blas::at_hand() ? Blas::at_hand()->name() : "",
             torch_ != nullptr ? torch_->name() : ""};
  }
  for (size_t c = 0; c < contenders; ++c) {
    if (names[c].empty()) continue;
    double flops = 0, seconds = 0;
    int fastest_of = 0;
    for (const Product& product : products_) {
      flops += product.flops() * ranks_;
      seconds += median(product.seconds[c]) * product.times;
      fastest_of += product.fastest() == c;
    }
    ceiling.libraries.push_back({names[c], flops / seconds, fastest_of});
  }
  const double all_flops = std::accumulate(products_.begin(), products_.end(), 0.0,
                                           [&](double sum, const Product& p) { return sum + p.flops() * ranks_; });
  const double all_seconds = all_flops / ceiling.flops_per_second.median;
  for (const Product& product : products_) {
    const double best = median(product.seconds[product.fastest()]);
    ProductRate& rate =
        ceiling.rates.emplace_back(ProductRate{product.spec, product.times, best * product.times / all_seconds, {}});
    for (size_t c = 0; c < contenders; ++c) {
      if (names[c].empty()) continue;
      rate.flops_per_second.push_back(product.flops() / product.times * ranks_ / median(product.seconds[c]));
    }
  }
  std::stable_sort(ceiling.rates.begin(), ceiling.rates.end(),
                   [](const ProductRate& a, const ProductRate& b) { return a.share > b.share; });
  return ceiling;
}

double fma_peak(int ranks, int threads_per_rank) {
  const FmaKernel& kernel = core::choose_isa(core::best_isa(), fma_v3, fma_v4);
  constexpr int64_t steps = 10'000'000;
  const double seconds = time_ranks(ranks, threads_per_rank, [&](int) {
    core::parallel_for(threads_per_rank, 1, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) {
        float result[] = {0.5f, 1.0f};
        kernel.run(steps, result);
        if (!(result[0] > 0)) throw core::Error("The sums of the FMA peak are wrong.");
      }
    });
  });
  return static_cast<double>(steps) * kernel.flops_per_step * ranks * threads_per_rank / seconds;
}

double matrix_rate(int rounds) {
  constexpr int64_t n = 8192;
  const core::DType type = core::DType::bf16;
  const GemmSpec spec{n, n, n, false, true, n, n, n, type, type, type, false, false, 1};
  return 2.0 * n * n * n / gpu_seconds_of(spec, rounds);
}

}  // namespace zrt::runtime
