#include "core/kernel.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "catch.h"
#include "core/error.h"

namespace zrt::kernel_test {

// `number` and what the back end adds to it.
ZRT_KERNEL(one_more, int64_t(const int64_t& number));
ZRT_KERNEL(one_less, int64_t(const int64_t& number));
ZRT_KERNEL(taken, void(std::unique_ptr<int> number, int* place));

int64_t cpu::one_more(const int64_t& number) {
  return number + 1;
}
int64_t cuda::one_more(const int64_t& number) {
  return number + 101;
}
int64_t cpu::one_less(const int64_t& number) {
  return number - 1;
}
int64_t cuda::one_less(const int64_t& number) {
  return number - 101;
}
void cpu::taken(std::unique_ptr<int> number, int* place) {
  *place = *number;
}
void cuda::taken(std::unique_ptr<int> number, int* place) {
  *place = 100 + *number;
}

TEST_CASE("a kernel runs at the thread's place, or is refused where the build has no kernels for GPUs") {
  CHECK(one_more(1) == 2);
  const core::OnPlace gpu({core::DeviceKind::cuda, nullptr});
  if (ZRT_HAS_CUDA) {
    CHECK(one_more(1) == 102);
  } else {
    CHECK(one_more.cuda == nullptr);
    CHECK_THROWS_AS(one_more(1), core::ConfigError);
  }
  const core::OnPlace back(core::Place{});
  CHECK(one_more(1) == 2);
}

TEST_CASE("kernels of one signature can be chosen between, and arguments are moved on") {
  for (const bool less : {false, true}) CHECK((less ? one_less : one_more)(1) == (less ? 0 : 2));
  int place = 0;
  taken(std::make_unique<int>(3), &place);
  CHECK(place == 3);
}

}  // namespace zrt::kernel_test
