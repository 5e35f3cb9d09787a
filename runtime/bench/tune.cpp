#include "runtime/bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/arena.h"
#include "core/error.h"
#include "core/stream.h"
#include "models/kernels/candidates.h"
#include "runtime/bench/ceiling.h"
#include "runtime/plan/setup.h"

namespace zrt::runtime {
namespace {

using models::AlgorithmWords;
using models::GemmSpec;

constexpr size_t finalists = 6;
constexpr double least_gain = 0.01;  // what differs less is kept as the library suggests

// Makes every product of a microbatch's forward and backward: asking for workspaces does.
void find_products(const Config& config) {
  models::Shape shape{config.batch.micro, config.model.sequence};
  shape.type = config.precision.compute, shape.grad_type = config.precision.local_grad;
  shape.fp8 = config.precision.fp8;
  for (const auto& block : config.model.make().blocks) {
    block->forward_workspace_bytes(shape);
    block->backward_workspace_bytes(shape, models::all_parts, models::Half::both);
  }
}

// Memory of a product's operands, of random elements.
class Operands {
 public:
  explicit Operands(const GemmSpec& spec) {
    const auto bytes = [](int64_t rows, int64_t ld, core::DType type) {
      return (static_cast<uint64_t>(rows * ld) * core::dtype_size(type) + 255) / 256 * 256;
    };
    const uint64_t a = bytes(spec.trans_a ? spec.K : spec.M, spec.lda, spec.a);
    const uint64_t b = bytes(spec.trans_b ? spec.N : spec.K, spec.ldb, spec.b);
    const uint64_t c = bytes(spec.M, spec.ldc, spec.c), bias = bytes(1, spec.N, spec.a);
    const uint64_t workspace = models::find_gemm(spec).workspace_bytes();
    arena_ =
        std::make_unique<core::Arena>(core::Tier::device, a + b + 3 * c + bias + workspace, core::DeviceKind::cuda);
    std::byte* at = arena_->data();
    const auto take = [&](uint64_t size, core::DType type) {
      std::byte* here = at;
      at += size;
      fill_random(here, size, type);
      return here;
    };
    operands_.a = take(a, spec.a), operands_.b = take(b, spec.b);
    operands_.c = take(c, spec.c), operands_.add = take(c, spec.c), operands_.aux = take(c, spec.c);
    operands_.bias = take(bias, spec.a), operands_.workspace = at;
  }
  const models::GemmOperands& get() const { return operands_; }

 private:
  std::unique_ptr<core::Arena> arena_;
  models::GemmOperands operands_;
};

struct Candidate {
  AlgorithmWords words;
  size_t place;  // in the library's order
  std::vector<double> seconds;
  double median() const { return spread(seconds).median; }
};

double time_calls(core::Stream& stream, const GemmSpec& spec, const Candidate& candidate, const Operands& operands,
                  int calls) {
  models::cuda::run_candidate(spec, candidate.words, operands.get());
  const core::Event begin = stream.record_time();
  for (int i = 0; i < calls; ++i) models::cuda::run_candidate(spec, candidate.words, operands.get());
  const core::Event end = stream.record_time();
  stream.synchronize();
  return end.seconds_since(begin) / calls;
}

TunedProduct tune(core::Stream& stream, const GemmSpec& spec, int rounds, models::KernelFile& file) {
  std::vector<Candidate> candidates;
  for (const AlgorithmWords& words : models::cuda::candidates(spec))
    candidates.push_back({words, candidates.size(), {}});
  TunedProduct result{spec.text(), candidates.size(), 0, 0};
  if (candidates.size() < 2) return result;
  const Operands operands(spec);
  // The library may suggest what it then refuses; its first must run, because it is what runs without a file.
  for (size_t i = 0; i < candidates.size();) {
    try {
      candidates[i].seconds = {time_calls(stream, spec, candidates[i], operands, 3)};
      ++i;
    } catch (const core::Error&) {
      if (i == 0) throw;
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  // The library's first stays in.
  std::stable_sort(candidates.begin() + 1, candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds[0] < b.seconds[0]; });
  candidates.resize(std::min(candidates.size(), finalists));
  for (Candidate& candidate : candidates) candidate.seconds.clear();
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& candidate : candidates) {
      candidate.seconds.push_back(time_calls(stream, spec, candidate, operands, 10));
    }
  }
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [](const Candidate& a, const Candidate& b) { return a.median() < b.median(); });
  result.first_seconds = result.best_seconds = candidates[0].median();
  if (best->median() < (1 - least_gain) * result.first_seconds) {
    result.best_seconds = best->median();
    file.products[result.product] = best->words;
  }
  return result;
}

}  // namespace

Tuning tune_products(const Config& config, int rounds, const Progress& progress) {
  if (config.run.device != core::DeviceKind::cuda) {
    throw core::ConfigError("Only a GPU has algorithms to choose among: use --device cuda.");
  }
  core::require_device(config.run.device);
  const auto stream = core::make_stream(core::DeviceKind::cuda, "tune");
  const core::OnPlace here({core::DeviceKind::cuda, stream.get()});
  find_products(config);
  Tuning tuning;
  tuning.file.chip = models::cuda::chip_name(), tuning.file.library = models::cuda::lt_libraries();
  for (const GemmSpec& spec : models::found_products(core::DeviceKind::cuda)) {
    progress(spec.text());
    tuning.products.push_back(tune(*stream, spec, rounds, tuning.file));
  }
  return tuning;
}

}  // namespace zrt::runtime
