#include "models/kernels/cuda/lt.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/cuda/cuda.h"
#include "core/cuda/gpu.h"
#include "core/error.h"

namespace zrt::models::cuda {
namespace {

cudaDataType_t lt_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_16F;
  }
}

// One per GPU; the library lets threads share it.
cublasLtHandle_t handle() {
  static core::cuda::PerGpu<cublasLtHandle_t> handles;
  return handles.get([] {
    cublasLtHandle_t made = nullptr;
    ZRT_LT(cublasLtCreate(&made));
    return made;
  });
}

uint32_t lt_epilogue(const GemmSpec& spec) {
  switch (spec.epilogue) {
    case Epilogue::gelu:
      return spec.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    default:
      return spec.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// The library reads the alignment of bias, aux and scales off their pointers, which it does not follow before the
// product runs.
template <class T>
const T* aligned_to(uint32_t bytes) {
  return reinterpret_cast<const T*>(static_cast<uintptr_t>(bytes));
}
GemmOperands operands_on(uint32_t bytes) {
  GemmOperands operands;
  operands.bias = aligned_to<void>(bytes), operands.aux = const_cast<void*>(aligned_to<void>(bytes));
  operands.a_scale = operands.b_scale = aligned_to<float>(lt_wide);
  return operands;
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  ZRT_LT(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value));
}
template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  ZRT_LT(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value));
}

}  // namespace

void check(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw core::Error(fmt::format("cuBLASLt {}: {} ({}) from {} at {}:{}", lt_version(), cublasLtGetStatusName(status),
                                cublasLtGetStatusString(status), expression, file, line));
}

std::string lt_version() {
  const size_t version = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

LtProblem::LtProblem(const GemmSpec& spec) : spec_(spec) {
  const bool multiplied =
      spec.a == DType::f32 || spec.a == DType::bf16 || spec.a == DType::f16 || spec.a == DType::e4m3;
  if (!multiplied || spec.b != spec.a || (spec.c != spec.bias_type() && spec.c != DType::f32)) {
    throw core::Error(
        fmt::format("The GPU has no matrix product of types {} and {} to {} ({}). Legal are two operands of fp32, bf16 "
                    "or fp16 and a result of their type or fp32, and operands of e4m3 and a result of bf16 or fp32.",
                    core::dtype_name(spec.a), core::dtype_name(spec.b), core::dtype_name(spec.c), spec.text()));
  }
}

// Parts of split sums are fp32, so small results need little; more than the most does not pay on any chip so far.
uint64_t LtProblem::workspace_bytes() const {
  const uint64_t most = spec_.a == DType::f32 ? 8u << 20 : 32u << 20;
  const uint64_t parts = 64 * static_cast<uint64_t>(spec_.M) * static_cast<uint64_t>(spec_.N);
  return std::clamp<uint64_t>((parts + 255) / 256 * 256, 1u << 20, most);
}

LtProblem::Descriptors LtProblem::describe(const GemmOperands& operands) const {
  const GemmSpec& s = spec_;
  Descriptors d;
  // Never CUBLAS_COMPUTE_32F_FAST_…: fp32 operands are not rounded to TF32 or bf16.
  ZRT_LT(cublasLtMatmulDescInit(&d.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(d.operation, CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(s.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(d.operation, CUBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(s.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(d.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(s));
  if (s.bias) set(d.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (s.epilogue != Epilogue::none) {
    set(d.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
    set(d.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.ldc);
  }
  if (s.a == DType::e4m3) {
    if (s.bias) set(d.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(lt_type(s.bias_type())));
    set(d.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.b_scale);
    set(d.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.a_scale);
  }
  const auto layout = [](cublasLtMatrixLayoutOpaque_t& to, DType type, int64_t rows, int64_t columns, int64_t ld) {
    ZRT_LT(
        cublasLtMatrixLayoutInit(&to, lt_type(type), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), ld));
  };
  layout(d.first, s.b, s.trans_b ? s.K : s.N, s.trans_b ? s.N : s.K, s.ldb);
  layout(d.second, s.a, s.trans_a ? s.M : s.K, s.trans_a ? s.K : s.M, s.lda);
  layout(d.result, s.c, s.N, s.M, s.ldc);
  return d;
}

bool LtProblem::allowed(const cublasLtMatmulAlgo_t& algorithm) const {
  // An algorithm that cannot say how it adds is left out; others may be fine.
  uint32_t scheme = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme,
                                           nullptr) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  if (scheme != CUBLASLT_REDUCTION_SCHEME_NONE && scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return false;
  if (spec_.a == DType::f32) {
    uint64_t flags = 0;
    const cublasStatus_t known = cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS,
                                                                   &flags, sizeof flags, nullptr);
    if (known == CUBLAS_STATUS_SUCCESS && (flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) != 0) return false;
  }
  if (spec_.add) {
    int32_t apart = 1;
    const cublasStatus_t known = cublasLtMatmulAlgoCapGetAttribute(
        &algorithm, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, &apart, sizeof apart, nullptr);
    if (known == CUBLAS_STATUS_SUCCESS && apart == 0) return false;
  }
  return true;
}

std::vector<cublasLtMatmulAlgo_t> LtProblem::algorithms(uint32_t alignment, int count) const {
  cublasLtMatmulPreferenceOpaque_t preference;
  ZRT_LT(cublasLtMatmulPreferenceInit(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes());
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, attribute, alignment);
  }
  Descriptors d = describe(operands_on(alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(count));
  int number = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), &d.operation, &d.first, &d.second, &d.result,
                                                               &d.result, &preference, count, found.data(), &number);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE) ZRT_LT(status);
  std::vector<cublasLtMatmulAlgo_t> result;
  for (int i = 0; i < number; ++i) {
    const cublasLtMatmulHeuristicResult_t& one = found[static_cast<size_t>(i)];
    if (one.state == CUBLAS_STATUS_SUCCESS && allowed(one.algo)) result.push_back(one.algo);
  }
  return result;
}

bool LtProblem::library_has(uint32_t alignment) const {
  if (spec_.bias && spec_.c != spec_.bias_type()) return false;
  return spec_.epilogue == Epilogue::none || (spec_.c != DType::f32 && alignment >= lt_wide && spec_.ldc % 8 == 0);
}

bool LtProblem::runs(const cublasLtMatmulAlgo_t& algorithm) const {
  Descriptors d = describe(operands_on(lt_wide));
  cublasLtMatmulHeuristicResult_t result;
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle(), &d.operation, &d.first, &d.second, &d.result, &d.result, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes() && allowed(algorithm);
}

void LtProblem::run(const GemmOperands& operands, const cublasLtMatmulAlgo_t& algorithm) const {
  Descriptors d = describe(operands);
  const float alpha = spec_.alpha, beta = spec_.accumulate || spec_.add ? 1 : 0;
  const void* added = spec_.add ? operands.add : operands.c;
  const uintptr_t workspace = (reinterpret_cast<uintptr_t>(operands.workspace) + 255) / 256 * 256;
  ZRT_LT(cublasLtMatmul(handle(), &d.operation, &alpha, operands.b, &d.first, operands.a, &d.second, &beta, added,
                        &d.result, operands.c, &d.result, &algorithm, reinterpret_cast<void*>(workspace),
                        workspace_bytes(), core::cuda::stream()));
}

}  // namespace zrt::models::cuda
