// Compiled once per instruction set: see cmake/zrt_isa.cmake.
#include "optimizer/element_kernels.h"

#include "optimizer/update_kernel.h"

namespace zrt::optimizer {
namespace {

template <class Rule, int variant, class Grad, class Weight>
void element_loop(const typename Rule::Scalars& scalars, int64_t n, float* __restrict master, float* __restrict state0,
                  float* __restrict state1, const void* __restrict grad_data, void* __restrict weight_data) {
  const typename Rule::Scalars s = scalars;
  const Grad* __restrict grad = static_cast<const Grad*>(grad_data);
  [[maybe_unused]] Weight* __restrict weight = static_cast<Weight*>(weight_data);
  for (int64_t i = 0; i < n; ++i) {
    float w = master[i], a = 0, b = 0;
    if constexpr (Rule::states(variant) > 0) a = state0[i];
    if constexpr (Rule::states(variant) > 1) b = state1[i];
    Rule::template apply<variant>(s, core::widen(grad[i]), w, a, b);
    if constexpr (Rule::states(variant) > 0) state0[i] = a;
    if constexpr (Rule::states(variant) > 1) state1[i] = b;
    master[i] = w;
    if constexpr (copies<Weight>) core::narrow(w, weight[i]);
  }
}

template <class Table, class Rule, int variant, class Grad>
constexpr void fill_row(Table& table, int grad) {
  table.step[variant][grad][0] = element_loop<Rule, variant, Grad, float>;
  table.step[variant][grad][1] = element_loop<Rule, variant, Grad, bf16>;
  table.step[variant][grad][2] = element_loop<Rule, variant, Grad, f16>;
  table.step[variant][grad][no_weight_copy] = element_loop<Rule, variant, Grad, None>;
}

template <class Table, class Rule, int variant = 0>
constexpr void fill(Table& table) {
  fill_row<Table, Rule, variant, float>(table, 0);
  fill_row<Table, Rule, variant, bf16>(table, 1);
  fill_row<Table, Rule, variant, f16>(table, 2);
  if constexpr (variant + 1 < Rule::variants) fill<Table, Rule, variant + 1>(table);
}

template <class Table, class Rule>
constexpr Table make_table() {
  Table table{};
  fill<Table, Rule>(table);
  return table;
}

}  // namespace

#define ZRT_TABLE(step, name, Name) \
  extern const Name##Kernels ZRT_JOIN(name##_kernels_, ZRT_ISA); \
  constexpr Name##Kernels ZRT_JOIN(name##_kernels_, ZRT_ISA) = make_table<Name##Kernels, Name##Rule>();
ZRT_ELEMENT_RULES(ZRT_TABLE)

}  // namespace zrt::optimizer
