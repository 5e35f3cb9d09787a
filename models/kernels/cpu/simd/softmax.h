// Softmax kernels: attention rows, their gradient, cross entropy and attention of a single query.

// The largest element, times `scale`.
template <class T>
float largest(const T* s, int64_t n, float scale) {
  float max = -3.402823466e38f;
#pragma omp simd reduction(max : max)
  for (int64_t i = 0; i < n; ++i) {
    const float v = load(s + i) * scale;
    max = v > max ? v : max;
  }
  return max;
}

// e = exp(scale · s - shift); returns the sum. e may be s.
template <class T>
float exp_row(const T* s, float* e, int64_t n, float scale, float shift) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) e[i] = exp_approx(load(s + i) * scale - shift);
  return sum_over(n, [&](int64_t i) { return load(e + i); });
}

template <class T>
float softmax(float* s, T* p, int64_t valid, int64_t n, float scale, const float* mask) {
  const float max = largest(s, valid, scale);
  const float sum = exp_row(s, s, valid, scale, max);
  const float inverse = 1.0f / sum;
  if (mask == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < valid; ++i) save(p + i, s[i] * inverse);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < valid; ++i) save(p + i, s[i] * inverse * mask[i]);
  }
  for (int64_t i = valid; i < n; ++i) save(p + i, 0.0f);
  return max + __builtin_logf(sum);
}

// The row is normalised again, and the mean of dp under p comes from the same numbers: ds is a difference of nearly
// equal terms, and errors of a rounded log-sum-exp or output would not cancel in it. slope(i): of score i.
template <class T, class Slope>
void softmax_gradient(float* s, const float* dp, T* p, T* ds, int64_t valid, int64_t n, float scale, float lse,
                      const float* mask, const Slope& slope) {
  const float sum = exp_row(s, s, valid, scale, lse);
  const float weighted =
      mask == nullptr ? sum_over(valid, [&](int64_t i) { return load(s + i) * load(dp + i); })
                      : sum_over(valid, [&](int64_t i) { return load(s + i) * (load(dp + i) * load(mask + i)); });
  const float inverse = 1.0f / sum, mean = weighted * inverse;
  if (mask == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < valid; ++i) {
      const float v = s[i] * inverse, d = dp[i];
      save(p + i, v), save(ds + i, v * (d - mean) * slope(i));
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < valid; ++i) {
      const float v = s[i] * inverse, d = dp[i] * mask[i];
      save(p + i, v * mask[i]), save(ds + i, v * (d - mean) * slope(i));
    }
  }
  for (int64_t i = valid; i < n; ++i) save(p + i, 0.0f), save(ds + i, 0.0f);
}

template <class T>
void softmax_backward(float* s, const float* dp, T* p, T* ds, int64_t valid, int64_t n, float scale, float lse,
                      const float* mask) {
  softmax_gradient(s, dp, p, ds, valid, n, scale, lse, mask, [&](int64_t) { return scale; });
}

// s becomes cap · tanh(scale · s / cap).
inline void cap_scores(float* s, int64_t n, float scale, float cap) {
  const float inner = scale / cap;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) s[i] = cap * tanh_approx(s[i] * inner);
}

template <class T>
float capped_softmax(float* s, T* p, int64_t valid, int64_t n, float scale, float cap, const float* mask) {
  cap_scores(s, valid, scale, cap);
  return softmax(s, p, valid, n, 1.0f, mask);
}

template <class T>
void capped_softmax_backward(float* s, const float* dp, T* p, T* ds, int64_t valid, int64_t n, float scale, float cap,
                             float lse, const float* mask, float* tanh) {
  const float inner = scale / cap;
#pragma omp simd
  for (int64_t i = 0; i < valid; ++i) {
    tanh[i] = tanh_approx(s[i] * inner);
    s[i] = cap * tanh[i];
  }
  softmax_gradient(s, dp, p, ds, valid, n, 1.0f, lse, mask,
                   [&](int64_t i) { return scale * (1.0f - tanh[i] * tanh[i]); });
}

// Returns what is known of V logits, of which `target` may be none (-1).
template <class T>
LogitPart logit_part(const T* logits, int64_t V, int64_t target) {
  constexpr int64_t piece = 1024;
  LogitPart part{largest(logits, V, 1.0f), target < 0 ? 0.0f : load(logits + target), 0};
  // Short fp32 sums, added in double: the error does not grow with the vocabulary.
  float e[piece];
  for (int64_t begin = 0; begin < V; begin += piece) {
    part.sum += static_cast<double>(exp_row(logits + begin, e, V - begin < piece ? V - begin : piece, 1.0f, part.max));
  }
  return part;
}

// Returns what is known of a whole row from its parts, which lie `stride` apart. The factor of the largest part is 1.
inline LogitPart join_parts(const LogitPart* parts, int64_t n, int64_t stride) {
  LogitPart whole = parts[0];
  for (int64_t i = 1; i < n; ++i) {
    const LogitPart& part = parts[i * stride];
    whole.max = part.max > whole.max ? part.max : whole.max;
    whole.target += part.target;
  }
  whole.sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const LogitPart& part = parts[i * stride];
    whole.sum += part.sum * static_cast<double>(exp_approx(part.max - whole.max));
  }
  return whole;
}

// The loss of a row of which `whole` is known.
inline double loss_of(const LogitPart& whole) {
  return __builtin_log(whole.sum) + static_cast<double>(whole.max) - static_cast<double>(whole.target);
}

// The slope of a cap at what it made of a number; 1 without a cap, of which `inverse` is 0.
inline float cap_slope(float capped, float inverse) {
  const float t = capped * inverse;
  return 1.0f - t * t;
}

// V logits of that row become gradient_scale · (softmax - one_hot), times the slope of their cap.
template <class T>
void logit_gradient(T* logits, int64_t V, int64_t target, const LogitPart& whole, float cap, float gradient_scale) {
  const float max = whole.max, inverse_cap = cap == 0.0f ? 0.0f : 1.0f / cap;
  const float inverse = static_cast<float>(1.0 / whole.sum), scaled = inverse * gradient_scale;
  const float of_target = target < 0 ? 0.0f : load(logits + target);
  const float at_target =
      target < 0 ? 0.0f : (exp_approx(of_target - max) * inverse - 1.0f) * cap_slope(of_target, inverse_cap);
  if (cap == 0.0f) {
#pragma omp simd
    for (int64_t i = 0; i < V; ++i) save(logits + i, exp_approx(load(logits + i) - max) * scaled);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < V; ++i) {
      const float x = load(logits + i);
      save(logits + i, exp_approx(x - max) * scaled * cap_slope(x, inverse_cap));
    }
  }
  if (target >= 0) save(logits + target, at_target * gradient_scale);
}

template <class T>
double cross_entropy(T* logits, int64_t V, int64_t target, float cap, float gradient_scale) {
  const LogitPart whole = logit_part(logits, V, target);
  if (gradient_scale != 0.0f) logit_gradient(logits, V, target, whole, cap, gradient_scale);
  return loss_of(whole);
}

template <class T>
double cross_entropy_part(T* logits, int64_t V, int64_t target, const LogitPart* parts, int64_t ranks, int64_t stride,
                          float cap, float gradient_scale) {
  const LogitPart whole = join_parts(parts, ranks, stride);
  if (gradient_scale != 0.0f) logit_gradient(logits, V, target, whole, cap, gradient_scale);
  return loss_of(whole);
}

template <class T>
void attend(const T* q, const T* keys, const T* values, int64_t n, int64_t width, float scale, float cap, float* scores,
            T* out) {
  for (int64_t k = 0; k < n; ++k) scores[k] = dot(q, keys + k * width, width);
  if (cap != 0.0f) {
    cap_scores(scores, n, scale, cap);
    scale = 1.0f;
  }
  const float inverse = 1.0f / exp_row(scores, scores, n, scale, largest(scores, n, scale));
  for (int64_t begin = 0; begin < width; begin += column_tile) {
    const int64_t count = width - begin < column_tile ? width - begin : column_tile;
    float sum[column_tile] = {};
    for (int64_t k = 0; k < n; ++k) {
      const float p = scores[k] * inverse;
      const T* from = values + k * width + begin;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) sum[i] += p * load(from + i);
    }
    for (int64_t i = 0; i < count; ++i) save(out + begin + i, sum[i]);
  }
}
