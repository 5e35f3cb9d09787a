// Every kind of broken program, at many sites of many programs, is rejected with a message that names both ops.
#include "tests/runtime/fault_kinds.h"

#include "catch.h"
#include "core/error.h"
#include "runtime/verifier.h"
#include "tests/runtime/subjects.h"

namespace zrt::fault_kinds_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

std::string verdict(const runtime::ProgramSet& set, const runtime::Layout& layout, const runtime::TierBytes& budgets) {
  try {
    runtime::verify(set, layout, budgets);
  } catch (const core::ProgramError& error) {
    return error.what();
  }
  return "";
}

// Tries every `stride`th site of a subject; how many there were.
size_t check_sites(const FaultKind& kind, const Subject& subject, size_t stride) {
  size_t sites = 0;
  for (size_t n = 0;; n += stride, ++sites) {
    Broken broken{subject.set, &subject.layout, runtime::no_budgets};
    if (!kind.apply(broken, n)) return sites;
    const std::string message = verdict(broken.set, subject.layout, broken.budgets);
    INFO(kind.name << ", site " << n << ", " << subject.name << ": " << message);
    CHECK_FALSE(message.empty());
    CHECK(ops_named(broken.set, message) >= 2);
  }
}

void check_kind(const FaultKind& kind) {
  size_t tried = 0;
  for (const auto& subject : subjects()) {
    // Where there are few sites all are tried.
    size_t sites = full_tests() ? 0 : check_sites(kind, *subject, 13);
    if (sites < 4) sites = check_sites(kind, *subject, 1);
    INFO(kind.name << ", " << subject->name);
    // Where updates come early, norms and updates stand in other segments than the decision.
    if (kind.everywhere && !subject->layout.early_updates) CHECK(sites > 0);
    tried += sites;
  }
  INFO(kind.name);
  CHECK(tried >= kind.least);
}

}  // namespace

TEST_CASE("the programs to be broken are accepted, on two levels too") {
  for (const auto& subject : subjects()) {
    INFO(subject->name);
    CHECK(verdict(subject->set, subject->layout, runtime::no_budgets).empty());
    CHECK(verdict(subject->set, subject->layout, subject->set.arena_bytes).empty());
  }
}

TEST_CASE("every kind of fault of lanes, waits, buffers and slots is rejected with both ops") {
  for (const FaultKind& kind : memory_faults()) check_kind(kind);
}

TEST_CASE("every kind of fault of weights, gradients, microbatches and order is rejected with both ops") {
  for (const FaultKind& kind : meaning_faults()) check_kind(kind);
}

}  // namespace zrt::fault_kinds_test
