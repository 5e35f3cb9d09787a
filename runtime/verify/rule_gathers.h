// The rule of collectives that bring together what is sharded: somebody reads it, and it is brought as often as the
// layout says.
#pragma once
#include <vector>

#include "runtime/verify/contents.h"

namespace zrt::runtime::verification {

// Ranks read what they bring together, and bring it together as often as the layout says: again for another use, or
// when it has changed, and not where all of it is there for this use.
class GatherRule {
 public:
  explicit GatherRule(Walk& walk) : walk_(walk), brought_(walk.slots()) {}
  void read();
  void write();
  void end() const;

 private:
  struct Brought {                  // by a gather, to a slot
    size_t from = 0;                // the slot that it came from
    Execution source;               // the latest to change that slot by then
    Execution by;                   // the latest gather
    Execution again;                // the latest gather, where what it brought was there
    Execution reader;               // the latest
    uint32_t use = 0, stretch = 0;  // of the block that read it last
  };
  void bring(const Access& access, const Access* from);
  void count_use();
  void use_block(const Access& access);
  void use_part(const Access& access);
  const Access* source_of(const Access& access) const;
  Walk& walk_;
  std::vector<Brought> brought_;  // by slot
  // Ops of one block that follow each other, ops that run no block left out, are one use of its weights: a forward and
  // the backward behind it, too, if the layout says so. Passes may begin anew where a segment does, or a turn of one:
  // they gather once in such a stretch of a use.
  uint32_t use_ = 0, stretch_ = 0;
  Execution block_;
};

}  // namespace zrt::runtime::verification
