// STREAM's triad: a = b + s · c. Bytes are counted as STREAM does, 12 per element, without the read of a's lines.
#pragma once
#include <cstdint>

namespace zrt::runtime {

using TriadKernel = void (*)(int64_t n, float* a, const float* b, const float* c, float s);

// Compiled once per instruction set, see zrt_isa_kernels().
extern const TriadKernel triad_v3, triad_v4;
TriadKernel triad_kernel();  // the best this processor runs

}  // namespace zrt::runtime
