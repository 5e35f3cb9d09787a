// The length of a run by run.epochs, run.tokens and run.samples.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/data/indexed_dataset_writer.h"
#include "tests/runtime/config/config_helpers.h"
#include "tests/temporary_folder.h"

namespace zrt::config_length_test {

using namespace zrt::runtime;
using nlohmann::json;

namespace {

// Batches of 8 samples of 16 tokens.
Config configured(const std::string& run, const Settings& sets = {}, int ranks = 2, const std::string& train = "x") {
  return parse_config(R"({"train_batch_size": 8, "scheduler": {"type": "linear"}, "model": {"preset": "gpt2-tiny",
    "sequence": 16}, "data": {"train": ")" +
                          train + R"("}, "run": {)" + run + "}}",
                      "run.json", sets, ranks);
}

json resolved(const Config& config, const char* key) {
  return json::parse(resolved_json(config))["run"][key];
}

}  // namespace

TEST_CASE("tokens and samples become steps, rounded up, which schedules and the resolved configuration have") {
  const Config tokens = configured(R"("tokens": 1281)");
  CHECK(tokens.run.steps == 11);  // 81 samples
  CHECK(tokens.run.length == "run.tokens = 1281 in samples of 16: 11 steps of 8 samples, rounded up");
  CHECK(tokens.schedule.named.total == 11);
  CHECK(resolved(tokens, "steps") == json({{"value", 11}, {"from", "inferred"}}));
  CHECK(resolved(tokens, "tokens") == json({{"value", 1281}, {"from", "file"}}));
  CHECK(configured(R"("tokens": 1280)").run.steps == 10);
  CHECK(configured(R"("samples": 8)").run.steps == 1);
  CHECK(configured(R"("samples": 9)").run.steps == 2);
  CHECK(configured(R"("steps": 7)").run.length.empty());
}

TEST_CASE("an epoch has the samples of all datasets, each once, and may be a part of one") {
  const testing::TemporaryFolder folder;
  const std::vector<int32_t> text(161, 5);  // 10 whole samples and one token to name
  for (const char* name : {"a", "b"}) {
    data::IndexedDatasetWriter writer((folder.path / name).string(), 256);
    for (int copies = *name == 'b' ? 2 : 1; copies > 0; --copies) {  // b: 20 samples
      writer.append(text);
      writer.end_document();
    }
    writer.seal();
    writer.publish();
  }
  const std::string a = (folder.path / "a").string(), b = (folder.path / "b").string();
  CHECK(configured(R"("epochs": 1)", {}, 2, a).run.steps == 2);
  CHECK(configured(R"("epochs": 1)", {}, 2, a).run.length ==
        "run.epochs = 1.0 of 10 samples: 2 steps of 8 samples, rounded up");
  CHECK(configured(R"("epochs": 0.5)", {}, 2, a).run.steps == 1);
  CHECK(configured(R"("epochs": 2.5)", {}, 2, a).run.steps == 4);  // 25 samples
  const Config both = configured(R"("epochs": 2)", {"data.train=[[0.9, \"" + a + "\"], [0.1, \"" + b + "\"]]"});
  CHECK(both.run.steps == 8);                                                    // 60 samples
  CHECK(configured(R"("epochs": 1)", {"data.split=0.5"}, 2, b).run.steps == 2);  // one document of two
  // The number that is settled stays, whatever has become of the data.
  std::filesystem::remove(b + ".idx");
  CHECK(data_parallel(both, 1).run.steps == 8);
  CHECK(data_parallel(both, 4).run.steps == 8);
  const std::string missing = error_of([&] { configured(R"("epochs": 2)", {}, 2, b); });
  CHECK(has(missing, "run.epochs"));
  CHECK(has(missing, "give run.steps, run.tokens or run.samples"));
  CHECK(has(error_of([] { configured(R"("epochs": 0)"); }), "must be above 0"));
}

TEST_CASE("two lengths are refused, and the command line overrides a file") {
  const std::string both = error_of([] { configured(R"("steps": 5, "tokens": 99)"); });
  CHECK(has(both, "run.tokens = 99"));
  CHECK(has(both, "run.steps = 5"));
  CHECK(has(error_of([] { configured(R"("samples": 5, "tokens": 99)"); }), "both say how long"));
  const Config tokens = configured(R"("steps": 5)", {"run.tokens=256"});
  CHECK(tokens.run.steps == 2);
  CHECK(has(tokens.warnings.back(), "run.steps = 5"));
  const Config steps = configured(R"("tokens": 256)", {"run.steps=5"});
  CHECK(steps.run.steps == 5);
  CHECK(resolved(steps, "tokens") == json({{"value", nullptr}, {"from", "inferred"}}));
  CHECK(configured(R"("tokens": 256)", {"run.samples=30"}).run.steps == 4);
  CHECK(configured(R"("tokens": 256)", {"run.tokens=null"}).run.steps == 1000);
}

}  // namespace zrt::config_length_test
