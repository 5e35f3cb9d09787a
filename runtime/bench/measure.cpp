#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <thread>

#include "core/parallel.h"
#include "runtime/bench/bench.h"

namespace zrt::runtime {

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.empty()) return {};
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

double time_ranks(int ranks, int threads_per_rank, const std::function<void(int)>& body) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> begun(static_cast<size_t>(ranks)), ended(begun);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::barrier start(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto i = static_cast<size_t>(r);
      core::set_threads(threads_per_rank);
      start.arrive_and_wait();
      begun[i] = Clock::now();
      try {
        body(r);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      ended[i] = Clock::now();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return std::chrono::duration<double>(*std::max_element(ended.begin(), ended.end()) -
                                       *std::min_element(begun.begin(), begun.end()))
      .count();
}

}  // namespace zrt::runtime
