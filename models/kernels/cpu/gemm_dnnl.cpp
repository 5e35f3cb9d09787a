#include <fmt/format.h>

#include <array>
#include <dnnl.hpp>
#include <unordered_map>

#include "core/error.h"
#include "core/isa.h"
#include "core/parallel.h"
#include "models/kernels/cpu/gemm_impl.h"

namespace zrt::models::cpu {
namespace {

using dnnl::memory;

// The level of this process for oneDNN's own kernels: it would otherwise use whatever the processor has. It can be set
// before the first use only, so everything here that asks oneDNN for something comes through here.
dnnl::cpu_isa dnnl_isa() {
  static const dnnl::cpu_isa isa = [] {
    constexpr std::array<dnnl::cpu_isa, 4> levels{dnnl::cpu_isa::avx2, dnnl::cpu_isa::avx512_core,
                                                  dnnl::cpu_isa::avx512_core_bf16, dnnl::cpu_isa::all};
    const core::Isa level = core::best_isa();
    const dnnl::cpu_isa most = levels[static_cast<size_t>(level)];
    if (dnnl::set_max_cpu_isa(most) == dnnl::status::invalid_arguments && dnnl::get_effective_cpu_isa() != most) {
      throw core::Error(
          fmt::format("oneDNN {} was used in this process before zrt could set its level of instruction sets to {} "
                      "(ZRT_MAX_ISA). Call core::best_isa() and a zrt product first, or set DNNL_MAX_CPU_ISA.",
                      dnnl_version(), core::isa_name(level)));
    }
    return dnnl::get_effective_cpu_isa();
  }();
  return isa;
}

dnnl::engine& cpu_engine() {
  static dnnl::engine engine = [] {
    dnnl_isa();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

memory::data_type dnnl_type(const GemmSpec& spec, DType type) {
  if (type == DType::f32) return memory::data_type::f32;
  if (type == DType::bf16) return memory::data_type::bf16;
  throw core::Error(fmt::format("The CPU has no matrix product of type {} ({}). Legal types are fp32, bf16 and fp16.",
                                core::dtype_name(type), spec.text()));
}

memory::desc matrix(int64_t rows, int64_t columns, memory::data_type type, bool transposed, int64_t ld) {
  return memory::desc({rows, columns}, type, transposed ? memory::dims{1, ld} : memory::dims{ld, 1});
}

class DnnlGemm : public Gemm {
 public:
  explicit DnnlGemm(const GemmSpec& spec)
      : a_(matrix(spec.M, spec.K, dnnl_type(spec, spec.a), spec.trans_a, spec.lda)),
        b_(matrix(spec.K, spec.N, dnnl_type(spec, spec.b), spec.trans_b, spec.ldb)),
        c_(matrix(spec.M, spec.N, dnnl_type(spec, spec.c), false, spec.ldc)),
        bias_({1, spec.N}, dnnl_type(spec, spec.a), memory::dims{spec.N, 1}),
        has_bias_(spec.bias) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (spec.alpha != 1) attributes.set_output_scales(0, {spec.alpha});
    if (spec.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const auto desc = has_bias_ ? dnnl::matmul::desc(a_, b_, bias_, c_) : dnnl::matmul::desc(a_, b_, c_);
    const dnnl::matmul::primitive_desc primitive(desc, attributes, cpu_engine());
    scratchpad_ = primitive.scratchpad_desc();
    name_ = primitive.impl_info_str();
    matmul_ = dnnl::matmul(primitive);
  }

  uint64_t workspace_bytes() const override { return scratchpad_.get_size(); }
  std::string algorithm() const override { return name_; }

  void run(const GemmOperands& operands) const override {
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, bind(a_, operands.a)},
                                              {DNNL_ARG_WEIGHTS, bind(b_, operands.b)},
                                              {DNNL_ARG_DST, bind(c_, operands.c)},
                                              {DNNL_ARG_SCRATCHPAD, bind(scratchpad_, operands.workspace)}};
    if (has_bias_) arguments.emplace(DNNL_ARG_BIAS, bind(bias_, operands.bias));
    matmul_.execute(thread_stream(), arguments);
    thread_stream().wait();
  }

 private:
  static memory bind(const memory::desc& desc, const void* data) {
    return memory(desc, cpu_engine(), const_cast<void*>(data));
  }

  memory::desc a_, b_, c_, bias_, scratchpad_;
  bool has_bias_;
  dnnl::matmul matmul_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Gemm> make_dnnl_gemm(const GemmSpec& spec) {
  try {
    return std::make_unique<DnnlGemm>(spec);
  } catch (const dnnl::error& error) {
    throw core::Error(
        fmt::format("oneDNN {} has no matrix product {} for {} threads ({}). Legal are fp32 or bf16 "
                    "operands with leading dimensions of at least the row length.",
                    dnnl_version(), spec.text(), core::threads(), error.what()));
  }
}

std::string dnnl_version() {
  const dnnl_version_t* version = ::dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

bool dnnl_has_bf16() {
  return dnnl_has_amx() || dnnl_isa() == dnnl::cpu_isa::avx512_core_bf16;
}

bool dnnl_has_amx() {
  return dnnl_isa() == dnnl::cpu_isa::avx512_core_amx;
}

}  // namespace zrt::models::cpu
