#include "runtime/bench/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "core/isa.h"

namespace zrt::runtime {
namespace {

template <class Function>
Function* symbol_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …" becomes its first two words.
std::string two_words(const std::string& text) {
  return text.substr(0, text.find(' ', text.find(' ') + 1));
}

void* open_first(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace

const Blas* Blas::at_hand() {
  static const Blas* const found = open();
  return found;
}

const Blas* Blas::open() {
  static Blas blas;
  // Both choose their kernels while they are loaded, by the processor alone.
  if (core::best_isa() == core::Isa::avx2) {
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    setenv("BLIS_ARCH_TYPE", "haswell", 1);
  }
  if (void* library = open_first({"libopenblas.so.0", "libopenblas.so"})) {
    blas.sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    blas.set_threads_ = symbol_of<void(int)>(library, "openblas_set_num_threads");
    const auto config = symbol_of<char*()>(library, "openblas_get_config");
    const auto core_name = symbol_of<char*()>(library, "openblas_get_corename");
    blas.name_ = fmt::format("{} {}", config ? two_words(config()) : "OpenBLAS", core_name ? core_name() : "");
  } else if (void* blis = open_first({"libblis.so.4", "libblis.so.3", "libblis.so"})) {
    blas.sgemm_ = reinterpret_cast<Sgemm>(dlsym(blis, "cblas_sgemm"));
    const auto set_blis_threads = symbol_of<void(int64_t)>(blis, "bli_thread_set_num_threads");
    static void (*set)(int64_t) = set_blis_threads;
    if (set != nullptr) blas.set_threads_ = [](int count) { set(count); };
    const auto version = symbol_of<const char*()>(blis, "bli_info_get_version_str");
    blas.name_ = fmt::format("BLIS {}", version ? version() : "");
  }
  return blas.sgemm_ != nullptr && blas.set_threads_ != nullptr ? &blas : nullptr;
}

bool Blas::has(const models::GemmSpec& spec) {
  const auto fp32 = core::DType::f32;
  return spec.a == fp32 && spec.b == fp32 && spec.c == fp32 && !spec.bias && !spec.add && !spec.fp8 &&
         spec.epilogue == models::Epilogue::none;
}

void Blas::run(const models::GemmSpec& s, const void* a, const void* b, void* c) const {
  constexpr int row_major = 101, plain = 111, transposed = 112;
  const auto of = [](int64_t n) { return static_cast<int>(n); };
  sgemm_(row_major, s.trans_a ? transposed : plain, s.trans_b ? transposed : plain, of(s.M), of(s.N), of(s.K), s.alpha,
         static_cast<const float*>(a), of(s.lda), static_cast<const float*>(b), of(s.ldb), s.accumulate ? 1.0f : 0.0f,
         static_cast<float*>(c), of(s.ldc));
}

void Blas::set_threads(int count) const {
  set_threads_(count);
}

}  // namespace zrt::runtime
