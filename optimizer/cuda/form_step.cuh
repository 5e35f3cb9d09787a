// Steps of element-wise optimizers with states in other forms than fp32: a block of threads updates a block of
// form_block elements, each thread two quads. The bits are those of cpu/form_step.h.
#pragma once
#include "core/kernel_form.h"
#include "optimizer/cuda/element_step.cuh"
#include "optimizer/forms.h"
#include "optimizer/pieces.h"
#include "optimizer/rounding_word.h"

namespace zrt::optimizer::cuda {
namespace {

constexpr int64_t form_block = core::form_block;
constexpr int quads = form_block / (step_threads * quad);  // of a thread
constexpr int warps = step_threads / 32;

// Elements [element, element + count) of a parameter; the arrays begin with the first of them.
struct FormArrays {
  uint32_t number;
  int64_t element, count;
  float* master;  // null: `weight` is bf16 and all there is
  std::byte* states[2];
  const void* grad;
  void* weight;
  core::DType grad_type, weight_type, state_type;  // the last one where states are no 8-bit blocks
};

__device__ inline void store_noisy(const float (&from)[quad], const uint32_t (&words)[quad], int shift, int64_t i,
                                   void* to) {
  Halves<bf16> x;
  for (int k = 0; k < quad; ++k) x.at[k].bits = core::write_bf16(from[k], words[k] >> shift & 0xffffu);
  reinterpret_cast<uint2*>(to)[i] = __builtin_bit_cast(uint2, x);
}

// Reads four codes of an 8-bit block, which has its scale behind them. The first state is signed, the second is not.
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

// Writes a block's weights as the master has them, once more: a skipped step does that.
__device__ inline void keep_weights(const FormArrays& arrays) {
  if (!arrays.master || !arrays.weight) return;
  const int64_t origin = (arrays.element / form_block + blockIdx.x) * form_block - arrays.element;
  for (int q = 0; q < quads; ++q) {
    const int64_t at = origin + (q * step_threads + static_cast<int>(threadIdx.x)) * quad;
    if (at < 0 || at >= arrays.count) continue;
    float w[quad];
    load_quad(arrays.master, at / quad, w);
    store_typed(w, arrays.weight_type, at / quad, arrays.weight);
  }
}

template <bool blocks, class Step>
__global__ void __launch_bounds__(step_threads) form_kernel(Step step, FormArrays arrays) {
  constexpr int states = Step::states;
  if (step.skip()) return keep_weights(arrays);
  const int64_t block = arrays.element / form_block + blockIdx.x, origin = block * form_block - arrays.element;
  const int64_t bytes = origin / form_block * (form_block + 4);  // where an 8-bit block lies
  const auto scalars = step.scalars();
  const RoundingBases bases = rounding_bases(*step.decision, arrays.number, block);
  float kept[2][quads][quad];
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
    if constexpr (blocks) {
      load_codes<true>(arrays.states[0] + bytes, within / quad, kept[0][q]);
      if constexpr (states > 1) load_codes<false>(arrays.states[1] + bytes, within / quad, kept[1][q]);
    } else {
      for (int s = 0; s < states; ++s) load_typed(arrays.states[s], arrays.state_type, i, kept[s][q]);
    }
    for (int k = 0; k < quad; ++k) {
      Step::Rule::template apply<Step::variant>(scalars, g[k], w[k], kept[0][q][k], kept[1][q][k]);
    }
    if (arrays.master) {
      store_quad(w, i, arrays.master);
      if (arrays.weight) store_typed(w, arrays.weight_type, i, arrays.weight);
    } else {
      for (int k = 0; k < quad; ++k) words[k] = rounding_word(bases.weights, static_cast<uint32_t>(within + k));
      store_noisy(w, words, 0, i, arrays.weight);
    }
    if constexpr (!blocks && states > 0) {
      if (arrays.state_type == core::DType::f32) {
        for (int s = 0; s < states; ++s) store_quad(kept[s][q], i, reinterpret_cast<float*>(arrays.states[s]));
      } else {
        for (int k = 0; k < quad; ++k) words[k] = rounding_word(bases.states, static_cast<uint32_t>(within + k));
        for (int s = 0; s < states; ++s) store_noisy(kept[s][q], words, 16 * s, i, arrays.states[s]);
      }
    }
  }
  if constexpr (blocks) {  // all of which are whole
    __shared__ uint32_t shared[2][warps];
    uint32_t scales[2];
    for (int s = 0; s < states; ++s) scales[s] = core::scale_bits(block_most(most_bits(kept[s]), shared[s]));
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      const int at = q * step_threads + static_cast<int>(threadIdx.x);
      uint32_t words[quad];
      for (int k = 0; k < quad; ++k) words[k] = rounding_word(bases.states, static_cast<uint32_t>(at * quad + k));
      store_codes<true>(kept[0][q], words, scales[0], at, arrays.states[0] + bytes);
      if constexpr (states > 1) store_codes<false>(kept[1][q], words, scales[1], at, arrays.states[1] + bytes);
    }
    if (threadIdx.x == 0) {
      for (int s = 0; s < states; ++s) {
        *reinterpret_cast<uint32_t*>(arrays.states[s] + bytes + form_block) = scales[s];
      }
    }
  }
}

template <bool blocks, class Step>
void launch_forms(const Step& step, Moments moments, const UnitPart& part) {
  for_parameters(part, [&](uint32_t number, int64_t element, int64_t at, int64_t count) {
    const FormArrays arrays{
        number,
        element,
        count,
        part.master ? part.master + at : nullptr,
        {form_at(part, 0, state_form(moments, 0), at), form_at(part, 1, state_form(moments, 1), at)},
        grad_at(part, at),
        weight_at(part, at),
        part.grad_type,
        part.weight_type,
        moments == Moments::bf16 ? core::DType::bf16 : core::DType::f32};
    const auto count_of_blocks = static_cast<unsigned>((element + count - 1) / form_block - element / form_block + 1);
    core::cuda::launch(form_kernel<blocks, Step>, count_of_blocks, step_threads, 0, step, arrays);
  });
}

template <class Step>
void run_forms(const Step& step, Moments moments, const UnitPart& part) {
  for (const void* array : {static_cast<const void*>(part.master), part.grad, static_cast<const void*>(part.weight)}) {
    require_aligned(array);
  }
  if constexpr (Step::states > 0) {
    if (moments == Moments::int8) return launch_forms<true>(step, moments, part);
  }
  launch_forms<false>(step, moments, part);
}

}  // namespace
}  // namespace zrt::optimizer::cuda
