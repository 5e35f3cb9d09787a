// Settings by pairs, in every way in which GPUs exchange: threads with a GPU each, processes that read each other's
// memory, two hosts, and NCCL alone. One row in every run; all of them with ZRT_FULL_TESTS:
//
//   ZRT_FULL_TESTS=1 build/emulated/test_processes -# "[#covering_test]"
#include <algorithm>
#include <array>

#include "covering_set.h"
#include "run_of_processes.h"
#include "tests/seed.h"

namespace zrt::covering_test {
namespace {

using namespace testing;

struct Mesh {
  int ranks, tensor, pipeline;
  int data() const { return ranks / tensor / pipeline; }
};
constexpr std::array meshes{Mesh{2, 1, 1}, Mesh{2, 2, 1}, Mesh{2, 1, 2}, Mesh{4, 1, 1}, Mesh{4, 2, 1},
                            Mesh{4, 1, 2}, Mesh{4, 2, 2}, Mesh{4, 4, 1}, Mesh{8, 1, 1}, Mesh{8, 2, 1},
                            Mesh{8, 4, 1}, Mesh{8, 1, 2}, Mesh{8, 2, 2}, Mesh{8, 4, 2}, Mesh{8, 1, 4}};

enum Dimension : size_t { mesh, schedule, stage, placement, type, rule, recompute, overlap, model, sequence, groups };

// Settings by dimension and value; the meshes have theirs above.
const std::vector<std::vector<std::string>>& settings() {
  static const std::vector<std::vector<std::string>> all{
      std::vector<std::string>(meshes.size()),
      {"parallel.schedule=1f1b", "parallel.schedule=gpipe", "parallel.schedule=interleaved parallel.virtual_pipeline=2",
       "parallel.schedule=zb-h1"},
      {"zero_optimization.stage=0", "zero_optimization.stage=1", "zero_optimization.stage=2",
       "zero_optimization.stage=3"},
      {"memory.placement=device", "memory.placement=host", "memory.placement=nvme"},
      {"", "bf16.enabled=true", "fp16.enabled=true"},
      {"optimizer.type=AdamW", "optimizer.type=AdamW memory.moments=int8", "optimizer.type=SGD", "optimizer.type=Lion",
       "optimizer.type=Adafactor optimizer.params.relative_step=false", "optimizer.type=Muon"},
      {"memory.recompute=none", "memory.recompute=selective", "memory.recompute=full"},
      {"zero_optimization.overlap_comm=false", "zero_optimization.overlap_comm=true"},
      {"model.preset=gpt2-tiny model.heads=4", "model.preset=llama-tiny model.kv_heads=4",
       "model.preset=qwen3-tiny model.kv_heads=4"},
      {"", "parallel.sequence=true"},
      {"", "zero_optimization.zero_hpz_partition_size=2", "zero_optimization.mics_shard_size=2"}};
  return all;
}

bool legal(const CoveringRow& row) {
  const Mesh& at = meshes[row[mesh]];
  const bool grouped = row[groups] != 0;
  return (at.pipeline > 1 || row[schedule] == 0)                // without stages there is no schedule
         && (at.tensor > 1 || row[sequence] == 0)               // tensor-parallel ranks share tokens
         && (!grouped || (at.data() >= 4 && row[stage] == 3));  // groups divide what stage 3 divides
}

std::string sets_of_row(const CoveringRow& row) {
  std::string words =
      fmt::format("parallel.tensor={} parallel.pipeline={}", meshes[row[mesh]].tensor, meshes[row[mesh]].pipeline);
  for (size_t d = 1; d < row.size(); ++d) words += " " + settings()[d][row[d]];
  return sets_of(words);
}

// Trains into the folder `name`, checks that as much memory is used as was planned, and returns what the run was.
nlohmann::json trained(const Prepared& folder, const std::string& name, const std::string& command,
                       const std::string& sets) {
  const Result result = run_command(command + " " + folder.run(name, sets));
  INFO(command << "\n" << result.text);
  CHECK(result.code == 0);
  if (result.code != 0) return {{"state_xxh3", "none of " + name}, {"comm_bytes", 0}};
  check_measured_memory(folder / name);
  const auto summary = read_json(folder / (name + "/summary.json"));
  fs::remove_all(folder / name);
  return summary;
}

}  // namespace

TEST_CASE("every pair of settings has in every way of exchanging the bits of threads on one GPU") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("covering");
  fs::create_directories(folder.path / "nvme");
  std::vector<size_t> values;
  for (const auto& dimension : settings()) values.push_back(dimension.size());
  const bool all = std::getenv("ZRT_FULL_TESTS") != nullptr;
  std::mt19937 draw(all ? test::test_seed() : 1);
  std::vector<CoveringRow> rows = covering_rows(values, draw, legal);
  std::shuffle(rows.begin(), rows.end(), draw);
  if (!all) rows.resize(1);
  const std::string zrt = std::string(ZRT_BINARY_DIR) + "/zrt";
  for (size_t i = 0; i < rows.size(); ++i) {
    const int ranks = meshes[rows[i][mesh]].ranks;
    const std::string sets = fmt::format(
        "{} --set model.layers={} --set train_batch_size=16 --set memory.nvme_path={} "
        "--set model.sequence=16 --set data.validation=null --set run.share_gpu=true",
        sets_of_row(rows[i]), meshes[rows[i][mesh]].pipeline == 4 ? 8 : 4, folder / "nvme");
    CAPTURE(test::test_seed(), i, rows.size(), ranks, sets);
    const std::string some = fmt::format(" --ranks {}{}", ranks, sets);
    const auto expected = trained(folder, "one", "ZRT_EMULATED_GPUS=1 " + zrt, some);
    const auto same = [&](const std::string& command, const std::string& more) {
      const auto found = trained(folder, "run", command, more);
      INFO(command << " " << more);
      CHECK(found["state_xxh3"] == expected["state_xxh3"]);
      CHECK(found["comm_bytes"] == expected["comm_bytes"]);
    };
    same(zrt, some);
    same(fmt::format("{} ranks {}", zrt, ranks), sets);
    same(fmt::format("{} ranks {}", zrt, two_hosts(folder, ranks / 2)), sets);
    same(fmt::format("{} ranks {}", zrt, ranks), sets + " --transport nccl");
  }
}

}  // namespace zrt::covering_test
