#include "comm/nccl/staging.h"

#include <fmt/format.h>

#include <string>
#include <tuple>

#include "catch.h"
#include "runtime/config/config.h"
#include "runtime/ops/spec.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/setup.h"

namespace zrt::staging_test {

using namespace zrt::runtime;

namespace {

bool communicates_in(const ProgramSet& set, GroupId group) {
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) {
      if (op.group == group && spec(op.kind).communicates()) return true;
    }
  }
  return false;
}

// Some pair of ranks is in one group and not in one run of `reach` ranks.
bool leaves(const Group& group, int world, int reach) {
  for (int a = 0; a < world; ++a) {
    for (int b = 0; b < a; ++b) {
      if (group.ranks.together(a, b) && a / reach != b / reach) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("a group has 1 MiB of staging for each other rank, and at most 64 MiB in parts of 16 bytes") {
  CHECK(comm::nccl_staging_bytes(1) == 0);
  CHECK(comm::nccl_staging_bytes(2) == 1 << 20);
  CHECK(comm::nccl_staging_bytes(65) == 64 << 20);
  for (const int ranks : {66, 100, 1024, 3072, 100000}) {
    const uint64_t bytes = comm::nccl_staging_bytes(ranks), others = static_cast<uint64_t>(ranks) - 1;
    CAPTURE(ranks, bytes);
    CHECK(bytes <= 64 << 20);
    CHECK(bytes > (64 << 20) - 16 * others);
    CHECK(bytes % (16 * others) == 0);
  }
}

TEST_CASE("the plan holds the staging of the groups that reach beyond each other's memory, and of no other") {
  for (const auto& [ranks, tensor, stages] : {std::tuple{4, 1, 1}, {6, 2, 1}, {6, 1, 3}, {8, 2, 2}}) {
    const std::string text = R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3}, "model": {"preset": "gpt2-tiny", "heads": 4, "layers": 4, "vocab": 256},
        "data": {"train": "nowhere"}, "parallel": )" +
                             fmt::format(R"({{"tensor": {}, "pipeline": {}}}}})", tensor, stages);
    const Config config = parse_config(text, "test", {}, ranks);
    for (Layout layout : make_layouts(config, config.model.make())) {
      const Compiled plain = compile(layout, {"init", "step", "export"});
      for (int reach = 0; reach <= layout.mesh.world() + 1; ++reach) {
        layout.ranks_in_reach = reach;
        const Compiled compiled = compile(layout, {"init", "step", "export"});
        CAPTURE(ranks, tensor, stages, layout.stage.index, reach);
        uint64_t added = 0;
        for (GroupId g = 0; g < compiled.set.groups.size(); ++g) {
          const Group& group = compiled.set.groups[g];
          CAPTURE(group.name);
          const bool wanted =
              reach > 0 && communicates_in(compiled.set, g) && leaves(group, layout.mesh.world(), reach);
          REQUIRE((group.staging != no_buffer) == wanted);
          if (!wanted) continue;
          const Buffer& buffer = compiled.set.buffers[group.staging];
          CHECK(buffer.bytes == static_cast<uint64_t>(group.ranks.size - 1) << 20);
          CHECK(buffer.category == core::Category::comm);
          CHECK(buffer.offset % 16 == 0);
          added += buffer.bytes;
        }
        const TierPlan &before = plain.plan.device(), &after = compiled.plan.device();
        constexpr auto comm = static_cast<size_t>(core::Category::comm);
        CHECK(after.live_peak_bytes == before.live_peak_bytes + added);
        CHECK(after.categories[comm] == before.categories[comm] + added);
        CHECK(after.peak_bytes >= before.live_peak_bytes + added);
        CHECK((after.peak_bytes == before.peak_bytes) == (added == 0));
        CHECK((compiled.set.xxh3() == plain.set.xxh3()) == (added == 0));
      }
    }
  }
}

}  // namespace zrt::staging_test
