#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <thread>

#include "core/parallel.h"
#include "core/philox.h"
#include "models/masking.h"
#include "runtime/bench/bench.h"

namespace zrt::runtime {

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.empty()) return {};
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double time_ranks(int ranks, int threads_per_rank, const std::function<void(int)>& body) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> begun(static_cast<size_t>(ranks)), ended(begun);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::barrier start(ranks);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
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

std::function<void(int, uint32_t, const data::SampleRows&)> random_batches(Layout layout, const uint32_t& step) {
  return [layout = std::move(layout), &step](int rank, uint32_t microbatch, const data::SampleRows& to) {
    const int64_t rows = layout.micro_batch * layout.sequence;
    const auto data_rank = static_cast<uint64_t>(layout.mesh.place(data_axes, rank));
    const uint64_t base =
        (uint64_t{microbatch} * static_cast<uint64_t>(layout.mesh.data()) + data_rank) * static_cast<uint64_t>(rows);
    const auto vocab = static_cast<uint32_t>(layout.model->vocab);
    for (int64_t row = 0; row < rows; row += layout.sequence) to.from(row).count_positions(layout.sequence);
    for (int64_t i = 0; i <= rows; i += 4) {
      const auto words = core::philox({1, step, 1}, (base + static_cast<uint64_t>(i)) / 4);
      for (int64_t j = 0; j < 4; ++j) {
        const auto token = static_cast<int32_t>(words[static_cast<size_t>(j)] % vocab);
        if (i + j < rows) to.tokens[i + j] = token;
        if (i + j > 0 && i + j <= rows) to.targets[i + j - 1] = token;
      }
    }
    const models::Model& model = *layout.model;
    const int64_t T = layout.sequence, predicted = model.targets(T);
    if (!model.masking) return;
    // A sample keeps as many targets as the loss is divided by, evenly spread.
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t place = row % T;
      if (place * predicted / T == (place + 1) * predicted / T) to.targets[row] = -1;
      if (place == 0 && model.masking->sentence_order)
        to.targets[row] = to.tokens[row] % 2 ? models::swapped : models::in_order;
    }
  };
}

}  // namespace zrt::runtime
