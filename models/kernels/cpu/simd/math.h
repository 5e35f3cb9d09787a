// Loads, stores, exp and Philox for the vector kernels. Included only by the per-instruction-set files, inside their
// namespace: nothing here may be shared with code compiled for another set, so no function of std or core is called.

inline float load(const float* p) {
  return *p;
}
inline float load(const core::bf16* p) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(p->bits) << 16);
}
inline float load(const core::f16* p) {
  return core::widen(*p);
}
inline void save(float* p, float x) {
  *p = x;
}
inline uint16_t round_bf16(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t nan = (u >> 16) | 0x40u;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}
inline void save(core::bf16* p, float x) {
  p->bits = round_bf16(x);
}
inline void save(core::f16* p, float x) {
  core::narrow(x, *p);
}

// The sum of term(i) over 0 … n in a fixed order, the same in every instruction set and at every address: element i
// belongs to lane i mod 32, lanes are added as a tree, elements beyond the last 32 one by one.
template <class Term>
inline float sum_over(int64_t n, const Term& term) {
  constexpr int lanes = 32;
  float lane[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (int l = 0; l < lanes; ++l) lane[l] += term(i + l);
  }
  for (int step = lanes / 2; step > 0; step /= 2) {
    for (int l = 0; l < step; ++l) lane[l] += lane[l + step];
  }
  float tail = 0;
  for (; i < n; ++i) tail += term(i);
  return lane[0] + tail;
}

// e^x within 1e-7 relative: x = n ln 2 + r, |r| <= ln 2 / 2, Taylor polynomial of degree 7 in r. Below -87 the result
// is 0, above 88 it stays at e^88. NaN passes through, so that a diverged run is seen. Fused multiply-adds are written
// out: every compiler makes the same bits.
inline float exp_approx(float x) {
  const float magic = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer in the low bits
  const float capped = x > 88.0f ? 88.0f : x;
  const float shifted = __builtin_fmaf(capped, 1.44269504f, magic);
  const float n = shifted - magic;
  const float r = __builtin_fmaf(n, 2.12194440e-4f, __builtin_fmaf(n, -0.693359375f, capped));
  float p = 1.0f / 5040.0f;
  p = __builtin_fmaf(p, r, 1.0f / 720.0f);
  p = __builtin_fmaf(p, r, 1.0f / 120.0f);
  p = __builtin_fmaf(p, r, 1.0f / 24.0f);
  p = __builtin_fmaf(p, r, 1.0f / 6.0f);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r * r, r) + 1.0f;
  const uint32_t power = (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u;
  return x < -87.0f ? 0.0f : p * __builtin_bit_cast(float, power);
}

// tanh x within 3e-7 relative, also of small x: from e^2x - 1 = 2^n (e^r - 1) + 2^n - 1 with the pieces of exp_approx.
inline float tanh_approx(float x) {
  const float magic = 12582912.0f, twice = 2.0f * x;
  const float below = twice > 40.0f ? 40.0f : twice, capped = below < -40.0f ? -40.0f : below;
  const float shifted = __builtin_fmaf(capped, 1.44269504f, magic);
  const float n = shifted - magic;
  const float r = __builtin_fmaf(n, 2.12194440e-4f, __builtin_fmaf(n, -0.693359375f, capped));
  float p = 1.0f / 5040.0f;
  p = __builtin_fmaf(p, r, 1.0f / 720.0f);
  p = __builtin_fmaf(p, r, 1.0f / 120.0f);
  p = __builtin_fmaf(p, r, 1.0f / 24.0f);
  p = __builtin_fmaf(p, r, 1.0f / 6.0f);
  p = __builtin_fmaf(p, r, 0.5f);
  const float less_one = __builtin_fmaf(p, r * r, r);
  const uint32_t bits = (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u;
  const float power = __builtin_bit_cast(float, bits), e = __builtin_fmaf(power, less_one, power - 1.0f);
  return e / (e + 2.0f);
}

// 16 Philox4x32-10 blocks from `block` on, words in element order.
inline void philox16(const DropoutKey& key, uint64_t block, uint32_t* words) {
  uint32_t c0[16], c1[16], c2[16], c3[16];
  for (int i = 0; i < 16; ++i) {
    const uint64_t index = block + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(index), c1[i] = static_cast<uint32_t>(index >> 32), c2[i] = key.tensor,
    c3[i] = key.step;
  }
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < 16; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i], p1 = uint64_t{0xCD9E8D57u} * c2[i];
      const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(p1), c3[i] = static_cast<uint32_t>(p0), c0[i] = n0, c2[i] = n2;
    }
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < 16; ++i) {
    words[4 * i] = c0[i], words[4 * i + 1] = c1[i], words[4 * i + 2] = c2[i], words[4 * i + 3] = c3[i];
  }
}
