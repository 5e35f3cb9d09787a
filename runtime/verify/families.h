// Families of buffers that hold the same thing: a state in its resident tier, and its copies in other tiers. Whoever
// works on a buffer says what it means by it, and a transfer says that two buffers mean the same.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/program/layout.h"
#include "runtime/program/program.h"

namespace zrt::runtime::verification {

class Families {
 public:
  // Finds the families in all programs of the set. Throws core::ProgramError where a buffer, or two that a transfer
  // joins, mean two things.
  Families(const ProgramSet& set, const Layout& layout);

  static constexpr uint32_t none = ~0u;
  // The family of a buffer that is moved: of a unit's weights, gradient, master weights or one of its states, or of the
  // control block. None for others: an activation that is moved is known by the op that made it.
  uint32_t of(BufferId buffer) const { return family_[buffer]; }

 private:
  struct Meaning {
    uint8_t what = 0;  // 0: not known
    uint32_t unit = 0, kind = 0;
    const Op* op = nullptr;  // that means it
    bool operator==(const Meaning& other) const {
      return what == other.what && unit == other.unit && kind == other.kind;
    }
  };
  Meaning meaning(const Op& op, const Access& access, uint32_t nth) const;
  BufferId root(BufferId buffer);
  void join(const Program& program, const Op& transfer);
  std::string text(const Meaning& meaning) const;

  const ProgramSet& set_;
  const Layout& layout_;
  std::vector<Meaning> meaning_;  // by buffer; of a family, that of its root
  std::vector<uint32_t> family_;
};

}  // namespace zrt::runtime::verification
