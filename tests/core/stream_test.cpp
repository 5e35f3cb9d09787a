#include "core/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "core/parallel.h"

namespace zrt::core::stream_test {
namespace {

using test::test_device;

// Two CPU streams and two of the device under test, as a rank on a GPU has them.
std::vector<std::unique_ptr<Stream>> mixed_streams() {
  std::vector<std::unique_ptr<Stream>> streams;
  for (const char* name : {"compute", "to_host"}) streams.push_back(make_stream(test_device(), name));
  for (const char* name : {"io", "host"}) streams.push_back(make_stream(DeviceKind::cpu, name));
  return streams;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A task that ends when `go` is set; false if nobody sets it.
std::function<void()> waits_for(const std::atomic<bool>& go, bool& seen) {
  return [&go, &seen] {
    const double begin = now();
    while (!go && now() - begin < 300) std::this_thread::sleep_for(std::chrono::microseconds(50));
    seen = go;
  };
}

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
  const Event event = stream.record();
  std::vector<Event> copies(2, event);
  CHECK(!copies.back().done());
  go = true;
  event.wait();
  CHECK(copies.back().done());
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

// Each of thousands of tasks hands on what another one, mostly of another stream, wrote: one that came too early would
// hand on a zero.
TEST_CASE("streams of the host and of a device wait for each other as events say") {
  constexpr size_t tasks = 3000;
  const auto streams = mixed_streams();
  for (unsigned seed = 1; seed <= 3; ++seed) {
    std::mt19937 draw(seed);
    test::Visible<uint32_t> cells(tasks);
    std::vector<Event> written;
    std::vector<size_t> writer;
    for (size_t i = 0; i < tasks; ++i) {
      const size_t own = draw() % streams.size(), from = i == 0 ? 0 : i - 1 - draw() % std::min<size_t>(i, 20);
      Stream& stream = *streams[own];
      if (i > 0 && writer[from] != own) stream.wait(written[from]);
      const auto pause = std::chrono::microseconds(draw() % 4 == 0 ? draw() % 60 : 0);
      stream.run([&cells, i, from, pause] {
        if (place().device == DeviceKind::cpu) std::this_thread::sleep_for(pause);
        if (i == 0) return fill_bytes(&cells[0], 0x5a, sizeof(uint32_t));
        copy_bytes(&cells[i], &cells[from], sizeof(uint32_t));
      });
      written.push_back(stream.record());
      writer.push_back(own);
    }
    for (const auto& stream : streams) stream->synchronize();
    CHECK(std::count(cells.begin(), cells.end(), 0x5a5a5a5au) == tasks);
    CHECK(std::all_of(written.begin(), written.end(), [](const Event& event) { return event.done(); }));
  }
}

TEST_CASE("a wait blocks no thread but the one whose tasks wait") {
  const auto streams = mixed_streams();
  std::atomic<bool> go = false;
  bool seen = false;
  test::Visible<uint8_t> cell(1);
  streams[3]->run(waits_for(go, seen));
  // A ring through all streams, several times, behind a task that waits for this thread.
  for (int turn = 0; turn < 50; ++turn) {
    for (size_t s = 0; s < streams.size(); ++s) {
      streams[s]->wait(streams[(s + 3) % 4]->record());
      streams[s]->run([&cell] { fill_bytes(cell.data(), 1, 1); });
    }
  }
  CHECK(!streams[0]->record().done());
  go = true;
  for (const auto& stream : streams) stream->synchronize();
  CHECK(seen);
  CHECK(cell[0] == 1);
}

TEST_CASE("an error of a CPU stream lets the streams that wait for it go on") {
  const auto streams = mixed_streams();
  std::atomic<bool> go = false;
  bool seen = false;
  test::Visible<uint8_t> cell(2);
  Stream &compute = *streams[0], &io = *streams[2], &host = *streams[3];
  io.run(waits_for(go, seen));
  io.run([] { throw DataError("the disk is gone"); });
  compute.wait(io.record());
  compute.run([&] { fill_bytes(&cell[0], 7, 1); });
  host.wait(compute.record());
  host.run([&] { cell[1] = cell[0]; });
  go = true;
  host.synchronize();
  CHECK(cell[1] == 7);
  CHECK_NOTHROW(compute.synchronize());
  CHECK_THROWS_AS(io.synchronize(), DataError);
  CHECK(seen);
}

TEST_CASE("times of all streams lie on one clock") {
  const auto streams = mixed_streams();
  test::Visible<uint8_t> cell(1);
  const double begin = now();
  const Anchor anchor = make_anchor(*streams[0]);
  CHECK(anchor.seconds >= begin);
  std::vector<Event> events;
  for (size_t i = 0; i < 40; ++i) {
    Stream& stream = *streams[i % 4];
    if (i > 0) stream.wait(streams[(i + 3) % 4]->record());
    stream.run([&cell] {
      if (place().device == DeviceKind::cpu) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      fill_bytes(cell.data(), 1, 1);
    });
    events.push_back(stream.record_time());
  }
  for (const auto& stream : streams) stream->synchronize();
  const double end = now(), slack = test_device() == DeviceKind::cpu ? 0 : 100e-6;  // an anchor is read a little late
  double last = anchor.seconds;
  for (const Event& event : events) {
    const double time = event.seconds(anchor);
    CHECK(time >= last - slack);
    last = time;
  }
  CHECK(last <= end + slack);
  CHECK(last - anchor.seconds >= 20e-3 - slack);
  CHECK(events[4].seconds_since(events[0]) ==
        Approx(events[4].seconds(anchor) - events[0].seconds(anchor)).margin(1e-6));
}

// A GPU's driver keeps the host in its call when a stream has a thousand pieces of work, and lanes of the host that the
// stream waits for with it: a run with states on NVMe stood still on a real GPU.
TEST_CASE("a stream is given thousands of pieces of work while it waits for a lane of the host") {
  const auto device = make_stream(test_device(), "compute"), other = make_stream(test_device(), "to_host"),
             host = make_stream(DeviceKind::cpu, "io");
  test::Visible<uint8_t> cells(4096, 0);
  std::atomic<bool> go{false};
  bool seen = false;
  host->run(waits_for(go, seen));
  device->wait(host->record());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    go = true;
  });
  for (int i = 0; i < 5000; ++i) {
    device->run(
        [&cells, i] { fill_bytes(&cells[static_cast<size_t>(i) % cells.size()], static_cast<uint8_t>(i % 251), 1); });
    if (i % 3 == 0) other->wait(device->record());
    if (i % 50 == 0) device->wait(other->record());
  }
  opener.join();
  device->synchronize();
  other->synchronize();
  host->synchronize();
  CHECK(seen);
  bool right = true;
  for (size_t c = 0; c < cells.size(); ++c) right = right && cells[c] == (c + (c < 904 ? 4096 : 0)) % 251;
  CHECK(right);
}

}  // namespace
}  // namespace zrt::core::stream_test
