// Measures how fast this machine multiplies; benchmarks put what training reaches beside that. All ranks run at once.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "runtime/bench/bench.h"
#include "runtime/bench/gemm_contest.h"
#include "runtime/bench/torch_products.h"

namespace zrt::runtime {

struct GemmLibrary {
  std::string name;             // "zrt", "oneDNN 2.6.3", "OpenBLAS 0.3.21 SkylakeX"
  double flops_per_second = 0;  // over all products; 0 where it has not all of them
  int fastest_of = 0;           // products
};
// One product of a microbatch, alone.
struct ProductRate {
  models::GemmSpec spec;
  double times = 0;  // a microbatch has it so often
  double share = 0;  // of the time of all products, each by the library that is fastest at it
  std::vector<double>
      flops_per_second;  // of all ranks together, by library of the ceiling; 0 where it has no such product
};
struct GemmCeiling {
  // Each product by the library that is fastest at it: of the median seconds of each, of the slowest and fastest turn.
  Spread flops_per_second;
  int products = 0;
  std::vector<GemmLibrary> libraries;  // those at hand
  std::vector<ProductRate> rates;      // of each product, those that take longest first
};

// Matrix products of the model's blocks (forward and both gradients, head included) at the run's shapes and types:
// FLOPs of one microbatch divided by the time of running each product alone, on all ranks at once. On a CPU the
// libraries compete: zrt's own products, oneDNN, of fp32 OpenBLAS or BLIS where the machine has one (blas.h), and
// PyTorch where one is named. On a GPU it is what a run uses, the products of the ranks run one after the other, on
// random operands.
//
// Measured in turns, with what is compared with them in between: a machine's speed drifts within minutes.
class GemmCeilings {
 public:
  explicit GemmCeilings(const Config& config);
  static GemmCeilings of_fp32(const Config& config);            // the same with all matrices in fp32
  void compete(const TorchProducts* torch) { torch_ = torch; }  // from the next turn on; null: not
  void turn();
  GemmCeiling ceiling() const;
  // FLOP/s over turns i and i + 1 together, beside which stands what ran between them.
  double around(size_t i) const;

 private:
  struct Product {
    models::GemmSpec spec;
    double times;                                           // per microbatch
    std::array<std::vector<double>, contenders> seconds{};  // by turn
    size_t fastest() const;
    double flops() const;  // of its times
  };
  GemmCeilings(const Config& config, const PrecisionConfig& precision);
  double flops_per_second(const std::function<double(const std::vector<double>&)>& of_turns) const;

  const TorchProducts* torch_ = nullptr;
  core::DeviceKind device_;
  int ranks_, threads_per_rank_, ranks_per_gpu_;
  std::vector<Product> products_;
};

// FLOP/s of fused multiply-adds of fp32 in registers, on every thread of every rank.
double fma_peak(int ranks, int threads_per_rank);

// Random elements of about 1 for memory of a GPU: constant operands draw less power and run faster.
void fill_random(std::byte* to, uint64_t bytes, core::DType type);
// Returns the FLOP/s of a GPU in one large product of bf16 matrices with random elements.
double matrix_rate(int rounds);

}  // namespace zrt::runtime
