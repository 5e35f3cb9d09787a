#include "core/parallel.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.h"
#include "thread_counts.h"

namespace zrt::core::parallel_test {
namespace {

TEST_CASE("pieces cover the range once and begin at multiples of the grain") {
  for (const int count_of_threads : thread_counts()) {
    set_threads(count_of_threads);
    for (const int64_t count : {0, 1, 63, 64, 65, 1000, 4096}) {
      for (const int64_t grain : {1, 7, 64, 5000}) {
        std::vector<int> hits(static_cast<size_t>(count), 0);
        std::atomic<int> pieces = 0, crooked = 0;
        parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          ++pieces;
          crooked += begin % grain != 0 || (end % grain != 0 && end != count) || begin >= end;
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        CHECK(hits == std::vector<int>(hits.size(), 1));
        CHECK(crooked == 0);
        CHECK(pieces <= count_of_threads);
      }
    }
  }
  set_threads(1);
}

TEST_CASE("an exception in a piece reaches the caller") {
  for (const int count_of_threads : thread_counts()) {
    set_threads(count_of_threads);
    const auto body = [](int64_t begin, int64_t) {
      if (begin == 0) throw std::runtime_error("piece 0");
    };
    CHECK_THROWS_AS(parallel_for(100, 1, body), std::runtime_error);
  }
  set_threads(1);
}

TEST_CASE("the thread count belongs to the calling thread") {
  set_threads(3);
  int other = 0;
  std::thread([&] { other = threads(); }).join();
  CHECK(other == 1);
  CHECK(threads() == 3);
  set_threads(1);
}

}  // namespace
}  // namespace zrt::core::parallel_test
