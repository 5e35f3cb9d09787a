// Ranks on GPUs by the protocol of processes, each played by a thread with a GPU of its own: the order of their streams
// and the bits. That processes open each other's memory is seen in tests/processes/ranks_test.cpp.
#include <fmt/format.h>

#include "catch.h"
#include "comm/nccl/communicator.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/hash.h"
#include "ranks.h"
#include "values.h"

namespace zrt::comm::process_gpu_test {
namespace {

using namespace std::chrono_literals;

constexpr int64_t room = 40000;  // elements

// Two buffers of a rank where its calls have them: on a GPU in an arena that the others read.
struct Memory {
  std::unique_ptr<core::Arena> arena = test_arenas().make_on_gpu(2 * room * sizeof(float));
  float* a = reinterpret_cast<float*>(arena->data());
  float* b = a + room;
};

void fill(float* to, const std::vector<float>& values, test::Visible<float>& staging) {
  test::settle();
  std::copy(values.begin(), values.end(), staging.begin());
  core::copy_bytes(to, staging.data(), values.size() * sizeof(float));
}

// Calls of all kinds; the hash of what all ranks have in the end. `a` and `b` are a rank's buffers.
void run_calls(Communicator& c, float* a, float* b, int calls,
               const std::function<void(float*, const std::vector<float>&)>& set) {
  const int size = c.size();
  for (int call = 0; call < calls; ++call) {
    const auto draw = core::philox({.seed = 9, .step = 0, .tensor = 1}, static_cast<uint64_t>(call));
    const int64_t n = 1 + draw[2] % (room / 2 - 64);
    std::vector<float> values(static_cast<size_t>(room));
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] =
          core::uniform(core::random_word({static_cast<uint64_t>(call), 0, static_cast<uint32_t>(c.rank())}, k));
    }
    set(a, values);
    const ReduceRange reduce_ranges[2]{{a, b, n / size, false}, {a + n, b + n, n / size / 2, false}};
    const GatherRange gather_ranges[2]{{a, b, n / size}, {a + n, b + n, 5}};
    const Message send{(c.rank() + 1) % size, a, static_cast<uint64_t>(4 * n)};
    const Message receive{(c.rank() + size - 1) % size, b, static_cast<uint64_t>(4 * n)};
    switch (call % 7) {
      case 0:
        c.all_reduce(a, n, DType::f32, "r");
        break;
      case 1:
        c.reduce_scatter(reduce_ranges, DType::f32, DType::f32, "s");
        break;
      case 2:
        c.all_gather(gather_ranges, DType::f32, "g");
        break;
      case 3:
        c.all_to_all(a, b, n / size, DType::f32, "t");
        break;
      case 4:
        c.broadcast(a, n, DType::f32, call % size, "b");
        break;
      case 5:
        c.barrier("wait");
        break;
      default:
        c.send_recv({&send, 1}, {&receive, 1}, "p");
    }
  }
}

std::string hashes_of(Group& group, const std::function<void(Communicator&, core::Hash&)>& body) {
  std::vector<core::Hash> hashes(group.size());
  run_ranks(group, [&](Communicator& c) { body(c, hashes[static_cast<size_t>(c.rank())]); });
  std::string text;
  for (const core::Hash& hash : hashes) text += hash.hex();
  return text;
}

struct Expected {
  std::string hashes;
  std::vector<Counters> counters;  // by rank
};

// Runs the calls by threads on the host.
Expected expected(int size, int calls) {
  Group group = make_thread_group("dp", size, 60s);
  Expected result;
  result.hashes = hashes_of(group, [&](Communicator& c, core::Hash& hash) {
    const core::OnPlace host({});
    std::vector<float> memory(2 * room, 0.0f);
    run_calls(c, memory.data(), memory.data() + room, calls,
              [](float* to, const std::vector<float>& values) { std::copy(values.begin(), values.end(), to); });
    hash.update(memory.data(), memory.size() * sizeof(float));
  });
  for (const auto& rank : group) result.counters.push_back(rank->counters());
  return result;
}

std::vector<int> on_one_host(int size) {
  return std::vector<int>(static_cast<size_t>(size), 0);
}

std::string on_gpus(Group& group, int calls) {
  return hashes_of(group, [&](Communicator& c, core::Hash& hash) {
    const core::OnGpu here(c.rank() % core::gpu_count());
    const test::OnTestDevice stream;  // of that GPU
    Memory memory;
    test::Visible<float> staging(2 * room, 0.0f);
    fill(memory.a, std::vector<float>(2 * room, 0.0f), staging);
    run_calls(c, memory.a, memory.b, calls,
              [&](float* to, const std::vector<float>& values) { fill(to, values, staging); });
    core::copy_bytes(staging.data(), memory.a, 2 * room * sizeof(float));
    test::settle();
    hash.update(staging.data(), staging.size() * sizeof(float));
  });
}

TEST_CASE("ranks on GPUs, each a process, sum and exchange with the bits of threads on the host") {
  if (test::test_device() == core::DeviceKind::cpu) return;
  std::vector<int> all(static_cast<size_t>(core::gpu_count()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  core::connect_gpus(all);
  for (const int size : {1, 2, 3, 5}) {
    INFO(size << " ranks");
    Group group = make_process_group(on_one_host(size), 60s);
    CHECK(on_gpus(group, 42) == expected(size, 42).hashes);
  }
}

TEST_CASE("over NCCL ranks have the bits of threads, too, and each counts what it is told to exchange, no more") {
  if (test::test_device() == core::DeviceKind::cpu || !ZRT_EMULATED) return;
  const int size = std::min(3, core::gpu_count());
  Group group = make_process_group(on_one_host(size), 60s);
  for (auto& rank : group) rank = add_nccl(std::move(rank), on_one_host(size), 60s);
  const Expected threads = expected(size, 42);
  CHECK(on_gpus(group, 42) == threads.hashes);
  for (int r = 0; r < size; ++r) {
    const Counters found = group[static_cast<size_t>(r)]->counters(), known = threads.counters[static_cast<size_t>(r)];
    for (size_t k = 0; k < collective_kind_count; ++k) {
      INFO("rank " << r << ", kind " << k);
      CHECK(found.calls[k] == known.calls[k]);
      CHECK(found.elements[k] == known.elements[k]);
      CHECK(found.bytes[k] == known.bytes[k]);
    }
  }
}

TEST_CASE("memory of a GPU that other processes cannot read is refused by name, and the others learn it") {
  if (test::test_device() == core::DeviceKind::cpu) return;
  Group group = make_process_group({0, 0}, 60s);
  const std::vector<std::string> errors = run_catching(group, [](Communicator& c) {
    test::Visible<float> elsewhere(8, 0.0f);
    c.all_reduce(elsewhere.data(), 8, DType::f32, "sum");
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("buffers outside of its arenas"));
}

TEST_CASE("a stream that waits for a rank whose process has ended goes on when the group is ended") {
  if (test::test_device() == core::DeviceKind::cpu) return;
  Segment segment(2);
  const auto stream = core::make_stream(core::DeviceKind::cuda, "waits");
  stream->run([&] { core::wait_for_word(segment.reached(1), 7); });
  const core::Event event = stream->record();
  CHECK_FALSE(event.done());
  segment.release(1, 7);
  const uint32_t released = *segment.reached(1);
  segment.release(1, 7);  // by another process: no second quarter of the way around
  CHECK(*segment.reached(1) == released);
  CHECK(released > 7);
  stream->synchronize();
  CHECK(event.done());
}

TEST_CASE("a stream's wait is as long as nothing changes, without the time in which nobody looked") {
  StreamWait wait;
  StreamWait::Clock::time_point now{};
  const auto look = [&](std::chrono::milliseconds later, bool waits, std::vector<uint32_t> words) {
    return wait.look(now += later, waits, std::move(words));
  };
  CHECK(look(500ms, true, {2, 1}) == 0ms);
  CHECK(look(500ms, true, {2, 1}) == 500ms);
  CHECK(look(10s, true, {2, 1}) == 2500ms);  // this process was stopped
  CHECK(look(500ms, true, {2, 1}) == 3000ms);
  CHECK(look(500ms, true, {3, 2}) == 0ms);  // both came on
  CHECK(look(500ms, true, {3, 2}) == 500ms);
  CHECK(look(500ms, false, {3, 3}) == 0ms);
  CHECK(look(500ms, false, {3, 3}) == 0ms);
}

}  // namespace
}  // namespace zrt::comm::process_gpu_test
