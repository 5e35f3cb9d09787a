// Sums at the place of the calling thread: on a GPU they must have the host's bits.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "catch.h"
#include "comm/cuda/reduce.h"
#include "comm/cuda/reduce_shape.h"
#include "comm/portions.h"
#include "comm/reduce.h"
#include "core/arena.h"
#include "core/gpu.h"
#include "values.h"

namespace zrt::comm::device_sum_test {
namespace {

using Buffer = test::Visible<std::byte>;

struct Sum {
  DType from, to;
  bool accumulate;
  int64_t count;
  size_t shift;       // elements that the first source and the target lie off an aligned place
  size_t more_shift;  // that the other sources lie off the first one
};

// Does the sum where the thread is, and by comm::reduce on the host, and counts the bytes that differ in the target and
// around it.
int64_t differences(const std::vector<Bytes>& values, const Sum& sum, bool in_place) {
  const size_t from_size = core::dtype_size(sum.from), to_size = core::dtype_size(sum.to);
  const auto offset = [&](size_t r) { return (sum.shift + (r ? sum.more_shift : 0)) * from_size; };
  std::vector<Buffer> buffers;
  std::vector<const void*> sources, host_sources;
  for (size_t r = 0; r < values.size(); ++r) {
    buffers.emplace_back(offset(r) + values[r].size());
    std::copy(values[r].begin(), values[r].end(), buffers[r].data() + offset(r));
    host_sources.push_back(values[r].data());
  }
  for (size_t r = 0; r < values.size(); ++r) sources.push_back(buffers[r].data() + offset(r));
  const size_t begin = sum.shift * to_size, bytes = static_cast<size_t>(sum.count) * to_size;
  Buffer result(begin + bytes + 40, std::byte{0x3C});
  Bytes expected(result.begin(), result.end());
  CollectiveCall call;
  call.from = sum.from, call.to = sum.to;
  const size_t last = values.size() - 1;
  std::byte* target = in_place ? buffers[last].data() + offset(last) : result.data() + begin;
  const Portion portion{Portion::everyone, 0, 0, target, sum.count, sum.accumulate};
  move(call, portion, sources, 0, sum.count);
  test::settle();
  if (in_place) std::copy(target, target + bytes, result.data() + begin);
  reduce(host_sources, sum.from, expected.data() + begin, sum.to, sum.accumulate, sum.count);
  int64_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += result[i] != expected[i];
  return wrong;
}

std::vector<Bytes> random_values(int ranks, int64_t count, DType type) {
  std::vector<Bytes> values;
  values.reserve(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) values.push_back(make_values(count, type, r, 91));
  return values;
}

TEST_CASE(
    "a sum where the thread is goes on from that of earlier sources, wherever this lies, with the bits of one sum") {
  constexpr size_t ranks = 6, earlier = 4;
  for (DType type : float_types()) {
    for (int64_t count : {int64_t{1}, int64_t{9}, int64_t{4099}}) {
      const std::vector<Bytes> values = random_values(ranks, count, type);
      const size_t wide = static_cast<size_t>(count) * sizeof(float), narrow = values[0].size();
      std::vector<Buffer> buffers;
      std::vector<const void*> host_sources, sources;
      for (const Bytes& value : values) {
        buffers.push_back(test::visible(value));
        host_sources.push_back(value.data());
      }
      for (const Buffer& buffer : buffers) sources.push_back(buffer.data());
      const std::span<const void* const> all(sources);
      for (size_t shift : {size_t{0}, sizeof(float)}) {
        Buffer before(wide + shift), sum(wide, std::byte{0}), rounded(narrow);
        auto* partial = reinterpret_cast<float*>(before.data() + shift);
        add_up(all.first(earlier), type, partial, DType::f32, false, count);
        add_up(all.subspan(earlier), type, sum.data(), DType::f32, true, count, partial);
        add_up(all.subspan(earlier), type, rounded.data(), type, false, count, partial);
        test::settle();
        Bytes expected(wide, std::byte{0}), expected_rounded(narrow);
        reduce(host_sources, type, expected.data(), DType::f32, true, count);
        reduce(host_sources, type, expected_rounded.data(), type, false, count);
        CHECK(std::equal(expected.begin(), expected.end(), sum.begin()));
        CHECK(std::equal(expected_rounded.begin(), expected_rounded.end(), rounded.begin()));
      }
    }
  }
}

TEST_CASE("a sum where the thread is has the bits of the host's, for any types, number of sources and alignment") {
  const int ranks = GENERATE(1, 2, 3, 8, 16, 17, 40);
  for (DType from : float_types()) {
    for (int64_t count : {int64_t{1}, int64_t{7}, int64_t{8}, int64_t{513}, int64_t{4099}}) {
      const std::vector<Bytes> values = random_values(ranks, count, from);
      for (size_t shift : {0u, 3u}) {
        for (size_t more_shift : {0u, 1u}) {
          CHECK(differences(values, {from, from, false, count, shift, more_shift}, false) == 0);
          CHECK(differences(values, {from, from, false, count, shift, more_shift}, true) == 0);
          CHECK(differences(values, {from, DType::f32, false, count, shift, more_shift}, false) == 0);
          CHECK(differences(values, {from, DType::f32, true, count, shift, more_shift}, false) == 0);
        }
      }
    }
  }
}

TEST_CASE("every 16-bit pattern passes through a sum where the thread is as it does on the host") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  Bytes patterns(2 * 65536);
  for (size_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(patterns.data() + 2 * i, &bits, 2);
  }
  CHECK(differences({patterns}, {type, type, false, 65536, 0, 0}, false) == 0);
  CHECK(differences({patterns}, {type, DType::f32, false, 65536, 0, 0}, false) == 0);
}

// Sums that land on ties, between subnormals, beyond the largest number: finite patterns of both signs, drawn at
// random.
TEST_CASE("a sum of any finite 16-bit numbers is rounded where the thread is as it is on the host") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  const uint16_t largest = type == DType::bf16 ? 0x7f7f : 0x7bff;
  constexpr int64_t count = 30000;
  std::vector<Bytes> values;
  for (uint32_t r = 0; r < 3; ++r) {
    values.emplace_back(2 * count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t word = core::random_word({.seed = 23, .step = 0, .tensor = r}, i);
      const auto bits = static_cast<uint16_t>((word >> 16 & 0x8000u) | (word & 0x7fffu) % (largest + 1u));
      std::memcpy(values.back().data() + 2 * i, &bits, 2);
    }
  }
  CHECK(differences(values, {type, type, false, count, 0, 0}, false) == 0);
  CHECK(differences(values, {type, DType::f32, false, count, 0, 0}, false) == 0);
}

// The addresses are only looked at.
cuda::ReduceShape shape(std::vector<uintptr_t> sources, size_t from_size, uintptr_t target, size_t to_size,
                        int64_t count) {
  std::vector<const void*> pointers;
  pointers.reserve(sources.size());
  for (uintptr_t source : sources) pointers.push_back(reinterpret_cast<const void*>(source));
  return cuda::reduce_shape(pointers, from_size, reinterpret_cast<const void*>(target), to_size, count);
}

TEST_CASE("a device sum takes 16 bytes at a time from where all its addresses allow it") {
  const auto check = [](const cuda::ReduceShape& got, int64_t head, int64_t vectors) {
    CHECK(got.head == head);
    CHECK(got.vectors == vectors);
  };
  check(shape({64, 128}, 4, 256, 4, 10), 0, 2);
  check(shape({68, 132}, 4, 260, 4, 10), 3, 1);
  check(shape({68, 128}, 4, 260, 4, 10), 0, 0);
  check(shape({66, 130}, 2, 258, 2, 24), 7, 2);
  check(shape({66, 130}, 2, 260, 4, 24), 7, 2);  // 7 elements on, 130 + 14 and 260 + 28 are multiples of 16
  check(shape({66, 130}, 2, 264, 4, 24), 0, 0);
  check(shape({66, 130}, 2, 258, 2, 7), 0, 0);
  check(shape({66, 130}, 2, 258, 2, 8), 7, 0);
  check(shape({64}, 4, 64, 4, 0), 0, 0);
}

TEST_CASE("a sum of what lies on several GPUs has the host's bits, whether they can read each other's memory or not") {
  const int gpus = std::min(3, core::gpu_count());
  if (test::test_device() != core::DeviceKind::cuda || gpus < 2) {
    WARN("skipped: there are no two GPUs");
    return;
  }
  std::vector<int> numbers(static_cast<size_t>(gpus));
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::string apart = core::connect_gpus(numbers);
  const char* peers = std::getenv("ZRT_EMULATED_PEERS");
  CHECK((apart == "") == (!peers || std::string(peers) != "0"));
  if (apart != "") CHECK(apart == "0 and 1, 0 and 2, 1 and 2");
  // More than what is copied at a time, and not a multiple of it; from aligned addresses and others.
  for (const int64_t count : {int64_t{1}, int64_t{1000}, (int64_t{3} << 20) + 7}) {
    for (const size_t shift : {size_t{0}, size_t{3}}) {
      const DType type = DType::bf16;
      const std::vector<Bytes> values = random_values(gpus, count, type);
      std::vector<std::unique_ptr<core::Arena>> arenas;
      std::vector<const void*> sources, host_sources;
      const auto take = [&](int gpu, uint64_t bytes) {
        const core::OnGpu here(gpu);
        arenas.push_back(std::make_unique<core::Arena>(core::Tier::device, bytes, core::DeviceKind::cuda));
        return arenas.back()->data();
      };
      for (int gpu = 0; gpu < gpus; ++gpu) {
        const Bytes& mine = values[static_cast<size_t>(gpu)];
        std::byte* place = take(gpu, mine.size() + 64) + shift * core::dtype_size(type);
        const Buffer visible = test::visible(mine);
        core::copy_bytes(place, visible.data(), mine.size());
        test::settle();
        sources.push_back(place), host_sources.push_back(mine.data());
      }
      const auto bytes = static_cast<size_t>(count) * sizeof(float);
      std::byte* target = take(0, bytes);
      cuda::reduce(sources, type, target, DType::f32, false, count);
      test::settle();
      Bytes result(bytes), expected(bytes);
      core::read_bytes(result.data(), target, bytes, core::DeviceKind::cuda);
      reduce(host_sources, type, expected.data(), DType::f32, false, count);
      CHECK((result == expected));  // millions of bytes, which no message shall list
    }
  }
}

}  // namespace
}  // namespace zrt::comm::device_sum_test
