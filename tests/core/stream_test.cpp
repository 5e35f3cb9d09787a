#include "core/stream.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "core/parallel.h"

namespace zrt::core {
namespace {

TEST_CASE("a stream runs its tasks in order and synchronize waits for all of them") {
  Stream stream("compute");
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) stream.run([&order, i] { order.push_back(i); });
  stream.synchronize();
  REQUIRE(order.size() == 1000);
  for (int i = 0; i < 1000; ++i) REQUIRE(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("a task waits for the event of another stream") {
  for (int turn = 0; turn < 200; ++turn) {
    Stream first("first"), second("second");
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
  Stream stream("compute");
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
  Stream stream("compute"), other("other");
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
    Stream stream("compute");
    for (int i = 0; i < 50; ++i) stream.run([&] { ++ran; });
  }
  CHECK(ran == 50);
  {
    Stream("failing").run([] { throw std::runtime_error("nobody asks"); });
  }
}

TEST_CASE("tasks of a stream loop with the stream's number of threads") {
  int one = 0, three = 0;
  Stream narrow("narrow"), wide("wide", 3);
  narrow.run([&] { one = threads(); });
  wide.run([&] { three = threads(); });
  narrow.synchronize();
  wide.synchronize();
  CHECK(one == 1);
  CHECK(three == 3);
}

}  // namespace
}  // namespace zrt::core
