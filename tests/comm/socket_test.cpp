// Processes that meet by sockets, each played by a thread of this one.
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "catch.h"
#include "comm/process/control.h"
#include "comm/socket/stream.h"
#include "comm/transport.h"
#include "core/error.h"

namespace zrt::comm::socket_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::vector<std::unique_ptr<Control>> meet(std::vector<SocketPlace> places, std::vector<std::string>* errors = nullptr,
                                           std::chrono::milliseconds time = 20s) {
  std::vector<std::unique_ptr<Control>> controls(places.size());
  std::vector<std::string> said(places.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < places.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        controls[i] = make_socket_control(places[i], time);
      } catch (const core::CommError& error) {
        said[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (errors) *errors = said;
  return controls;
}

std::vector<SocketPlace> places(int world, int port, const std::string& key = "key") {
  std::vector<SocketPlace> all;
  for (int rank = 0; rank < world; ++rank) {
    SocketPlace place;
    place.rank = rank, place.world = world, place.address = "127.0.0.1", place.port = port, place.key = key;
    all.push_back(place);
  }
  return all;
}

// A port that was free a moment ago.
int free_port() {
  return port_of(listen_on_loopback());
}

// Returns the texts that each of them gets in an exchange.
std::vector<std::vector<std::string>> texts_of_all(std::vector<std::unique_ptr<Control>>& controls,
                                                   const std::function<std::string(int)>& text) {
  std::vector<std::vector<std::string>> got(controls.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < controls.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = controls[i]->exchange(text(static_cast<int>(i)), 20s); });
  }
  for (std::thread& thread : threads) thread.join();
  return got;
}

TEST_CASE("processes get every process's text in the order of their ranks, of any length") {
  for (const int world : {1, 2, 5}) {
    auto controls = meet(places(world, free_port()));
    for (const size_t length : {size_t{0}, size_t{7}, size_t{3} << 20}) {
      const auto text = [&](int rank) {
        return std::string(length + static_cast<size_t>(rank), static_cast<char>('a' + rank));
      };
      for (const auto& got : texts_of_all(controls, text)) {
        REQUIRE(got.size() == static_cast<size_t>(world));
        for (int rank = 0; rank < world; ++rank) CHECK((got[static_cast<size_t>(rank)] == text(rank)));
      }
    }
  }
}

TEST_CASE("rank 0 takes the next port where its own is taken, and the others find it there") {
  Socket taken = listen_on_loopback();
  std::optional<Socket> everywhere;  // that socket alone would leave other addresses of the port free
  const int port = port_of(taken);
  taken = Socket();
  everywhere = listen_at(port);
  REQUIRE(everywhere);
  auto controls = meet(places(3, port));
  for (const auto& got : texts_of_all(controls, [](int rank) { return std::to_string(rank); })) {
    CHECK(got == std::vector<std::string>{"0", "1", "2"});
  }
}

TEST_CASE("strangers at the port, and ranks of another run, keep nobody from meeting") {
  const int port = free_port();
  std::jthread strangers([port](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const std::string said : {"", "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff\xff\xff\xff\xff"}) {
        auto socket = connect_to("127.0.0.1", port, Clock::now() + 1s);
        if (socket) send(socket->file(), said.data(), said.size(), MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(1ms);
    }
  });
  std::vector<SocketPlace> all = places(3, port);
  all.push_back(places(3, port, "another")[1]);
  std::vector<std::string> errors;
  auto controls = meet(all, &errors, 3s);
  for (size_t i = 0; i < 3; ++i) CHECK(errors[i].empty());
  CHECK_THAT(errors[3], Catch::Contains("rank 1 found no rank 0 of this run at 127.0.0.1"));
}

// Calls `body(i)` on a thread for each of the processes.
void on_all(size_t count, const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

std::vector<int> others(int world, int rank) {
  std::vector<int> list;
  for (int peer = 0; peer < world; ++peer) {
    if (peer != rank) list.push_back(peer);
  }
  return list;
}

TEST_CASE("frames of all sizes arrive whole and in order over every channel, whoever sends first") {
  constexpr int world = 4, frames = 60;
  auto controls = meet(places(world, free_port()));
  const auto size_of = [](int from, int to, int frame) {
    return frame % 7 == 0   ? size_t{0}
           : frame % 5 == 0 ? frame_bytes
                            : static_cast<size_t>(frame * 997 + 31 * from + to);
  };
  std::vector<std::string> wrong(world);
  on_all(world, [&](size_t i) {
    const int rank = static_cast<int>(i);
    for (int round = 0; round < 2; ++round) {
      const std::vector<int> peers = others(world, rank);
      auto channels = controls[i]->make_channels(peers, 20s);
      std::vector<int> sent(peers.size()), got(peers.size());
      std::vector<std::vector<std::byte>> data(peers.size());
      const auto deadline = Clock::now() + 60s;
      const auto open = [&] {
        for (size_t p = 0; p < peers.size(); ++p) {
          if (sent[p] < frames || got[p] < frames || !channels[p]->flushed()) return true;
        }
        return false;
      };
      while (open() && Clock::now() < deadline) {
        for (size_t p = 0; p < peers.size(); ++p) {
          if (sent[p] < frames && channels[p]->flushed()) {
            data[p].assign(size_of(rank, peers[p], sent[p]), static_cast<std::byte>(sent[p] + rank));
            if (channels[p]->send(sent[p] % 2 ? FrameKind::data : FrameKind::token, data[p])) ++sent[p];
          }
          const auto frame = channels[p]->receive();
          if (!frame) continue;
          const size_t size = size_of(peers[p], rank, got[p]);
          const auto value = static_cast<std::byte>(got[p] + peers[p]);
          const bool right =
              frame->kind == (got[p] % 2 ? FrameKind::data : FrameKind::token) && frame->bytes.size() == size &&
              std::all_of(frame->bytes.begin(), frame->bytes.end(), [&](std::byte b) { return b == value; });
          if (!right) wrong[i] += fmt::format("frame {} of rank {}; ", got[p], peers[p]);
          channels[p]->pop();
          ++got[p];
        }
      }
      if (open()) wrong[i] += "not all arrived";
      controls[i]->exchange("round", 20s);  // nobody closes what others still read
    }
  });
  for (const std::string& text : wrong) CHECK(text == "");
}

TEST_CASE("ranks that do not come to make channels are named") {
  auto controls = meet(places(3, free_port()));
  std::string error;
  on_all(3, [&](size_t i) {
    if (i == 0) {
      try {
        controls[0]->make_channels({1, 2}, 1s);
      } catch (const core::CommError& late) {
        error = late.what();
      }
    } else {
      // Only the exchange before it.
      controls[i]->exchange("127.0.0.1 1", 20s);
    }
  });
  CHECK_THAT(error, Catch::Contains("ranks 1, 2 of other hosts did not connect to rank 0 within 1000 ms"));
}

TEST_CASE("a rank that does not come to the end of a run is waited for as long as for its calls") {
  const std::vector<SocketPlace> all = places(2, free_port());
  const auto run = [&](size_t rank) {
    const pid_t child = fork();
    if (child != 0) return child;
    {
      const auto transport = make_socket_transport(all[rank]);
      transport->make_group("dp", 1s);
      while (rank == 1) pause();
    }
    _exit(0);
  };
  const pid_t first = run(0), stays = run(1);
  const auto ended = [&] { return waitpid(first, nullptr, WNOHANG) == first; };
  // Half of what a run waits for that has made no group.
  const auto deadline = Clock::now() + 60s;
  bool in_time = ended();
  while (!in_time && Clock::now() < deadline) {
    std::this_thread::sleep_for(20ms);
    in_time = ended();
  }
  CHECK(in_time);
  if (!in_time) kill(first, SIGKILL);
  kill(stays, SIGKILL);
  waitpid(stays, nullptr, 0);
}

TEST_CASE("a channel whose other end has gone says so") {
  auto controls = meet(places(2, free_port()));
  std::vector<std::vector<std::unique_ptr<Channel>>> channels(2);
  on_all(2, [&](size_t i) { channels[i] = controls[i]->make_channels({1 - static_cast<int>(i)}, 20s); });
  channels[1].clear();
  const auto until_it_throws = [&] {
    for (int i = 0; i < 10000; ++i, std::this_thread::sleep_for(1ms)) channels[0][0]->receive();
  };
  CHECK_THROWS_WITH(until_it_throws(), Catch::Contains("the connection to rank 1 has ended"));
}

TEST_CASE("a rank that does not come, comes twice or has ended is named") {
  std::vector<std::string> errors;
  std::vector<SocketPlace> all = places(3, free_port());
  all.pop_back();
  meet(all, &errors, 1s);
  CHECK_THAT(errors[0], Catch::Contains("ranks 2 did not reach rank 0 within"));
  all = places(5, free_port());
  all.erase(all.begin() + 3), all.erase(all.begin() + 1);
  meet(all, &errors, 1s);
  CHECK_THAT(errors[0], Catch::Contains("ranks 1, 3 did not reach rank 0 within"));

  auto controls = meet(places(3, free_port()));
  controls[1].reset();
  CHECK_THROWS_WITH(controls[0]->exchange("x", 5s), Catch::Contains("rank 1 has ended, or cannot be reached"));
  controls = meet(places(2, free_port()));
  CHECK_THROWS_WITH(controls[0]->exchange("x", 50ms),
                    Catch::Contains("timed out after 50 ms on rank 0, which waited for rank 1"));
  CHECK_THROWS_WITH(connect_to("no.such.host.invalid", 1, Clock::now() + 1s), Catch::Contains("no.such.host.invalid"));
}

TEST_CASE("whoever gives up first in an exchange, every rank names the ranks that are missing") {
  // Rank 3 has waited for most of its time when rank 0 comes; ranks 1 and 2 never come.
  auto controls = meet(places(4, free_port()));
  std::vector<std::string> said(4);
  const auto begin = Clock::now();
  on_all(4, [&](size_t i) {
    if (i == 1 || i == 2) return;
    if (i == 0) std::this_thread::sleep_for(400ms);
    try {
      controls[i]->exchange("x", 600ms);
    } catch (const core::CommError& error) {
      said[i] = error.what();
    }
  });
  const std::string all =
      "timed out after 600 ms on rank 0, which waited for ranks 1, 2. Look for an earlier error on them";
  CHECK_THAT(said[0], Catch::Contains(all));
  CHECK(said[3] == said[0]);
  CHECK(Clock::now() - begin >= 1000ms);
  // A text that does not fit the way to rank 0 waits there, and its rank for as long as rank 0 waits for others.
  controls = meet(places(3, free_port()));
  const std::string large(size_t{16} << 20, 'x');
  std::vector<size_t> sizes(3);
  on_all(3, [&](size_t i) {
    if (i < 2) std::this_thread::sleep_for(i == 0 ? 1200ms : 2400ms);
    for (const std::string& text : controls[i]->exchange(i == 2 ? large : "x", 2s)) sizes[i] += text.size();
  });
  CHECK(sizes == std::vector<size_t>(3, large.size() + 2));
  // A rank that waits for a rank 0 which does not come names it.
  controls = meet(places(2, free_port()));
  CHECK_THROWS_WITH(controls[1]->exchange("x", 50ms),
                    Catch::Contains("timed out after 50 ms on rank 1, which waited for rank 0"));
  // The others hear of a rank that has ended.
  controls = meet(places(3, free_port()));
  controls[1].reset();
  said.assign(3, "");
  on_all(3, [&](size_t i) {
    if (i == 1) return;
    try {
      controls[i]->exchange("x", 20s);
    } catch (const core::CommError& error) {
      said[i] = error.what();
    }
  });
  CHECK_THAT(said[0], Catch::Contains("rank 1 has ended, or cannot be reached"));
  CHECK(said[2] == said[0]);
}

TEST_CASE("a rank that left a connection before rank 0 saw it meets over its next one") {
  std::vector<SocketPlace> all = places(2, 0);
  Socket listener = listen_on_loopback();
  all[1].port = port_of(listener), all[1].exact_port = true;
  {
    std::optional<Socket> left = connect_to("127.0.0.1", all[1].port, Clock::now() + 20s);
    REQUIRE(left);
    left->send_text("zrt ranks 3/key/1/2", Clock::now() + 20s);
  }
  all[0].listener = dup(listener.file()), all[0].exact_port = true, all[0].port = all[1].port;
  std::vector<std::string> errors;
  auto controls = meet(all, &errors);
  INFO(errors[0] << errors[1]);
  REQUIRE((controls[0] && controls[1]));
  const auto got = texts_of_all(controls, [](int rank) { return std::to_string(rank); });
  CHECK(got[1] == std::vector<std::string>{"0", "1"});
}

TEST_CASE("rank 0 sees that a rank has ended while a lower one has not come") {
  auto controls = meet(places(3, free_port()));
  controls[2].reset();
  const auto begin = Clock::now();
  CHECK_THROWS_WITH(controls[0]->exchange("x", 60s), Catch::Contains("rank 2 has ended, or cannot be reached"));
  CHECK(Clock::now() - begin < 50s);  // rank 1 would be waited for as long as it may take
}

}  // namespace
}  // namespace zrt::comm::socket_test
