// What the ranks of a program send each other.
#pragma once
#include <cstdint>
#include <map>

#include "runtime/program/layout.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

// Bytes that one rank receives in one run of the program, by kind of op. The counters of a run find the same.
using CommBytes = std::map<OpKind, uint64_t>;
CommBytes comm_bytes(const ProgramSet& set, const Program& program, const Layout& layout);
uint64_t total(const CommBytes& bytes);

}  // namespace zrt::runtime
