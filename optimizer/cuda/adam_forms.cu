// Adam with states in other forms than fp32: a block of threads updates a block of form_block elements, each thread two
// quads. The bits are those of cpu/adam_forms.cpp.
#include "core/kernel_form.h"
#include "optimizer/adam_forms.h"
#include "optimizer/backend.h"
#include "optimizer/cuda/element_step.cuh"
#include "optimizer/pieces.h"
#include "optimizer/rounding_word.h"

namespace zrt::optimizer::cuda {
namespace {

using core::Form;

constexpr int64_t form_block = core::form_block;
constexpr int quads = form_block / (step_threads * quad);  // of a thread
constexpr int warps = step_threads / 32;

// Elements [element, element + count) of a parameter; the arrays begin with the first of them.
struct FormArrays {
  uint32_t number;
  int64_t element, count;
  float* master;
  std::byte *first, *second;
  const void* grad;
  void* weight;
  core::DType grad_type, weight_type;
};

__device__ inline void store_noisy(const float (&from)[quad], const uint32_t (&words)[quad], int shift, int64_t i,
                                   void* to) {
  Halves<bf16> x;
  for (int k = 0; k < quad; ++k) x.at[k].bits = core::write_bf16(from[k], words[k] >> shift & 0xffffu);
  reinterpret_cast<uint2*>(to)[i] = __builtin_bit_cast(uint2, x);
}

// Of an 8-bit block: codes in fours, the scale behind them.
template <bool is_signed>
__device__ inline void load_codes(const std::byte* block, int at, float (&to)[quad]) {
  const uint32_t codes = reinterpret_cast<const uint32_t*>(block)[at];
  const float scale = *reinterpret_cast<const float*>(block + form_block);
  for (int k = 0; k < quad; ++k) {
    const uint32_t code = codes >> 8 * k & 0xffu;
    to[k] = is_signed ? core::read_signed(code, scale) : core::read_unsigned(code, scale);
  }
}
template <bool is_signed>
__device__ inline void store_codes(const float (&from)[quad], const uint32_t (&words)[quad], uint32_t bits, int at,
                                   std::byte* block) {
  const float scale = core::bits_float(bits == 0 ? core::one_bits : bits);
  uint32_t codes = 0;
  for (int k = 0; k < quad; ++k) {
    const uint32_t noise = words[k] >> (is_signed ? 0 : 16) & 0xffffu;
    const uint32_t code =
        is_signed ? core::write_signed(from[k], scale, noise) : core::write_unsigned(from[k], scale, noise);
    codes |= (bits == 0 ? 0u : code & 0xffu) << 8 * k;
  }
  reinterpret_cast<uint32_t*>(block)[at] = codes;
}

// The largest of all threads' numbers, on all of them. `shared` holds one per warp.
__device__ inline uint32_t block_most(uint32_t most, uint32_t* shared) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffffu, most, distance);
    most = other > most ? other : most;
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = most;
  __syncthreads();
  for (int warp = 0; warp < warps; ++warp) most = shared[warp] > most ? shared[warp] : most;
  return most;
}
__device__ inline uint32_t most_bits(const float (&x)[quads][quad]) {
  uint32_t most = 0;
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    for (int k = 0; k < quad; ++k) {
      const uint32_t magnitude = core::float_bits(x[q][k]) & 0x7fffffffu;
      most = magnitude > most ? magnitude : most;
    }
  }
  return most;
}

template <Moments moments, class Step>
__global__ void __launch_bounds__(step_threads) forms_kernel(Step step, FormArrays arrays) {
  if (step.skip()) return;
  const int64_t block = arrays.element / form_block + blockIdx.x, origin = block * form_block - arrays.element;
  const int64_t bytes = origin / form_block * (form_block + 4);  // where an 8-bit block lies
  const AdamScalars scalars = step.scalars();
  const RoundingBases bases = rounding_bases(*step.decision, arrays.number, block);
  float m[quads][quad], v[quads][quad];
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    const int within = (q * step_threads + static_cast<int>(threadIdx.x)) * quad;
    const int64_t at = origin + within, i = at / quad;
    if (at < 0 || at >= arrays.count) continue;
    float w[quad], g[quad];
    uint32_t words[quad];
    load_typed(arrays.grad, arrays.grad_type, i, g);
    if (arrays.master) {
      load_quad(arrays.master, i, w);
    } else {
      load_quad(static_cast<const bf16*>(arrays.weight), i, w);
    }
    if constexpr (moments == Moments::int8) {
      load_codes<true>(arrays.first + bytes, within / quad, m[q]);
      load_codes<false>(arrays.second + bytes, within / quad, v[q]);
    } else {
      constexpr core::DType type = moments == Moments::f32 ? core::DType::f32 : core::DType::bf16;
      load_typed(arrays.first, type, i, m[q]);
      load_typed(arrays.second, type, i, v[q]);
    }
    for (int k = 0; k < quad; ++k) AdamRule::apply<Step::variant>(scalars, g[k], w[k], m[q][k], v[q][k]);
    if (arrays.master) {
      store_quad(w, i, arrays.master);
      if (arrays.weight) store_typed(w, arrays.weight_type, i, arrays.weight);
    } else {
      for (int k = 0; k < quad; ++k) words[k] = rounding_word(bases.weights, static_cast<uint32_t>(within + k));
      store_noisy(w, words, 0, i, arrays.weight);
    }
    if constexpr (moments == Moments::f32) {
      store_quad(m[q], i, reinterpret_cast<float*>(arrays.first));
      store_quad(v[q], i, reinterpret_cast<float*>(arrays.second));
    } else if constexpr (moments == Moments::bf16) {
      for (int k = 0; k < quad; ++k) words[k] = rounding_word(bases.states, static_cast<uint32_t>(within + k));
      store_noisy(m[q], words, 0, i, arrays.first);
      store_noisy(v[q], words, 16, i, arrays.second);
    }
  }
  if constexpr (moments == Moments::int8) {  // all blocks are whole
    __shared__ uint32_t shared[2][warps];
    const uint32_t first = core::scale_bits(block_most(most_bits(m), shared[0]));
    const uint32_t second = core::scale_bits(block_most(most_bits(v), shared[1]));
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      const int at = q * step_threads + static_cast<int>(threadIdx.x);
      uint32_t words[quad];
      for (int k = 0; k < quad; ++k) words[k] = rounding_word(bases.states, static_cast<uint32_t>(at * quad + k));
      store_codes<true>(m[q], words, first, at, arrays.first + bytes);
      store_codes<false>(v[q], words, second, at, arrays.second + bytes);
    }
    if (threadIdx.x == 0) {
      *reinterpret_cast<uint32_t*>(arrays.first + bytes + form_block) = first;
      *reinterpret_cast<uint32_t*>(arrays.second + bytes + form_block) = second;
    }
  }
}

template <Moments moments>
void run(const AdamParams& params, const Decision& decision, const UnitPart& part) {
  const MomentForms forms = moment_forms(moments);
  for_parameters(part, [&](uint32_t number, int64_t element, int64_t at, int64_t count) {
    const FormArrays arrays{number,
                            element,
                            count,
                            part.master ? part.master + at : nullptr,
                            form_at(part, 0, forms.first, at),
                            form_at(part, 1, forms.second, at),
                            grad_at(part, at),
                            weight_at(part, at),
                            part.grad_type,
                            part.weight_type};
    const auto blocks = static_cast<unsigned>((element + count - 1) / form_block - element / form_block + 1);
    if (params.decoupled) {
      core::cuda::launch(forms_kernel<moments, AtDecision<AdamRule, 1>>, blocks, step_threads, 0,
                         AtDecision<AdamRule, 1>{params, &decision}, arrays);
    } else {
      core::cuda::launch(forms_kernel<moments, AtDecision<AdamRule, 0>>, blocks, step_threads, 0,
                         AtDecision<AdamRule, 0>{params, &decision}, arrays);
    }
  });
}

}  // namespace

void adam_forms_step(const AdamParams& params, const Decision& decision, const UnitPart& part) {
  for (const void* array : {static_cast<const void*>(part.master), part.grad, static_cast<const void*>(part.weight)}) {
    require_aligned(array);
  }
  if (params.moments == Moments::f32) return run<Moments::f32>(params, decision, part);
  if (params.moments == Moments::bf16) return run<Moments::bf16>(params, decision, part);
  run<Moments::int8>(params, decision, part);
}

}  // namespace zrt::optimizer::cuda
