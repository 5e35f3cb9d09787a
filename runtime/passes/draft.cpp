#include "runtime/passes/draft.h"

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

}  // namespace zrt::runtime
