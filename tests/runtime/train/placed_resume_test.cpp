// Checkpoints of runs whose states are resident in the host tier or in the NVMe tier.
#include <map>

#include "catch.h"
#include "optimizer/optimizer.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::placed_resume_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

Setting setting(unsigned number, int ranks, int stage) {
  Setting s;
  s.ranks = ranks, s.stage = stage;
  s.compute = number % 3 == 0 ? core::DType::f32 : core::DType::bf16;
  s.micro_batch = 1;
  s.accumulation = static_cast<uint32_t>(12 / ranks);
  s.unit_elements = number % 2 ? 300 : 100000;  // several units, with shards that end in mid row, or one per block
  s.overlap = number % 2;
  if (number % 5 == 3) s.optimizer = make_optimizer(optimizer::AdafactorParams{});
  return s;
}

// Sums that Adafactor's ranks share are the device's.
void place(Setting& s, const NamedPlacing& placing) {
  s.placement = [place = placing.place](const runtime::Layout& layout) {
    runtime::Placement placement = place(layout);
    if (!layout.optimizer->shares_sums()) return placement;
    for (runtime::UnitTiers& tiers : placement.units) tiers.update = core::Tier::device;
    return placement;
  };
}

// Every tensor of a checkpoint.
std::map<std::string, std::vector<float>> contents(const std::filesystem::path& checkpoint) {
  const runtime::checkpoint::Reader reader(checkpoint, true);
  std::map<std::string, std::vector<float>> all;
  for (const runtime::checkpoint::TensorSet* set : {&reader.weights(), reader.states()}) {
    for (const std::string& name : set->names()) {
      int64_t count = 1;
      for (int64_t size : set->shape(name)) count *= size;
      std::vector<float>& values = all[name];
      values.resize(static_cast<size_t>(count));
      reader.read(name, 0, values);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("A run saves the same bits and goes on to the same bits wherever its states are resident") {
  const models::Model model = make_toy(3, 12, 17, 5, false, false);
  const std::vector<NamedPlacing> all = placings();
  unsigned number = 0;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (size_t p = 0; p < all.size(); ++p, ++number) {
        if (!full_tests() && (number + static_cast<unsigned>(ranks)) % 4 != 0) continue;
        const Setting plain = setting(number, ranks, stage);
        const bool background = number / 4 % 2;
        INFO(all[p].name << ", ranks " << ranks << ", stage " << stage << ", background " << background << ", number "
                         << number);
        const TemporaryFolder folder;
        SavingRun reference(model, plain, folder.path / "reference", false);
        reference.steps(2);
        reference.save();
        REQUIRE(reference.saved().error.empty());
        const std::string saved = reference.hash();
        reference.steps(2);

        Setting placed = plain;
        place(placed, all[p]);
        SavingRun run(model, placed, folder.path / "placed", background);
        run.steps(2);
        run.save();
        run.steps(2);  // beside the save, if it has copies
        REQUIRE(run.saved().error.empty());
        CHECK(run.hash() == reference.hash());
        CHECK(run.as_planned());
        CHECK(contents(folder.path / "placed/step_2") == contents(folder.path / "reference/step_2"));

        const runtime::checkpoint::Reader reader(folder.path / "placed/step_2", true);
        Setting other = plain;
        place(other, all[(p + 1 + number % (all.size() - 1)) % all.size()]);
        SavingRun again(model, other, folder.path / "again", false, &reader);
        CHECK(again.hash() == saved);
        again.steps(2);
        CHECK(again.hash() == reference.hash());

        Setting elsewhere = setting(number, 1 + (ranks + 1) % 4, 3 - stage);
        place(elsewhere, all[(p + 5) % all.size()]);
        SavingRun moved(model, elsewhere, folder.path / "elsewhere", false, &reader);
        CHECK(moved.hash() == saved);
      }
    }
  }
}

}  // namespace zrt::placed_resume_test
