#include "core/stream.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "core/parallel.h"

namespace zrt::core {
namespace {

TEST_CASE("a stream runs its tasks in order and synchronize waits for all of them") {
  const auto made = make_stream(DeviceKind::cpu, "compute");
  Stream& stream = *made;
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) stream.run([&order, i] { order.push_back(i); });
  stream.synchronize();
  REQUIRE(order.size() == 1000);
  for (int i = 0; i < 1000; ++i) REQUIRE(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("a task waits for the event of another stream") {
  for (int turn = 0; turn < 200; ++turn) {
    const auto first_made = make_stream(DeviceKind::cpu, "first"), second_made = make_stream(DeviceKind::cpu, "second");
    Stream &first = *first_made, &second = *second_made;
    int value = 0;  // plain: the event alone orders the accesses
    first.run([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(turn % 7 * 20));
      value = 41;
    });
    second.wait(first.record());
    second.run([&] { value += 1; });
    const Event end = second.record();
    end.wait();
    CHECK(end.done());
    CHECK(value == 42);
  }
}

TEST_CASE("a default-made event is complete and an event's copies share its state") {
  const Event none;
  CHECK(none.done());
  none.wait();
  const auto made = make_stream(DeviceKind::cpu, "compute");
  Stream& stream = *made;
  std::atomic<bool> go = false;
  stream.run([&] {
    while (!go) std::this_thread::yield();
  });
  const Event event = stream.record(), copy = event;
  CHECK(!copy.done());
  go = true;
  event.wait();
  CHECK(copy.done());
}

TEST_CASE("an error skips later tasks, completes their events and is rethrown once") {
  const auto made = make_stream(DeviceKind::cpu, "compute"), other_made = make_stream(DeviceKind::cpu, "other");
  Stream &stream = *made, &other = *other_made;
  std::atomic<int> ran = 0, other_ran = 0;
  stream.run([&] { ++ran; });
  stream.run([] { throw CommError("the link is down"); });
  stream.run([&] { ++ran; });
  stream.run([] { throw CommError("a second error"); });
  other.wait(stream.record());
  other.run([&] { ++other_ran; });
  other.synchronize();
  CHECK(other_ran == 1);
  std::string message;
  try {
    stream.synchronize();
  } catch (const CommError& error) {
    message = error.what();
  }
  CHECK(message == "the link is down");
  CHECK(ran == 1);
  CHECK_NOTHROW(stream.synchronize());
  stream.run([&] { ++ran; });
  stream.synchronize();
  CHECK(ran == 2);
}

TEST_CASE("a stream's destructor runs what is queued, also after an error") {
  std::atomic<int> ran = 0;
  {
    const auto made = make_stream(DeviceKind::cpu, "compute");
    Stream& stream = *made;
    for (int i = 0; i < 50; ++i) stream.run([&] { ++ran; });
  }
  CHECK(ran == 50);
  {
    make_stream(DeviceKind::cpu, "failing")->run([] { throw std::runtime_error("nobody asks"); });
  }
}

TEST_CASE("tasks of a stream loop with the stream's number of threads") {
  int one = 0, three = 0;
  const auto narrow_made = make_stream(DeviceKind::cpu, "narrow"), wide_made = make_stream(DeviceKind::cpu, "wide", 3);
  Stream &narrow = *narrow_made, &wide = *wide_made;
  narrow.run([&] { one = threads(); });
  wide.run([&] { three = threads(); });
  narrow.synchronize();
  wide.synchronize();
  CHECK(one == 1);
  CHECK(three == 3);
}

}  // namespace
}  // namespace zrt::core
