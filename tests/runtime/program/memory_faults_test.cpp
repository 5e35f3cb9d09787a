// Wrong uses of memory are found: writes past the end of a buffer, and lives that are planned too short.
#include <set>

#include "catch.h"
#include "core/error.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::memory_faults_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

template <class Call>
std::string program_error(const Call& call) {
  try {
    call();
  } catch (const core::ProgramError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("one byte written past the end of a buffer is an error that names the op and the buffer") {
  struct Case {
    std::string buffer;
    bool backward;
    std::function<void*(const Call&)> end;
  };
  const int64_t rows = 2 * 5, width = 16;
  auto past = [](void* begin, int64_t bytes) { return static_cast<std::byte*>(begin) + bytes; };
  const std::vector<Case> cases{
      {"output of linear.1", false, [&](const Call& c) { return past(c.output, rows * width * 4); }},
      {"saved of linear.1", false, [&](const Call& c) { return past(c.saved[0], rows * 4); }},
      {"saved of linear.1", false, [&](const Call& c) { return past(c.saved[0], rows * 4 + 63); }},
      {"forward workspace of linear.1", false, [&](const Call& c) { return past(c.workspace, 200); }},
      {"gradient of output of linear.0", true, [&](const Call& c) { return past(c.d_input, rows * width * 4); }},
      {"grad of linear.1.weight", true, [&](const Call& c) { return past(c.grads[0], width * width * 4); }},
      {"grad of linear.1.bias", true, [&](const Call& c) { return past(c.grads[1], 64 * 4); }},
  };
  for (const Case& one : cases) {
    for (int stage : {1, 3}) {
      for (bool serialize : {false, true}) {
        bool enabled = false;
        const models::Model model = wrap(make_toy(3, width, 16, 5, false, false),
                                         {{}, [&](const models::Block& block, const Call& call, bool backward) {
                                            if (!enabled || block.name() != "linear.1" || backward != one.backward)
                                              return;
                                            core::fill_bytes(one.end(call), 1, 1);
                                          }});
        Setting s;
        s.unit_elements = 1, s.stage = stage, s.serialize = serialize, s.steps = 1;
        CHECK(program_error([&] { run(model, s); }).empty());
        enabled = true;
        const std::string error = program_error([&] { run(model, s); });
        INFO(one.buffer << ": " << error);
        CHECK(has(error, one.buffer));
        CHECK(has(error, one.backward ? "'backward linear.1'" : "'forward linear.1'"));
        CHECK(has(error, "past the end"));
      }
    }
  }
}

TEST_CASE("a buffer that is overrun later than in the first step is found at once, on a GPU in the 65th step") {
  const bool gpu = test::test_device() == core::DeviceKind::cuda;
  for (const int steps : {64, 65}) {
    int calls = 0;
    const models::Model model = wrap(make_toy(2, 16, 16, 5, false, false),
                                     {{}, [&](const models::Block& block, const Call& call, bool backward) {
                                        if (block.name() != "linear.1" || backward || ++calls < 2) return;
                                        core::fill_bytes(static_cast<std::byte*>(call.output) + 640, 1, 1);
                                      }});
    Setting s;
    s.steps = steps;
    const std::string error = program_error([&] { run(model, s); });
    INFO(steps << " steps: " << error);
    CHECK(has(error, "past the end of buffer 'output of linear.1'") == (!gpu || steps == 65));
  }
}

namespace {

Setting fault_setting(int which) {
  Setting s;
  s.ranks = 2, s.steps = 2, s.unit_elements = 100, s.bucket = 200;
  if (which == 0) s.stage = 3, s.accumulation = 3, s.overlap = true;
  if (which == 1) s.stage = 2, s.accumulation = 4, s.reduce_every = 2;
  if (which == 2) s.stage = 0, s.accumulation = 4, s.reduce_every = 4;
  if (which == 3) s.stage = 3;
  s.serialize = true;
  return s;
}

// "" when a run without the verifier gives the results of a good program, else what shows that it did not.
std::string symptom(const models::Model& model, const Setting& s, const runtime::Sabotage& sabotage,
                    const Outcome& good) {
  try {
    const Outcome outcome = run(model, s, sabotage, false);
    return outcome.state == good.state ? "" : "another hash";
  } catch (const core::Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a life planned too short is rejected by the verifier, and shows in the results of an unverified run") {
  const models::Model model = make_toy(4, 12, 17, 5, false, false);
  const std::vector<std::set<std::string>> shown{
      {"saved of linear.1", "output of embed", "output of linear.2", "gradient of output of linear.1",
       "gathered linear.2.weight for forward linear.2", "local grad of head.weight", "targets"},
      {"saved of linear.2", "saved of embed", "output of embed", "gradient of output of linear.0", "tokens"},
      {"saved of linear.3", "output of linear.1", "gradient of output of linear.2", "tokens", "targets"},
      {"saved of embed", "output of linear.3", "gathered head.weight for forward head", "targets"},
  };
  for (int which = 0; which < 4; ++which) {
    const Setting s = fault_setting(which);
    const runtime::Layout layout = make_layout(model, s);
    const Outcome good = run(model, s);
    const runtime::Compiled compiled = runtime::compile(layout, phases_of(s));
    std::set<std::string> names;
    size_t rejected = 0;
    for (const runtime::Buffer& buffer : compiled.set.buffers) {
      if (buffer.life != runtime::Life::transient || !names.insert(buffer.name).second) continue;
      const runtime::Sabotage sabotage{buffer.name};
      const std::string error = program_error([&] { runtime::compile(layout, phases_of(s), sabotage); });
      INFO("setting " << which << ", " << buffer.name << ": " << error);
      rejected += !error.empty();
      if (shown[static_cast<size_t>(which)].count(buffer.name) != 0) CHECK(has(error, "is not safe: '"));
      if (poisons) continue;
      const std::string seen = symptom(model, s, sabotage, good);
      // Two buffers of one op show where its kernel writes before it has read: a GPU's products may not.
      const bool in_one_op = test::test_device() == core::DeviceKind::cuda &&
                             (buffer.name == "gradient of output of linear.1" || buffer.name == "output of linear.3");
      if (!in_one_op && shown[static_cast<size_t>(which)].count(buffer.name) != 0) CHECK_FALSE(seen.empty());
      // Programs that the verifier lets pass have not been broken.
      if (error.empty()) CHECK(seen == "");
    }
    CHECK(rejected > names.size() / 4);
    for (const std::string& name : shown[static_cast<size_t>(which)]) CHECK(names.count(name) == 1);
  }
}

}  // namespace zrt::memory_faults_test
