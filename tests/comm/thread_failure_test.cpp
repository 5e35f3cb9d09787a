#include "catch.h"
#include "core/error.h"
#include "ranks.h"

namespace zrt::comm::thread_failure_test {
namespace {

using namespace std::chrono_literals;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Every rank throws, and every message holds all of `parts`.
void check_all_throw(Group& group, const RankBody& body, const std::vector<std::string>& parts) {
  for (const std::string& error : run_catching(group, body)) {
    for (const std::string& part : parts) {
      INFO(error << "\nmust contain: " << part);
      CHECK(contains(error, part));
    }
  }
  // The group has ended: later calls throw the same.
  for (const std::string& error : run_catching(group, [](Communicator& c) { c.barrier("later"); })) {
    CHECK(contains(error, parts.front()));
  }
}

TEST_CASE("ranks that call different operations all learn both calls") {
  Group group = make_group(3);
  float x[3] = {};
  const auto body = [&](Communicator& c) {
    if (c.rank() == 2) {
      c.all_reduce(&x[2], 1, DType::f32, "sum norm");
    } else {
      float all[3];
      const GatherRange own{&x[c.rank()], all, 1};
      c.all_gather({&own, 1}, DType::f32, "gather h.3");
    }
  };
  check_all_throw(group, body,
                  {"rank 0 called all_gather \"gather h.3\" of 1 elements per rank, fp32",
                   "rank 2 called all_reduce \"sum norm\" of 1 elements, fp32", "differ in the operation"});
}

TEST_CASE("ranks that disagree on a count, a type, a root, an accumulation or a label all learn what differs") {
  float x[8] = {}, y[8] = {};
  SECTION("count") {
    Group group = make_group(2);
    const auto body = [&](Communicator& c) {
      float own[4], all[16];
      const GatherRange ranges[2]{{own, all, 2}, {own, all + 8, c.rank() == 0 ? 3 : 4}};
      c.all_gather(ranges, DType::f32, "gather");
    };
    check_all_throw(group, body, {"2 + 3 elements", "2 + 4 elements", "the count of range 1 (3 against 4)"});
  }
  SECTION("number of ranges") {
    Group group = make_group(2);
    const auto body = [&](Communicator& c) {
      float own[4], all[16];
      const GatherRange ranges[2]{{own, all, 2}, {own, all + 8, 2}};
      c.all_gather({ranges, c.rank() == 0 ? 1u : 2u}, DType::f32, "gather");
    };
    check_all_throw(group, body, {"number of ranges (1 against 2)"});
  }
  SECTION("type") {
    Group group = make_group(2);
    const auto body = [&](Communicator& c) {
      c.all_reduce(c.rank() ? x : y, 2, c.rank() == 0 ? DType::f32 : DType::bf16, "sum");
    };
    check_all_throw(group, body, {"fp32", "bf16", "differ in the element type"});
  }
  SECTION("root") {
    Group group = make_group(2);
    const auto body = [&](Communicator& c) { c.broadcast(c.rank() ? x : y, 2, DType::f32, c.rank(), "seed"); };
    check_all_throw(group, body, {"from root 0", "from root 1", "the root (0 against 1)"});
  }
  SECTION("accumulation") {
    Group group = make_group(2);
    const auto body = [&](Communicator& c) {
      float source[2] = {}, target = 0;
      const ReduceRange range{source, &target, 1, c.rank() == 1};
      c.reduce_scatter({&range, 1}, DType::f32, DType::f32, "reduce");
    };
    check_all_throw(group, body, {"accumulation of range 0 (false against true)"});
  }
  SECTION("label") {
    Group group = make_group(2);
    const auto body = [&](Communicator& c) { c.barrier(c.rank() == 0 ? "h.3" : "h.4"); };
    check_all_throw(group, body, {"barrier \"h.3\"", "barrier \"h.4\"", "differ in the label"});
  }
}

TEST_CASE("messages without partner or of another size are refused by all ranks") {
  uint8_t data[3][64] = {};
  SECTION("size") {
    Group group = make_group(3);
    const auto body = [&](Communicator& c) {
      const Message send{1, data[0], 16}, receive{0, data[1], 17};
      c.send_recv({&send, c.rank() == 0 ? 1u : 0u}, {&receive, c.rank() == 1 ? 1u : 0u}, "edge");
    };
    check_all_throw(group, body, {"16 B sent, 17 B expected", "sending 16 B to rank 1", "receiving 17 B from rank 0"});
  }
  SECTION("no receive") {
    Group group = make_group(3);
    const auto body = [&](Communicator& c) {
      const Message send{1, data[0], 16};
      c.send_recv({&send, c.rank() == 2 ? 1u : 0u}, {}, "edge");
    };
    check_all_throw(group, body, {"message 0 from rank 2 to rank 1: 16 B sent, nothing expected"});
  }
  SECTION("no send") {
    Group group = make_group(3);
    const auto body = [&](Communicator& c) {
      const Message receive{2, data[0], 16};
      c.send_recv({}, {&receive, c.rank() == 0 ? 1u : 0u}, "edge");
    };
    check_all_throw(group, body, {"message 0 from rank 2 to rank 0: nothing sent, 16 B expected"});
  }
}

TEST_CASE("wrong arguments of one rank end the call of all ranks") {
  float x[16] = {}, y[16] = {};
  const auto bad = [&](const RankBody& wrong, const std::vector<std::string>& parts) {
    Group group = make_group(2);
    const auto body = [&](Communicator& c) {
      if (c.rank() == 1) {
        wrong(c);
      } else {
        c.barrier("good");
      }
    };
    check_all_throw(group, body, parts);
  };
  bad([&](Communicator& c) { c.all_reduce(x, -4, DType::f32, "sum"); }, {"rank 1 called", "a count of -4"});
  bad([&](Communicator& c) { c.all_reduce(nullptr, 4, DType::f32, "sum"); }, {"null pointer for 4 elements"});
  bad([&](Communicator& c) { c.all_reduce(x, 4, DType::i32, "sum"); }, {"a sum of int32 into int32", "legal are"});
  bad([&](Communicator& c) { c.broadcast(x, 4, DType::f32, 2, "seed"); }, {"root 2; legal are 0 to 1"});
  bad([&](Communicator& c) { c.all_to_all(x, x + 7, 4, DType::f32, "swap"); }, {"overlap"});
  const ReduceRange narrow{x, y, 4, false}, shifted{x, x + 2, 4, false};
  bad(
      [&](Communicator& c) {
        c.reduce_scatter({&narrow, 1}, DType::f32, DType::bf16, "r");
      },
      {"a sum of fp32 into bf16"});
  bad(
      [&](Communicator& c) {
        c.reduce_scatter({&shifted, 1}, DType::f32, DType::f32, "r");
      },
      {"overlap", "16 bytes from its start"});
  const GatherRange inside{x, x, 4};
  bad([&](Communicator& c) { c.all_gather({&inside, 1}, DType::f32, "g"); }, {"overlap"});
  const Message stranger{2, x, 4};
  bad([&](Communicator& c) { c.send_recv({&stranger, 1}, {}, "p"); }, {"rank 2; legal are 0 to 1"});
}

TEST_CASE("a rank that never comes is named, and all ranks throw") {
  Group group = make_group(4, 3s);
  std::atomic<int> gave_up = 0;
  const auto body = [&](Communicator& c) {
    c.barrier("start");
    if (c.rank() == 1 || c.rank() == 3) {
      while (gave_up < 2) std::this_thread::sleep_for(10ms);
      c.barrier("too late");
      return;
    }
    float x = 1;
    if (c.rank() == 0) await_call(*group[2], 2);  // whose time-out begins first, and finds rank 0 waiting
    try {
      c.all_reduce(&x, 1, DType::f32, "sum loss");
    } catch (...) {
      ++gave_up;
      throw;
    }
  };
  check_all_throw(group, body,
                  {"missing ranks: 1, 3; waiting ranks: 0, 2", "all_reduce \"sum loss\"", "call 2", "group dp",
                   "#1 barrier \"start\"", "unfinished", "after 3000 ms"});
}

TEST_CASE("abort wakes all waiting ranks at once with its reason") {
  Group group = make_group(3, 24h);  // whoever is not woken hangs
  const auto body = [&](Communicator& c) {
    if (c.rank() == 0) {
      await_call(*group[1]);
      await_call(*group[2]);
      c.abort("rank 0 lost its disk");
      c.abort("a second reason");
    }
    c.barrier("end");
  };
  check_all_throw(group, body, {"rank 0 lost its disk"});
}

TEST_CASE("a second call on the same communicator from another thread is refused") {
  Group group = make_group(2, 60s);
  std::string error;
  std::thread waiting([&] {
    try {
      group[0]->barrier("first");
    } catch (const core::CommError&) {
    }
  });
  await_call(*group[0]);
  try {
    group[0]->barrier("second");
  } catch (const core::CommError& e) {
    error = e.what();
  }
  group[1]->barrier("first");
  waiting.join();
  CHECK(contains(error, "while barrier \"first\" still runs on another thread"));
}

// A failing member must not free its buffer while others still read it; AddressSanitizer would see it.
TEST_CASE("an abort in the middle of a call lets no rank go before the others stop reading") {
  for (int turn = 0; turn < 20; ++turn) {
    Group group = make_group(4, 60s);
    std::thread saboteur([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200 * turn));
      group[0]->abort("stop");
    });
    const auto errors = run_catching(group, [](Communicator& c) {
      for (int i = 0; i < 1000; ++i) {
        test::Visible<float> data(20000, 1.0f);
        c.all_reduce(data.data(), 20000, DType::f32, "sum");
      }
    });
    saboteur.join();
    for (const std::string& error : errors) CHECK((error.empty() || error == "stop"));
  }
}

TEST_CASE("a group needs at least one rank") {
  CHECK_THROWS_AS(make_thread_group("dp", 0, 1s), core::CommError);
}

}  // namespace
}  // namespace zrt::comm::thread_failure_test
