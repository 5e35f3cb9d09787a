// Compares what each pass makes of two small steps, as text, with data/programs: a pass that does anything else shows
// there. ZRT_WRITE_GOLDENS=1 writes them anew; read the difference before you commit it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "catch.h"
#include "core/error.h"
#include "runtime/passes/compile.h"
#include "runtime/passes/pass.h"
#include "runtime/plan/text.h"
#include "tests/data_folder.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::pass_texts_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

// A line for each buffer that is not as it was.
std::string changed_buffers(const std::vector<runtime::Buffer>& buffers, std::vector<std::string>& lines) {
  std::string text;
  for (size_t b = 0; b < buffers.size(); ++b) {
    const runtime::Buffer& buffer = buffers[b];
    constexpr std::array lives{"transient", "reserved", "carried"};
    const std::string line =
        fmt::format("  {:<6} {:>10} B × {} at {:<8} {:<9} {}\n", core::tier_names[static_cast<size_t>(buffer.tier)],
                    buffer.bytes, buffer.slots, buffer.offset, lives[static_cast<size_t>(buffer.life)], buffer.name);
    if (b == lines.size()) lines.emplace_back();
    if (lines[b] == line) continue;
    text += lines[b] = line;
  }
  return text.empty() ? text : "buffers\n" + text;
}

// The text that a pass has left: of the programs alone, and with the buffers that it changed.
struct Left {
  std::string programs, text;
  bool buffers = false;
};

// Returns what each pass has left, by its name.
std::map<std::string, Left> texts(const Setting& s, const std::vector<std::string>& phases) {
  const models::Model model = make_toy(2, 12, 17, 5, false, false);
  const runtime::Layout layout = make_layout(model, s);
  std::map<std::string, Left> all;
  std::vector<std::string> buffers;
  const auto after = [&](const std::string& pass, const runtime::ProgramSet& set, const runtime::Program& program) {
    Left& left = all[pass];
    const std::string text = runtime::program_text(set, program), changed = changed_buffers(set.buffers, buffers);
    left.programs += text, left.text += text + changed;
    left.buffers = left.buffers || !changed.empty();
  };
  runtime::compile(layout, phases, {}, true, after);
  return all;
}

// Stage 3 on two ranks with five microbatches, gathers ahead.
Setting sharded() {
  Setting s;
  s.ranks = 2, s.stage = 3, s.accumulation = 5, s.compute = core::DType::bf16, s.overlap = true;
  return s;
}

// Stage 2, with the optimizer on the host and activations there, too.
Setting offloaded() {
  Setting s;
  s.ranks = 2, s.stage = 2, s.compute = core::DType::bf16;
  s.placement = [](const runtime::Layout& layout) {
    using core::Tier;
    return uniform(layout, Tier::device, Tier::device, Tier::host, Tier::host, Tier::host, Tier::host);
  };
  return s;
}

// Stage 3, block by block, updates as soon as gradients are complete, of states on the NVMe tier; some elements ahead,
// and forwards again.
Setting early() {
  Setting s = sharded();
  s.accumulation = s.reduce_every = 2;
  s.early_updates = true, s.clip = 0, s.prefetch = 300, s.order = runtime::MicrobatchOrder::layer_major;
  s.recompute = {runtime::Recompute::none, runtime::Recompute::full};
  s.placement = [](const runtime::Layout& layout) {
    using core::Tier;
    return uniform(layout, Tier::device, Tier::device, Tier::nvme, Tier::nvme, Tier::device, Tier::host);
  };
  return s;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("each pass makes of a program what its golden text says") {
  const std::filesystem::path folder = std::filesystem::path(test::data_folder()) / "programs";
  std::set<std::string> made, kept;
  for (const auto& [name, setting, phases] :
       {std::tuple{"sharded", sharded(), std::vector<std::string>{"step"}},
        {"offloaded", offloaded(), std::vector<std::string>{"init", "step", "export", "save"}},
        {"early", early(), std::vector<std::string>{"load", "step", "eval"}},
        {"decoded", sharded(), std::vector<std::string>{"load", "decode"}}}) {
    std::string before;
    const auto found = texts(setting, phases);
    for (const runtime::PassSpec& pass : runtime::passes()) {
      const auto text = found.find(pass.name);
      if (text == found.end()) continue;
      // A pass that leaves programs and buffers as they were shows nothing.
      const Left& left = text->second;
      if (left.programs == before && !left.buffers) continue;
      before = left.programs;
      std::string file = std::string(name) + "." + pass.name + ".txt";
      std::replace(file.begin(), file.end(), ' ', '_');
      const std::filesystem::path golden = folder / file;
      if (std::getenv("ZRT_WRITE_GOLDENS")) {
        std::filesystem::create_directories(folder);
        std::ofstream(golden) << left.text;
      }
      INFO(golden.string()
           << "; build/release/test_runtime '[#pass_texts_test]' with ZRT_WRITE_GOLDENS=1 writes it anew");
      CHECK(left.text == read(golden));
      made.insert(golden.filename());
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) kept.insert(entry.path().filename());
  CHECK(made == kept);
}

TEST_CASE("docs/program.md reads lines that the golden text has") {
  std::istringstream page(read(std::filesystem::path(ZRT_SOURCE_DIR) / "docs/program.md"));
  std::istringstream golden(read(std::filesystem::path(test::data_folder()) / "programs/sharded.waits.txt"));
  std::set<std::string> lines;
  for (std::string line; std::getline(golden, line);) lines.insert(line);
  size_t found = 0;
  bool quoted = false, begun = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      quoted = !quoted;
    } else if (!quoted) {
      begun = begun || line.find("tests/data/programs/sharded.waits.txt") != std::string::npos;
    } else if (begun) {
      INFO(line);
      CHECK(lines.count(line) == 1);
      ++found;
    }
  }
  CHECK(found > 5);
}

TEST_CASE("a pass is registered once, behind one that there is") {
  const auto never = [](const runtime::Layout&) { return false; };
  const auto make = [](runtime::Compilation&) { return std::make_unique<runtime::Pass>(); };
  try {
    runtime::register_pass({"mine", never, make}, "nothing");
    FAIL("it was taken");
  } catch (const core::ConfigError& error) {
    CHECK(std::string(error.what()).find("schedule, phases, zero") != std::string::npos);
  }
  CHECK_THROWS_AS(runtime::register_pass({"zero", never, make}, "state"), core::ConfigError);
  const size_t count = runtime::passes().size();
  runtime::register_pass({"a test's", never, make}, "zero");
  REQUIRE(runtime::passes().size() == count + 1);
  for (size_t i = 1; i <= count; ++i) {
    if (runtime::passes()[i].name == "a test's") CHECK(runtime::passes()[i - 1].name == "zero");
  }
}

}  // namespace zrt::pass_texts_test
