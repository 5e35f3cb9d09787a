// NCCL itself, on one rank: `test_comm_nccl --device cuda`. Elsewhere what is refused, and how.
#include <numeric>

#include "catch.h"
#include "comm/nccl/communicator.h"
#include "comm/transport.h"
#include "core/arena.h"
#include "core/error.h"

namespace zrt::comm::nccl_test {
namespace {

using namespace std::chrono_literals;
using test::Visible;

bool on_gpu() {
  return test::test_device() == core::DeviceKind::cuda;
}

std::unique_ptr<Transport> by_nccl(int ranks) {
  auto transport = make_thread_transport(ranks);
  transport->connect_gpus_by_nccl();
  return transport;
}

std::unique_ptr<Communicator> one_rank() {
  return std::move(by_nccl(1)->make_group("dp", 60s).front());
}

// Memory of the GPU, filled from the host.
template <class T>
struct OnGpu {
  core::Arena arena;
  explicit OnGpu(const Visible<T>& values)
      : arena(core::Tier::device, values.size() * sizeof(T), core::DeviceKind::cuda) {
    core::copy_bytes(arena.data(), values.data(), values.size() * sizeof(T));
  }
  T* data() { return reinterpret_cast<T*>(arena.data()); }
  Visible<T> read() {
    Visible<T> values(arena.bytes() / sizeof(T));
    core::copy_bytes(values.data(), arena.data(), arena.bytes());
    test::settle();
    return values;
  }
};

Visible<float> numbers(size_t count) {
  Visible<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST_CASE("several ranks over NCCL are refused, and a build or a machine that cannot have one") {
  if (on_gpu()) {
    CHECK_THROWS_WITH(by_nccl(2), Catch::Contains("--transport nccl with 2 ranks"));
    CHECK_THROWS_WITH(make_nccl_communicator("no id", {"dp", 0, {0}}), Catch::Contains("'no id' is no id"));
    return;
  }
  if (!ZRT_EMULATED) CHECK_THROWS_AS(by_nccl(1), core::ConfigError);
  CHECK_THROWS_AS(by_nccl(2), core::ConfigError);
}

TEST_CASE("one rank over NCCL sums, gathers and exchanges with itself") {
  if (!on_gpu()) return;
  const auto c = one_rank();
  const Visible<float> values = numbers(1001);
  OnGpu<float> a(values), b(Visible<float>(1001, 0.5f));
  c->all_reduce(a.data(), 1001, DType::f32, "sum");
  CHECK(a.read() == values);
  const ReduceRange added{a.data(), b.data(), 1001, true};
  c->reduce_scatter({&added, 1}, DType::f32, DType::f32, "reduce");
  Visible<float> more = values;
  for (float& x : more) x += 0.5f;
  CHECK(b.read() == more);
  const GatherRange gathers[2]{{a.data(), b.data(), 500}, {a.data() + 500, a.data() + 500, 501}};
  c->all_gather(gathers, DType::f32, "gather");
  Visible<float> gathered = more;
  std::copy(values.begin(), values.begin() + 500, gathered.begin());
  CHECK(b.read() == gathered);
  CHECK(a.read() == values);
  c->broadcast(a.data(), 1001, DType::f32, 0, "seed");
  CHECK(a.read() == values);
  c->all_to_all(a.data(), b.data(), 1001, DType::f32, "tokens");
  CHECK(b.read() == values);
  OnGpu<float> self(Visible<float>(1001, -1.0f));
  const Message send{0, a.data(), 4004}, receive{0, self.data(), 4004};
  c->send_recv({&send, 1}, {&receive, 1}, "edge");
  CHECK(self.read() == values);
  c->barrier("end");
  const Counters counters = c->counters();
  for (size_t kind = 0; kind < collective_kind_count; ++kind) {
    CHECK(counters.calls[kind] == 1);
    CHECK(counters.bytes[kind] == 0);
  }
  CHECK(c->flight_records().back().label == "end");
}

TEST_CASE("a group over NCCL that was aborted refuses later calls with the reason") {
  if (!on_gpu()) return;
  const auto c = one_rank();
  OnGpu<float> a(numbers(10));
  c->all_reduce(a.data(), 10, DType::f32, "sum");
  test::settle();
  c->abort("rank 0 lost its disk");
  CHECK_THROWS_WITH(c->all_reduce(a.data(), 10, DType::f32, "sum"), Catch::Contains("lost its disk"));
}

}  // namespace
}  // namespace zrt::comm::nccl_test
