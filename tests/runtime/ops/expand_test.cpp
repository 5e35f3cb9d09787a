// Weights in few bits at the test's device: the host's numbers, rounded to the type.
#include "runtime/ops/expand.h"

#include <cstring>
#include <vector>

#include "catch.h"
#include "core/philox.h"
#include "tests/device.h"

namespace zrt::runtime::expand_test {
namespace {

using test::Visible;

template <class T>
void check(core::Form form, core::DType type, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n)), expected(values.size());
  core::random_normals({11, 1, 2}, 0, n, values.data());
  Visible<std::byte> bytes(core::form_bytes(form, n));
  core::write_form(form, values.data(), n, bytes.data());
  core::read_form(form, bytes.data(), 0, n, expected.data());
  Visible<T> made(static_cast<size_t>(n) + 1);
  expand_weights(form, bytes.data(), type, reinterpret_cast<std::byte*>(made.data()), n);
  test::settle();
  size_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    T rounded;
    core::write_form(core::form_of(type), &expected[i], 1, reinterpret_cast<std::byte*>(&rounded));
    wrong += std::memcmp(&rounded, &made[i], sizeof rounded) == 0 ? 0 : 1;
  }
  CAPTURE(core::form_name(form), core::dtype_name(type), n);
  CHECK(wrong == 0);
}

TEST_CASE("weights in few bits become the host's numbers in every type, however many they are") {
  for (const core::Form form : {core::Form::nf4, core::Form::linear8}) {
    for (const int64_t n : {64, 640, 64 * 1000, 64 * 33}) {
      check<float>(form, core::DType::f32, n);
      check<core::bf16>(form, core::DType::bf16, n);
      check<core::f16>(form, core::DType::f16, n);
    }
  }
}

}  // namespace
}  // namespace zrt::runtime::expand_test
