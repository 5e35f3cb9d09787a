// Counts what the ranks of a program send each other.
#pragma once
#include <cstdint>
#include <map>

#include "runtime/program/layout.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

// Returns the bytes that a rank, the first one, receives in one execution of an op that communicates; where tokens
// choose their experts and none is dropped, the most that it may receive.
uint64_t received_bytes(const ProgramSet& set, const Op& op, const Layout& layout);
// Bytes that a rank, the first one, receives in one run of the program, by kind of op. Its counters find the same.
using CommBytes = std::map<OpKind, uint64_t>;
CommBytes comm_bytes(const ProgramSet& set, const Program& program, const Layout& layout);
uint64_t total(const CommBytes& bytes);

}  // namespace zrt::runtime
