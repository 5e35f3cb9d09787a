#include <algorithm>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

constexpr int most_angles = 256;         // of one launch; wider vectors take several
constexpr int64_t wanted_blocks = 2112;  // enough for 16 on each of a large GPU's multiprocessors

// The frequencies travel in the kernel's parameters: they lie in the host's memory, and a graph may run much later.
template <class T>
struct Args {
  T* x;
  const int32_t* positions;  // null: t + position
  int64_t rows, places, heads, width, stride, position;
  int begin, angles;  // the part of a vector's first half that this launch turns
  bool backward;
  float scale;
  double frequencies[most_angles];
};

// Block (t, part of the batch): the angles are made once for all rows and heads at position t.
template <class T>
__global__ void __launch_bounds__(256) turn(const __grid_constant__ Args<T> args) {
  __shared__ float cosines[most_angles + group], sines[most_angles + group];  // reads of whole groups stay inside
  const int64_t t = blockIdx.x, samples = (args.rows - t + args.places - 1) / args.places;
  const int64_t place = args.positions != nullptr ? args.positions[t] : args.position + t;
  const double turns = static_cast<double>(place) * (args.backward ? -1 : 1);
  for (int i = threadIdx.x; i < args.angles; i += blockDim.x) {
    double sine, cosine;
    sincos(turns * args.frequencies[i], &sine, &cosine);
    cosines[i] = args.scale * static_cast<float>(cosine), sines[i] = args.scale * static_cast<float>(sine);
  }
  __syncthreads();
  const int half = static_cast<int>(args.width / 2), groups = (args.angles + group - 1) / group;
  const int per_row = static_cast<int>(args.heads) * groups;
  for (int64_t b = blockIdx.y; b < samples; b += gridDim.y) {
    T* row = args.x + (b * args.places + t) * args.stride + args.begin;
    for (int item = threadIdx.x; item < per_row; item += blockDim.x) {
      const int at = item % groups * group, left = args.angles - at;
      T* from = row + item / groups * args.width + at;
      float a[group], c[group];
      load(from, left, a), load(from + half, left, c);
#pragma unroll
      for (int i = 0; i < group; ++i) {
        const float low = a[i], high = c[i];
        a[i] = low * cosines[at + i] - high * sines[at + i];
        c[i] = high * cosines[at + i] + low * sines[at + i];
      }
      save(from, left, a), save(from + half, left, c);
    }
  }
}

}  // namespace

void rotary(DType type, const RotaryShape& shape, const double* frequencies, int64_t position, bool backward, void* x) {
  if (shape.rows == 0) return;
  const int64_t T = shape.positions != nullptr ? shape.rows : shape.T;  // rows with angles of their own
  const int64_t half = shape.width / 2, places = std::min(T, shape.rows), samples = (shape.rows + T - 1) / T;
  const int64_t parts =
      std::clamp<int64_t>((wanted_blocks + places - 1) / places, 1, std::min<int64_t>(samples, 65535));
  with_type(type, [&](auto zero) {
    using E = decltype(zero);
    Args<E> args{static_cast<E*>(x), shape.positions, shape.rows, T, shape.heads,
                 shape.width,        shape.stride,    position,   0, 0,
                 backward,           shape.scale,     {}};
    for (int64_t begin = 0; begin < half; begin += most_angles) {
      args.begin = static_cast<int>(begin),
      args.angles = static_cast<int>(std::min<int64_t>(most_angles, half - begin));
      std::copy_n(frequencies + begin, args.angles, args.frequencies);
      const dim3 grid(static_cast<unsigned>(places), static_cast<unsigned>(parts));
      core::cuda::launch(turn<E>, grid, 256, 0, args);
    }
  });
}

}  // namespace zrt::models::cuda
