#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <vector>

namespace zrt::core {
namespace {
thread_local int thread_count = 1;
}

void set_threads(int count) {
  thread_count = count;
  omp_set_num_threads(count);
}

int threads() {
  return thread_count;
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t pieces = std::min<int64_t>(thread_count, grains);
  if (pieces <= 1) {
    body(0, count);
    return;
  }
  // An exception may not leave an OpenMP region: the first piece's is carried out.
  std::vector<std::exception_ptr> errors(static_cast<size_t>(pieces));
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(pieces))
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = grains * piece / pieces * grain;
    const int64_t end = std::min(count, grains * (piece + 1) / pieces * grain);
    try {
      body(begin, end);
    } catch (...) {
      errors[static_cast<size_t>(piece)] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace zrt::core
