// Vectors of tile.lanes floats. Included only by tile_kernels.cpp, inside its namespace.

constexpr int L = tile.lanes;
using Vector = float __attribute__((vector_size(L * 4)));
using Halves = uint16_t __attribute__((vector_size(L * 2)));
using Words = uint32_t __attribute__((vector_size(L * 4)));

inline Vector load(const float* p) {
  Vector x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
inline Vector load(const core::bf16* p) {
  Halves half;
  __builtin_memcpy(&half, p, sizeof half);
  return __builtin_bit_cast(Vector, __builtin_convertvector(half, Words) << 16);
}
inline Vector load(const core::f16* p) {
  float wide[L];
  for (int i = 0; i < L; ++i) wide[i] = core::widen(p[i]);
  return load(wide);
}

inline void save(float* p, Vector x) {
  __builtin_memcpy(p, &x, sizeof x);
}
inline void save(core::bf16* p, Vector x) {
  const Words u = __builtin_bit_cast(Words, x);
  const Words rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
  const Words bits = (u & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
  const Halves half = __builtin_convertvector(bits, Halves);
  __builtin_memcpy(&p->bits, &half, sizeof half);
}
inline void save(core::f16* p, Vector x) {
  float wide[L];
  save(wide, x);
  for (int i = 0; i < L; ++i) core::narrow(wide[i], p[i]);
}

// sum + a · b, rounded once. gcc contracts the expression (-ffp-contract=fast); clang does not where a sanitizer's
// checks stand in it, and is told element by element.
#ifdef __clang__
inline Vector fused(Vector a, Vector b, Vector sum) {
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) sum[i] = __builtin_fmaf(a[i], b[i], sum[i]);
  return sum;
}
inline Vector fused(float a, Vector b, Vector sum) {
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) sum[i] = __builtin_fmaf(a, b[i], sum[i]);
  return sum;
}
#else
template <class A>
inline Vector fused(A a, Vector b, Vector sum) {
  return sum + a * b;
}
#endif

// Pairs of rows `Distance` apart exchange blocks of that many lanes: log2(L) such stages turn an L x L block.
template <int... I>
struct Indices {};
template <int N, int... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I>
struct MakeIndices<0, I...> {
  using Type = Indices<I...>;
};

template <int D, int... I>
inline void exchange(Vector& a, Vector& b, Indices<I...>) {
  const Vector low = __builtin_shufflevector(a, b, (I & D ? L + I - D : I)...);
  b = __builtin_shufflevector(a, b, (I & D ? L + I : I + D)...);
  a = low;
}

template <int D>
inline void exchange_rows(Vector (&x)[L]) {
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) {
    if ((i & D) == 0) exchange<D>(x[i], x[i + D], typename MakeIndices<L>::Type{});
  }
}

inline void turn(Vector (&x)[L]) {
  exchange_rows<1>(x);
  exchange_rows<2>(x);
  if constexpr (L >= 8) exchange_rows<4>(x);
  if constexpr (L >= 16) exchange_rows<8>(x);
}
