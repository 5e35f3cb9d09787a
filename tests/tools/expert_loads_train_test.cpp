// `zrt train` of a model with experts writes what came to each of them, and `zrt report` draws it.
#include "program.h"

namespace zrt::expert_loads_train_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

void require(const Result& result) {
  INFO(result.text);
  REQUIRE(result.code == 0);
}

struct ExpertRun : Folder {
  ExpertRun() : Folder("expert_loads_train") {
    build_data(*this);
    write("c.json", R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
  "model": {"preset": "gpt2-tiny", "layers": 4, "tied": false,
            "experts": {"number": 4, "top_k": 2, "capacity_factor": 1, "every": 2}},
  "data": {"train": ")" +
                        (*this / "corpus/train") +
                        R"("}, "run": {"steps": 5, "log_interval": 2, "checkpoint_interval": 3}})");
  }
  std::vector<json> train(const std::string& out, const std::string& more, const char* command = "train ") const {
    require(run_zrt(command + (*this / "c.json") + " --out " + (*this / out) + " " + more));
    return lines(out + "/expert_loads.jsonl");
  }
  std::vector<json> lines(const std::string& file) const {
    std::vector<json> all;
    std::ifstream in(*this / file);
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }
};

uint64_t sum_of(const json& lists) {
  uint64_t sum = 0;
  for (const json& list : lists) {
    for (const json& count : list) sum += count.get<uint64_t>();
  }
  return sum;
}

}  // namespace

TEST_CASE("Logged steps of a run have the loads of all experts, as threads, processes, stages and resumed runs count") {
  const ExpertRun run;
  const std::vector<json> one = run.train("one", "--ranks 2");
  REQUIRE(one.size() == 4);
  const std::vector<json> metrics = run.lines("one/metrics.jsonl");
  const int64_t numbers[] = {1, 2, 4, 5};
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i]["step"] == numbers[i]);
    CHECK(one[i]["layers"] == json{1, 3});
    const json& step = metrics.at(static_cast<size_t>(numbers[i] - 1));
    CHECK(sum_of(one[i]["picked"]) == 2 * 2 * step["tokens"].get<uint64_t>());
    CHECK(sum_of(one[i]["dropped"]) == step["dropped_choices"].get<uint64_t>());
    CHECK(sum_of(one[i]["dropped"]) > 0);
  }
  CHECK(run.train("processes", "--ranks 2", "launch --processes ") == one);
  CHECK(run.train("stages", "--ranks 4 --set parallel.pipeline=2") == one);
  // A life that is resumed drops what is beyond its checkpoint.
  fs::remove_all(run.path / "one/checkpoints/step_5");
  CHECK(run.train("one", "--ranks 2 --resume " + (run / "one/checkpoints/step_3")) == one);

  const Result report = run_zrt("report " + (run / "one"));
  require(report);
  CHECK(report.text.find("experts over steps 1 to 5: between ") != std::string::npos);
  std::ifstream in(run / "one/report.html");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  CHECK(page.find("Load of each expert (1: even) in 4 logged steps, 1 to 5") != std::string::npos);

  CHECK(run.train("silent", "--ranks 2 --set run.log_interval=0").empty());
  CHECK(std::filesystem::exists(run / "silent/expert_loads.jsonl"));
  fs::remove_all(run.path / "one/checkpoints");
  run.train("one", "--set model.experts=null --set run.checkpoint_interval=0");
  CHECK_FALSE(std::filesystem::exists(run / "one/expert_loads.jsonl"));
}

}  // namespace zrt::expert_loads_train_test
