// The optimizers' kernel files share these: names by instruction set, and the copy of the weights that a kernel may
// write. The files are compiled once per set (cmake/zrt_isa.cmake), so everything here has internal linkage.
#pragma once
#include "core/kernel_convert.h"

#define ZRT_JOIN2(a, b) a##b
#define ZRT_JOIN(a, b) ZRT_JOIN2(a, b)

namespace zrt::optimizer {
namespace {

using core::bf16;
using core::f16;

struct None {};  // no copy of the weight
template <class Weight>
constexpr bool copies = true;
template <>
constexpr bool copies<None> = false;

}  // namespace
}  // namespace zrt::optimizer
