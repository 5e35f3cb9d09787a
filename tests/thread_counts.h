// Thread counts to run a loop with. ThreadSanitizer does not know the OpenMP runtime and reports false races in it.
#pragma once
#include <vector>

namespace zrt {

inline std::vector<int> thread_counts() {
#ifdef __SANITIZE_THREAD__
  return {1};
#else
  return {1, 2, 3, 5};
#endif
}

}  // namespace zrt
