#include "runtime/passes/draft.h"

#include <algorithm>

namespace zrt::runtime {

Program flatten(const Draft& draft) {
  Program program;
  program.phase = draft.phase;
  for (const DraftSegment& segment : draft.segments) {
    if (segment.ops.empty()) continue;
    program.segments.push_back(
        {static_cast<OpId>(program.ops.size()), static_cast<uint32_t>(segment.ops.size()), segment.repeat});
    program.ops.insert(program.ops.end(), segment.ops.begin(), segment.ops.end());
  }
  return program;
}

bool conflict(const Op& a, const Op& b) {
  return std::any_of(a.accesses.begin(), a.accesses.end(), [&](const Access& x) {
    return std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& y) {
      return x.buffer == y.buffer && (x.use != Use::read || y.use != Use::read);
    });
  });
}

}  // namespace zrt::runtime
