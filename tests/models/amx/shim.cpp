// Plays AMX where the processor has AVX512-BF16, for LD_PRELOAD: oneDNN says that it has AMX, so that zrt takes its
// products of bf16, and these add as AMX's tiles do. Only the order and rounding of sums are played, not the speed.
//
// ZRT_SUM_ORDER, a number: before each product the terms of its sums are put into another order, drawn from the number,
// so that tests can be run with as many orders as one likes. Without it terms come in their own order.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

constexpr int64_t tile = 32;  // terms of a sum that one TDPBF16PS takes

float read(const void* data, dnnl_data_type_t type, int64_t at) {
  if (type == dnnl_f32) return static_cast<const float*>(data)[at];
  const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(data)[at]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void write(void* data, dnnl_data_type_t type, int64_t at, float value) {
  if (type == dnnl_f32) {
    static_cast<float*>(data)[at] = value;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = std::isnan(value) ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1);  // to nearest even
  static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(rounded >> 16);
}

struct Matrix {
  const void* data;
  dnnl_data_type_t type;
  int64_t rows, columns, down, across;  // strides
  float at(int64_t row, int64_t column) const { return read(data, type, row * down + column * across); }
};

struct Arguments {
  const_dnnl_primitive_desc_t product;
  int count;
  const dnnl_exec_arg_t* all;
  void* data(int argument) const {
    for (int i = 0; i < count; ++i) {
      void* handle = nullptr;
      if (all[i].arg == argument && dnnl_memory_get_data_handle(all[i].memory, &handle) == dnnl_success) return handle;
    }
    return nullptr;
  }
  Matrix matrix(int argument, dnnl_query_t query, int index) const {
    const dnnl_memory_desc_t& desc = *dnnl_primitive_desc_query_md(product, query, index);
    const dnnl_dim_t* strides = desc.format_desc.blocking.strides;
    return {data(argument), desc.data_type, desc.dims[0], desc.dims[1], strides[0], strides[1]};
  }
};

std::vector<int64_t> order_of(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  static const char* seed = std::getenv("ZRT_SUM_ORDER");
  if (seed == nullptr) return order;
  // splitmix64; one order for each length of sums
  uint64_t state = std::strtoull(seed, nullptr, 10) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(count);
  for (size_t i = order.size(); i > 1; --i) {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    std::swap(order[i - 1], order[(z ^ (z >> 31)) % i]);
  }
  return order;
}

// A row of C as the tiles make it (Intel's manual, TDPBF16PS): of 32 terms the even and the odd ones are summed in fp32
// for themselves, each by fused multiply-adds that round to nearest; then these two, then that and the sum so far. A
// product of two bf16 is exact in fp32, so that multiplying and then adding is a fused multiply-add. Callers flush
// denormals to zero, as tiles do.
void add_row(const float* a, const std::vector<float>& b, int64_t K, int64_t N, std::vector<float>& sums) {
  std::vector<float> even(static_cast<size_t>(N)), odd(static_cast<size_t>(N));
  for (int64_t first = 0; first < K; first += tile) {
    std::fill(even.begin(), even.end(), 0.0f), std::fill(odd.begin(), odd.end(), 0.0f);
    for (int64_t k = first; k < std::min(first + tile, K); ++k) {
      float* to = (k % 2 == 0 ? even : odd).data();
      const float* row = b.data() + k * N;
      for (int64_t n = 0; n < N; ++n) to[n] += a[k] * row[n];
    }
    for (size_t n = 0; n < sums.size(); ++n) sums[n] += even[n] + odd[n];
  }
}

void multiply(const Arguments& arguments) {
  const Matrix a = arguments.matrix(DNNL_ARG_SRC, dnnl_query_src_md, 0);
  const Matrix b = arguments.matrix(DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0);
  const Matrix c = arguments.matrix(DNNL_ARG_DST, dnnl_query_dst_md, 0);
  const void* bias = arguments.data(DNNL_ARG_BIAS);
  const dnnl_data_type_t bias_type =
      bias == nullptr ? dnnl_f32 : dnnl_primitive_desc_query_md(arguments.product, dnnl_query_weights_md, 1)->data_type;
  const_dnnl_primitive_attr_t attributes = nullptr;
  const_dnnl_post_ops_t after = nullptr;
  dnnl_dim_t scale_count = 0;
  int mask = 0;
  const float* scales = nullptr;
  dnnl_primitive_desc_get_attr(arguments.product, &attributes);
  dnnl_primitive_attr_get_post_ops(attributes, &after);
  dnnl_primitive_attr_get_output_scales(attributes, &scale_count, &mask, &scales);
  const bool accumulate = dnnl_post_ops_len(after) > 0;  // zrt's products have no other

  const int64_t K = a.columns, N = b.columns;
  const std::vector<int64_t> order = order_of(K);
  std::vector<float> terms(static_cast<size_t>(K)), all(static_cast<size_t>(K * N)), sums(static_cast<size_t>(N));
  for (int64_t k = 0; k < K; ++k)
    for (int64_t n = 0; n < N; ++n) all[static_cast<size_t>(k * N + n)] = b.at(order[static_cast<size_t>(k)], n);
  for (int64_t m = 0; m < a.rows; ++m) {
    for (int64_t k = 0; k < K; ++k) terms[static_cast<size_t>(k)] = a.at(m, order[static_cast<size_t>(k)]);
    std::fill(sums.begin(), sums.end(), 0.0f);
    add_row(terms.data(), all, K, N, sums);
    for (int64_t n = 0; n < N; ++n) {
      float value = sums[static_cast<size_t>(n)] * scales[0];
      if (bias != nullptr) value += read(bias, bias_type, n);
      if (accumulate) value += c.at(m, n);
      write(const_cast<void*>(c.data), c.type, m * c.down + n * c.across, value);
    }
  }
}

}  // namespace

extern "C" {

dnnl_cpu_isa_t dnnl_get_effective_cpu_isa() {
  return dnnl_cpu_isa_avx512_core_amx;
}

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                     const dnnl_exec_arg_t* arguments) {
  const_dnnl_primitive_desc_t product = nullptr;
  dnnl_primitive_get_primitive_desc(primitive, &product);
  if (dnnl_primitive_desc_query_md(product, dnnl_query_src_md, 0)->data_type != dnnl_bf16) {
    static const auto next =
        reinterpret_cast<decltype(&dnnl_primitive_execute)>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
    return next(primitive, stream, count, arguments);
  }
  const unsigned modes = _mm_getcsr();
  _mm_setcsr(modes | 0x8040u);  // flush to zero, denormals are zero
  multiply({product, count, arguments});
  _mm_setcsr(modes);
  return dnnl_success;
}

}  // extern "C"
