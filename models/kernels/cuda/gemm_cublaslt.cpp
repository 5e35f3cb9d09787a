// A product by one cuBLASLt call where the library has it, else by one without bias or epilogue and a pass behind it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "models/kernels/cuda/gemm.h"
#include "models/kernels/cuda/lt.h"
#include "models/kernels/gemm_composed.h"
#include "models/kernels/kernel_file.h"

namespace zrt::models::cuda {
namespace {

GemmSpec without_bias(GemmSpec spec) {
  spec.bias = false;
  return spec;
}

bool plain(const GemmSpec& spec) {
  return !spec.add && spec.epilogue == Epilogue::none;
}

class LtGemm : public Gemm {
 public:
  explicit LtGemm(const GemmSpec& spec)
      : whole_(spec), unbiased_(without_bias(spec)), composed_(plain(spec) ? nullptr : compose_gemm(spec, make_gemm)) {}

  uint64_t workspace_bytes() const override {
    const uint64_t own = whole_.workspace_bytes() + 256;  // to find a multiple of 256 in it
    return composed_ ? std::max(own, composed_->workspace_bytes()) : own;
  }
  std::string algorithm() const override {
    const auto words = listed_algorithm(whole_.spec());
    return words ? "cuBLASLt algorithm " + algorithm_text(*words) : "cuBLASLt";
  }

  void run(const GemmOperands& operands) const override {
    const GemmSpec& spec = whole_.spec();
    const bool aligned = alignment(operands) % lt_wide == 0;
    Lazy& lazy = lazy_[aligned ? 1 : 0];
    std::call_once(lazy.once, [&] { lazy.choice = choose(aligned); });
    const Choice& choice = lazy.choice;
    if (!choice.algorithm) return composed_->run(operands);
    if (!choice.bias_apart) return whole_.run(operands, *choice.algorithm);
    unbiased_.run(operands, *choice.algorithm);
    add_bias(spec.c, operands.c, spec.M, spec.N, spec.ldc, spec.bias_type(), operands.bias);
  }

 private:
  struct Choice {
    std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: composed
    bool bias_apart = false;
  };
  struct Lazy {
    std::once_flag once;
    Choice choice;
  };

  // A number that every pointer of the call is a multiple of, as every power of two that divides it is.
  uintptr_t alignment(const GemmOperands& operands) const {
    const GemmSpec& spec = whole_.spec();
    const auto bits = [](bool used, const void* data) { return used ? reinterpret_cast<uintptr_t>(data) : 0; };
    return bits(true, operands.a) | bits(true, operands.b) | bits(true, operands.c) | bits(spec.bias, operands.bias) |
           bits(spec.add, operands.add) | bits(spec.epilogue != Epilogue::none, operands.aux);
  }

  Choice choose(bool aligned) const {
    const GemmSpec& spec = whole_.spec();
    const uint32_t bytes = aligned ? lt_wide : static_cast<uint32_t>(core::dtype_size(spec.a));
    constexpr int asked = 32;
    if (whole_.library_has(bytes)) {
      if (aligned) {
        if (const auto algorithm = listed()) return {algorithm, false};
      }
      const auto found = whole_.algorithms(bytes, asked);
      if (!found.empty()) return {found.front(), false};
    }
    if (composed_) return {};
    if (spec.bias) {
      const auto found = unbiased_.algorithms(bytes, asked);
      if (!found.empty()) return {found.front(), true};
    }
    throw core::Error(
        fmt::format("cuBLASLt {} has no product {} for pointers on {} bytes.", lt_version(), spec.text(), bytes));
  }

  // Returns the algorithm that the kernel file in use lists for the product.
  std::optional<cublasLtMatmulAlgo_t> listed() const {
    const auto words = listed_algorithm(whole_.spec());
    if (!words) return std::nullopt;
    const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(*words);
    if (whole_.runs(algorithm)) return algorithm;
    throw core::ConfigError(fmt::format(
        "The kernel file in use lists an algorithm for {} that cuBLASLt {} refuses here. Make the file again with "
        "zrt bench tune.",
        whole_.spec().text(), lt_version()));
  }

  LtProblem whole_, unbiased_;
  std::unique_ptr<Gemm> composed_;
  mutable std::array<Lazy, 2> lazy_;  // for pointers on elements, on 16 bytes
};

}  // namespace

std::unique_ptr<Gemm> make_gemm(const GemmSpec& spec) {
  return std::make_unique<LtGemm>(spec);
}

std::string products_library() {
  return "cuBLASLt " + lt_version();
}

}  // namespace zrt::models::cuda
