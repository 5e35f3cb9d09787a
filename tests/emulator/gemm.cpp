// Matrix products of the emulated GPU, in place of cuBLASLt's: the same epilogues, in fp64, and the same demands of
// operands of e4m3.
#include "models/kernels/cuda/gemm.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <vector>

#include "core/cuda/cuda.h"
#include "core/dtype.h"
#include "core/error.h"

namespace zrt::models::cuda {
namespace {

using core::DType;

double read(const void* data, DType type, int64_t i) {
  switch (type) {
    case DType::bf16:
      return static_cast<double>(core::to_float(static_cast<const core::bf16*>(data)[i]));
    case DType::f16:
      return static_cast<double>(core::to_float(static_cast<const core::f16*>(data)[i]));
    case DType::e4m3:
      return static_cast<double>(core::to_float(static_cast<const core::e4m3*>(data)[i]));
    default:
      return static_cast<double>(static_cast<const float*>(data)[i]);
  }
}

void write(void* data, DType type, int64_t i, double value) {
  const auto x = static_cast<float>(value);
  switch (type) {
    case DType::bf16:
      static_cast<core::bf16*>(data)[i] = core::to_bf16(x);
      return;
    case DType::f16:
      static_cast<core::f16*>(data)[i] = core::to_f16(x);
      return;
    default:
      static_cast<float*>(data)[i] = x;
  }
}

constexpr double slope = 0.7978845608028654, cubic = 0.044715;

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(slope * (x + cubic * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(slope * (x + cubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope * (1 + 3 * cubic * x * x);
}

class EmulatedGemm : public Gemm {
 public:
  explicit EmulatedGemm(const GemmSpec& spec) : spec_(spec) {}
  uint64_t workspace_bytes() const override { return 1024; }
  std::string algorithm() const override { return "emulated"; }
  void run(const GemmOperands& operands) const override {
    if (spec_.a == DType::e4m3) check_addresses(operands);
    ZRT_CUDA(emulator::queue(core::cuda::stream(), [spec = spec_, operands] {
      emulator::count_launch();
      multiply(spec, operands);
    }));
  }

 private:
  void check_addresses(const GemmOperands& o) const {
    for (const void* pointer :
         {o.a, o.b, static_cast<const void*>(o.c), o.bias, o.add, static_cast<const void*>(o.aux)}) {
      if (reinterpret_cast<uintptr_t>(pointer) % 16 == 0) continue;
      throw core::Error("The emulated GPU multiplies matrices of e4m3 on 16 bytes only: " + spec_.text());
    }
  }

  // Row after row of op(A), and column after column of op(B), as fp64 numbers.
  static std::vector<double> rows_of(const void* data, DType type, int64_t rows, int64_t n, int64_t row_step,
                                     int64_t step) {
    std::vector<double> out(static_cast<size_t>(rows * n));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(r * n + i)] = read(data, type, r * row_step + i * step);
    }
    return out;
  }

  static void multiply(const GemmSpec& s, const GemmOperands& o) {
    const auto a = rows_of(o.a, s.a, s.M, s.K, s.trans_a ? 1 : s.lda, s.trans_a ? s.lda : 1);
    const auto b = rows_of(o.b, s.b, s.N, s.K, s.trans_b ? s.ldb : 1, s.trans_b ? 1 : s.ldb);
    for (int64_t m = 0; m < s.M; ++m) {
      for (int64_t n = 0; n < s.N; ++n) {
        const double *x = a.data() + m * s.K, *y = b.data() + n * s.K;
        double sum = 0;
        for (int64_t k = 0; k < s.K; ++k) sum += x[k] * y[k];
        finish(s, o, m * s.ldc + n, n, static_cast<double>(s.alpha) * sum);
      }
    }
  }

  static void finish(const GemmSpec& s, const GemmOperands& o, int64_t at, int64_t column, double value) {
    if (o.a_scale != nullptr) value *= static_cast<double>(*o.a_scale) * static_cast<double>(*o.b_scale);
    if (s.bias) value += read(o.bias, s.bias_type(), column);
    if (s.add) value += read(o.add, s.c, at);
    if (s.accumulate) value += read(o.c, s.c, at);
    if (s.epilogue == Epilogue::gelu) {
      write(o.aux, s.c, at, value);
      value = gelu_of(value);
    } else if (s.epilogue == Epilogue::gelu_gradient) {
      value *= gelu_slope(read(o.aux, s.c, at));
    }
    write(o.c, s.c, at, value);
  }

  GemmSpec spec_;
};

}  // namespace

std::unique_ptr<Gemm> make_gemm(const GemmSpec& spec) {
  if (spec.a == DType::e4m3) {
    const bool whole = spec.lda % 16 == 0 && spec.ldb % 16 == 0 && spec.ldc % 16 == 0;
    if (!whole || spec.trans_a || !spec.trans_b || spec.b != spec.a || spec.M % 16 != 0 || spec.N % 16 != 0) {
      throw core::Error("The emulated GPU multiplies matrices of e4m3 along rows of multiples of 16 only: " +
                        spec.text());
    }
    return std::make_unique<EmulatedGemm>(spec);
  }
  for (const DType type : {spec.a, spec.b, spec.c}) {
    if (type == DType::f32 || type == DType::bf16 || type == DType::f16) continue;
    throw core::Error("The emulated GPU multiplies no " + std::string(core::dtype_name(type)) + ": " + spec.text());
  }
  return std::make_unique<EmulatedGemm>(spec);
}

std::string products_library() {
  return "emulated";
}

}  // namespace zrt::models::cuda
