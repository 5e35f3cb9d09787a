// Finds which of the library's algorithms runs each product of a model fastest on the GPU at hand.
#pragma once
#include <string>
#include <vector>

#include "models/kernels/kernel_file.h"
#include "runtime/bench/bench.h"

namespace zrt::runtime {

struct TunedProduct {
  std::string product;
  size_t candidates = 0;
  double first_seconds = 0;  // of the algorithm that runs without a file
  double best_seconds = 0;   // the same where none is faster by more than chance
};
struct Tuning {
  models::KernelFile file;  // lists the products that have a faster algorithm than the first
  std::vector<TunedProduct> products;
};
// Times every product of a microbatch of the model, each alone: its algorithms in short, then the fastest few and the
// first in turn, `rounds` times. Throws ConfigError unless the configuration is for a GPU.
Tuning tune_products(const Config& config, int rounds, const Progress& progress);

}  // namespace zrt::runtime
