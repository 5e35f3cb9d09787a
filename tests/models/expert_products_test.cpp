// Products of experts against fp64: the forward product, and the gradients of its input and of its weights.
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "catch.h"
#include "models/kernels/experts.h"
#include "tests/models/product_bounds.h"
#include "tests/models/shifted_buffer.h"

namespace zrt::expert_products_test {

using namespace zrt::models;
using namespace zrt::test;

namespace {

struct Setup {
  int64_t in = 0, out = 0;
  std::vector<int32_t> counts;  // of the experts
  DType type = DType::f32, grad_type = DType::f32;
  int64_t shift = 0;    // elements by which weights lie behind 64 bytes
  bool frozen = false;  // nobody wants the gradient of the second expert
};

// Matrices of an expert among others that no product may touch.
constexpr size_t first_matrix = 1, matrix_stride = 2;

class Products {
 public:
  explicit Products(const Setup& setup) : s(setup), starts_(s.counts.size()), counts_(visible(s.counts)) {
    // An expert has room for a grain more than it needs, which is not a number, as what is unused may not be.
    int64_t slots = 0;
    for (size_t e = 0; e < s.counts.size(); ++e) {
      starts_[e] = static_cast<int32_t>(slots);
      slots += up_to_grain(s.counts[e]) + (e % 3 == 0 ? slot_grain : 0);
    }
    x_.emplace(in_slots(slots, s.in)), dy_.emplace(in_slots(slots, s.out));
    for (size_t e = 0; e < s.counts.size(); ++e) {
      weights_.emplace_back(s.type, KernelBuffer::random(s.type, s.in * s.out), s.shift);
    }
    of_ = {
        static_cast<int64_t>(s.counts.size()), slots, s.in, s.out, s.type, s.grad_type, starts_.data(), counts_.data()};
    workspace_.emplace(DType::f32, static_cast<int64_t>(experts_workspace(of_) / 4 + 16));
  }

  void check_forward() {
    const KernelBuffer before = KernelBuffer::random(s.type, of_.slots * s.out);
    const auto run = [&] {
      KernelBuffer y = before;
      const std::vector<const void*> all = weight_pointers();
      experts_forward(of_, std::as_const(*x_).data(), {all, first_matrix, matrix_stride}, y.data(), workspace());
      return y;
    };
    check_rows(run(), before, false, *x_, s.in, s.out, [&](int64_t o, int64_t i) { return o * s.in + i; });
    CHECK(run() == run());
  }

  void check_input_gradient(bool add) {
    const KernelBuffer before = KernelBuffer::random(s.type, of_.slots * s.in);
    const auto run = [&] {
      KernelBuffer dx = before;
      const std::vector<const void*> all = weight_pointers();
      experts_input_gradient(of_, std::as_const(*dy_).data(), {all, first_matrix, matrix_stride}, add, dx.data(),
                             workspace());
      return dx;
    };
    check_rows(run(), before, add, *dy_, s.out, s.in, [&](int64_t i, int64_t o) { return o * s.in + i; });
    CHECK(run() == run());
  }

  void check_weight_gradients(bool add) {
    std::vector<KernelBuffer> before, grads;
    for (size_t e = 0; e < s.counts.size(); ++e) before.push_back(KernelBuffer::random(s.grad_type, s.in * s.out));
    grads = before;
    std::vector<void*> all(first_matrix + matrix_stride * grads.size());
    std::vector<uint8_t> accumulate(all.size(), add ? 0 : 1);  // of the others: the opposite
    for (size_t e = 0; e < grads.size(); ++e) {
      const size_t at = first_matrix + matrix_stride * e;
      all[at] = s.frozen && e == 1 ? nullptr : grads[e].data();
      accumulate[at] = add ? 1 : 0;
    }
    experts_weight_gradients(of_, std::as_const(*x_).data(), std::as_const(*dy_).data(),
                             {all, accumulate, s.grad_type, first_matrix, matrix_stride}, workspace());
    const Doubles x = doubles(*x_), dy = doubles(*dy_);
    for (size_t e = 0; e < grads.size(); ++e) {
      INFO("expert " << e << ", " << s.counts[e] << " rows, add " << add);
      if (s.frozen && e == 1) {
        CHECK(grads[e] == before[e]);
        continue;
      }
      Doubles expected = add ? doubles(before[e]) : Doubles(static_cast<size_t>(s.in * s.out));
      for (int64_t r = starts_[e]; r < starts_[e] + s.counts[e]; ++r) {
        for (int64_t o = 0; o < s.out; ++o) {
          const double d = dy[static_cast<size_t>(r * s.out + o)];
          for (int64_t i = 0; i < s.in; ++i) {
            expected[static_cast<size_t>(o * s.in + i)] += d * x[static_cast<size_t>(r * s.in + i)];
          }
        }
      }
      CHECK(error_of(grads[e], expected) < bound(s.grad_type, s.counts[e]));
    }
  }

  void check_all() {
    INFO(s.in << " to " << s.out << ", " << core::dtype_name(s.type) << ", gradients " << core::dtype_name(s.grad_type)
              << ", shift " << s.shift);
    check_forward();
    for (const bool add : {false, true}) check_input_gradient(add), check_weight_gradients(add);
  }

 private:
  std::byte* workspace() { return static_cast<std::byte*>(workspace_->data()); }
  double bound(DType result, int64_t K) const {
    return result == DType::f32 ? product_error(s.type, K) : tolerance(result);
  }

  std::vector<const void*> weight_pointers() {
    std::vector<const void*> all(first_matrix + matrix_stride * weights_.size());
    for (size_t e = 0; e < weights_.size(); ++e) all[first_matrix + matrix_stride * e] = weights_[e].data();
    return all;
  }

  // Numbers where experts have rows, then zeros up to the grain, elsewhere what is not a number.
  KernelBuffer in_slots(int64_t slots, int64_t width) {
    KernelBuffer buffer = KernelBuffer::random(s.type, slots * width);
    const size_t bytes = static_cast<size_t>(width) * core::dtype_size(s.type);
    std::byte* const rows = buffer.host_bytes().data();
    for (size_t e = 0; e < s.counts.size(); ++e) {
      const int64_t end = e + 1 < s.counts.size() ? starts_[e + 1] : slots, used = starts_[e] + s.counts[e];
      for (int64_t r = used; r < end; ++r) {
        const bool zero = r < starts_[e] + up_to_grain(s.counts[e]);
        std::memset(rows + static_cast<size_t>(r) * bytes, zero ? 0 : 0xFF, bytes);
      }
    }
    return buffer;
  }

  // result (slots, N) = [before +] from (slots, K) · the weights' elements at(n, k).
  template <class At>
  void check_rows(const KernelBuffer& result, const KernelBuffer& before, bool add, const KernelBuffer& from, int64_t K,
                  int64_t N, const At& at) {
    const Doubles x = doubles(from), old = doubles(before), all = doubles(result);
    double difference = 0, norm = 0;
    for (size_t e = 0; e < s.counts.size(); ++e) {
      const Doubles w = doubles(weights_[e].values());
      const int64_t next = e + 1 < s.counts.size() ? starts_[e + 1] : of_.slots;
      for (int64_t r = starts_[e]; r < next; ++r) {
        const bool row = r < starts_[e] + s.counts[e], written = r < starts_[e] + up_to_grain(s.counts[e]);
        for (int64_t n = 0; n < N; ++n) {
          const auto i = static_cast<size_t>(r * N + n);
          double sum = add ? old[i] : 0;
          for (int64_t k = 0; k < K && row; ++k) {
            sum += x[static_cast<size_t>(r * K + k)] * w[static_cast<size_t>(at(n, k))];
          }
          if (!row && all[i] != (written ? sum : old[i])) FAIL("slot " << r << " of expert " << e << ": " << all[i]);
          if (row) difference += (all[i] - sum) * (all[i] - sum), norm += sum * sum;
        }
      }
    }
    INFO("add " << add);
    CHECK(std::sqrt(difference) <= bound(s.type, K) * std::sqrt(norm));
  }

  Setup s;
  Visible<int32_t> starts_, counts_;
  std::optional<KernelBuffer> x_, dy_, workspace_;
  std::vector<Shifted> weights_;
  ExpertProduct of_;
};

void check(const Setup& setup) {
  Products(setup).check_all();
}

const std::vector<int32_t> some_counts = {5, 0, 130, 16, 0, 33, 1};

}  // namespace

TEST_CASE("products of experts match fp64, of any number of rows and none", "[chips]") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  for (const DType grad_type : std::set<DType>{DType::f32, type}) {
    check({.in = 40, .out = 24, .counts = some_counts, .type = type, .grad_type = grad_type});
    check({.in = 136, .out = 200, .counts = {0, 70, 130}, .type = type, .grad_type = grad_type, .frozen = true});
  }
  check({.in = 72, .out = 136, .counts = {0, 70, 3}, .type = type, .grad_type = type, .frozen = true});
  check({.in = 19, .out = 33, .counts = some_counts, .type = type, .grad_type = type});
  check({.in = 24, .out = 32, .counts = {7, 20}, .type = type, .shift = 1});
}

TEST_CASE("products of experts with many rows, or of many experts, match fp64") {
  check({.in = 72, .out = 8, .counts = {0, 540}});
  check({.in = 72, .out = 540, .counts = {9}});
  check({.in = 136, .out = 8, .counts = {1030}, .type = DType::bf16});
  check({.in = 128, .out = 264, .counts = {20, 300}, .type = DType::bf16});
  std::vector<int32_t> counts(270);
  for (size_t e = 0; e < counts.size(); ++e) counts[e] = static_cast<int32_t>(e * e % 7);
  check({.in = 8, .out = 16, .counts = counts});
}

TEST_CASE("experts without any row have gradients of zeros") {
  for (const DType type : {DType::f32, DType::bf16}) {
    check({.in = 16, .out = 8, .counts = {0, 0, 0}, .type = type, .grad_type = type});
  }
}

}  // namespace zrt::expert_products_test
