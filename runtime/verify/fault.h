// A fault that a check has found, and its place: verify() adds the operand, the ranks that it is combined over and the
// ops beside it to what the check says.
#pragma once
#include <string>

#include "core/error.h"
#include "runtime/program/program.h"
#include "runtime/verify/execution.h"

namespace zrt::runtime::verification {

struct FaultPlace {
  const Program* program = nullptr;  // none: it is of no program more than of another
  Execution at{};                    // unknown: the end of the program
  BufferId buffer = no_buffer;       // none: what the op there works on
  uint32_t unit = ~0u;               // none: that of the buffer there
};

class Fault : public core::ProgramError {
 public:
  Fault(const FaultPlace& place, const std::string& what) : core::ProgramError(what), place_(place) {}
  const FaultPlace& place() const { return place_; }

 private:
  FaultPlace place_;
};

}  // namespace zrt::runtime::verification
