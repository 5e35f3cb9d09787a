// Every kind of broken program, at many sites of many programs, is rejected with a message that names both ops.
#include "tests/runtime/verify/fault_kinds.h"

#include <map>

#include "catch.h"
#include "core/error.h"
#include "runtime/verify/verifier.h"
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

// Two steps with the programs of a set in place of the subject's own.
Outcome trained(const Subject& subject, const runtime::ProgramSet& set) {
  runtime::Compiled compiled = runtime::compile(subject.layout, {"init", "step", "export"}, {}, false);
  compiled.set = set;
  Setting s = subject.setting;
  s.steps = 2;
  return run_compiled(std::move(compiled), s);
}

// Some copies are made for nothing: what lies there already is as new. The bits say whether that is so.
void check_harmless(const Subject& subject, const runtime::ProgramSet& broken) {
  static std::map<const Subject*, Outcome> whole;
  if (!whole.count(&subject)) whole[&subject] = trained(subject, subject.set);
  const Outcome outcome = trained(subject, broken);
  CHECK(outcome.state == whole[&subject].state);
  CHECK(outcome.losses == whole[&subject].losses);
  CHECK(outcome.norms == whole[&subject].norms);
}

// Tries every `stride`th site of a subject; returns how many it tried.
size_t check_sites(const FaultKind& kind, const Subject& subject, size_t stride) {
  size_t sites = 0;
  for (size_t n = 0;; n += stride, ++sites) {
    Broken broken{subject.set, &subject.layout, runtime::no_budgets};
    if (!kind.apply(broken, n)) return sites;
    const std::string message = verdict(broken.set, subject.layout, broken.budgets);
    INFO(kind.name << ", site " << n << ", " << subject.name << ": " << message);
    if (kind.harmless && message.empty()) {
      check_harmless(subject, broken.set);
      continue;
    }
    CHECK_FALSE(message.empty());
    CHECK(ops_named(broken.set, message) >= kind.named);
  }
}

void check_kind(const FaultKind& kind, const Subjects& subjects) {
  size_t tried = 0;
  for (const auto& subject : subjects) {
    // All sites are tried where there are few.
    size_t sites = full_tests() ? 0 : check_sites(kind, *subject, 13);
    if (sites < 4) sites = check_sites(kind, *subject, 1);
    INFO(kind.name << ", " << subject->name);
    // Norms and updates stand in other segments than the decision where updates come at another time.
    if (kind.everywhere && subject->layout.update_when == runtime::UpdateWhen::after_norm) CHECK(sites > 0);
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

TEST_CASE("the programs with states on other tiers are accepted") {
  for (const auto& subject : placed_subjects()) {
    INFO(subject->name);
    CHECK(verdict(subject->set, subject->layout, subject->set.arena_bytes).empty());
  }
}

TEST_CASE("every kind of fault of copies between tiers is rejected with the ops, updates early or not", "[long]") {
  for (const FaultKind& kind : copy_faults()) check_kind(kind, placed_subjects());
}

TEST_CASE("every kind of fault of lanes, waits, buffers and slots is rejected with both ops", "[long]") {
  for (const FaultKind& kind : memory_faults()) check_kind(kind, subjects());
}

TEST_CASE("every kind of fault of weights, gradients, microbatches and order is rejected with both ops", "[long]") {
  for (const FaultKind& kind : meaning_faults()) check_kind(kind, subjects());
}

}  // namespace zrt::fault_kinds_test
