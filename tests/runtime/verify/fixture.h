// A small verified program to be broken, and what the verifier says of it then.
#pragma once
#include <string_view>

#include "catch.h"
#include "core/error.h"
#include "runtime/verify/checks.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::testing {

using runtime::Access;
using runtime::Op;
using runtime::OpId;
using runtime::Role;

// A compiled toy step of two ranks with everything verified, to be broken.
struct VerifierFixture {
  models::Model model = make_toy(3, 12, 17, 5, false, false);
  runtime::Layout layout;
  runtime::ProgramSet set;

  explicit VerifierFixture(int stage = 3, uint32_t accumulation = 6, uint32_t every = 1, int ranks = 2) {
    Setting s;
    s.ranks = ranks, s.stage = stage, s.accumulation = accumulation, s.reduce_every = every, s.overlap = true;
    s.unit_elements = 100, s.bucket = 200;
    layout = make_layout(model, s);
    set = runtime::compile(layout, {"init", "step", "eval", "export"}).set;
  }
  VerifierFixture(const VerifierFixture&) = delete;

  runtime::Program& step() { return program_of(set, "step"); }
  Op& op(std::string_view name) { return step().ops[find_op(step(), name)]; }
  // The op of the repeated segment.
  Op& repeated(std::string_view name) {
    for (const runtime::Segment& segment : step().segments) {
      if (segment.repeat == 1) continue;
      for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
        if (step().ops[id].name == name) return step().ops[id];
      }
    }
    throw std::runtime_error("no repeated op " + std::string(name));
  }
  runtime::Buffer& buffer(std::string_view name) {
    return *std::find_if(set.buffers.begin(), set.buffers.end(), [&](const auto& b) { return b.name == name; });
  }
  Access& access(Op& op, Role role) {
    return *std::find_if(op.accesses.begin(), op.accesses.end(), [&](const Access& a) { return a.role == role; });
  }
  void check_meaning() {
    using namespace runtime::verification;
    runtime::verification::check_meaning(set, step(), layout, part_orders(layout), Families(set, layout));
  }
  // The verifier's message; all parts must be in it.
  void rejects(const std::vector<std::string>& parts) const {
    std::string error;
    try {
      runtime::verify(set, layout);
    } catch (const core::ProgramError& e) {
      error = e.what();
    }
    INFO("message: " << error);
    for (const std::string& part : parts) {
      INFO("missing: " << part);
      CHECK(error.find(part) != std::string::npos);
    }
  }
};

}  // namespace zrt::testing
