// The program beside PyTorch: the configurations of tests/data/pytorch_runs, from the weights that transformers wrote,
// step by step what make_pytorch_runs.py recorded.
#include <cmath>
#include <cstring>

#include "program.h"
#include "runtime/train/checkpoint/reader.h"
#include "tests/data_folder.h"
#include "tests/models/golden.h"

namespace zrt::pytorch_runs_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

const fs::path goldens = fs::path(zrt::test::data_folder()) / "pytorch_runs";
constexpr int steps = 30, stop = 16;  // of a run; the step whose checkpoint another run goes on from

// Relative distances allowed. In fp32 PyTorch computed in fp64; in the others both round every activation, each in its
// order.
struct Bounds {
  double loss, norm, change;
};
Bounds bounds_of(const std::string& type) {
  if (type == "fp32") return {1e-6, 1e-5, 1e-4};
  return type == "fp16" ? Bounds{3e-4, 4e-3, 2e-2} : Bounds{8e-4, 4e-3, 5e-2};
}

double distance(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

template <class Values>
double norm_of(const Values& values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares);
}

std::vector<float> read(const runtime::checkpoint::Reader& reader, const std::string& tensor) {
  int64_t count = 1;
  for (const int64_t extent : reader.weights().shape(tensor)) count *= extent;
  std::vector<float> values(static_cast<size_t>(count));
  reader.read(tensor, 0, values);
  return values;
}

// Checks what became of the weights: norm and two weighted sums of each tensor's change, as ways_of_change() of the
// script has them. A weight is rounded to fp32 by every step, which counts where rates are tiny.
void check_change(const json& golden, const fs::path& start, const fs::path& end, double bound) {
  const runtime::checkpoint::Reader before(start, false), after(end, false);
  size_t tensors = 0;
  for (const std::string& name : after.weights().names()) {
    INFO(name);
    const std::vector<float> from = read(before, name), to = read(after, name);
    std::vector<double> change(to.begin(), to.end());
    for (size_t i = 0; i < change.size(); ++i) change[i] -= from[i];
    if (name.ends_with("c_attn.bias")) {
      const auto third = static_cast<std::ptrdiff_t>(change.size() / 3);
      std::fill(change.begin() + third, change.begin() + 2 * third, 0);
    }
    const double norm = norm_of(change), allowed = bound * norm + steps * 0x1p-24 * norm_of(to);
    const auto& expected = golden.at(name);
    CHECK(std::abs(norm - expected[0].get<double>()) < allowed);
    for (size_t way = 0; way < 2; ++way) {
      const auto weights = zrt::test::recipe_numbers(name + "." + std::to_string(way), change.size());
      double sum = 0;
      for (size_t i = 0; i < change.size(); ++i) sum += change[i] * weights[i];
      CHECK(std::abs(sum - expected[way + 1].get<double>()) < allowed);
    }
    ++tensors;
  }
  CHECK(tensors == golden.size());
}

// Steps from `first` on are those of PyTorch.
void check_steps(const json& golden, const fs::path& run, size_t first, const Bounds& bounds) {
  std::ifstream lines(run / "metrics.jsonl");
  size_t step = first;
  for (std::string line; std::getline(lines, line); ++step) {
    const json ours = json::parse(line), &theirs = golden.at(step - 1);
    INFO(line << " beside " << theirs);
    REQUIRE(ours["step"] == step);
    CHECK(distance(ours["loss"], theirs["loss"]) < bounds.loss);
    REQUIRE(ours["grad_norm"].is_null() == theirs["grad_norm"].is_null());  // a skipped step
    if (!ours["grad_norm"].is_null()) CHECK(distance(ours["grad_norm"], theirs["grad_norm"]) < bounds.norm);
    const double rate = theirs["lr"];
    CHECK(std::abs(ours["lr"].get<double>() - rate) <= 1e-8 * rate);
    CHECK(ours["loss_scale"] == theirs["loss_scale"]);
  }
  CHECK(step == steps + 1);
}

struct Way {
  int ranks, stage;
};

}  // namespace

TEST_CASE("Runs of complete configurations are those of PyTorch, on other ranks and stages and resumed on others too") {
  const json all = read_json(goldens / "goldens.json").at("runs");
  CHECK(all.size() == 14);
  const Folder folder("pytorch_runs");
  for (const auto& [name, golden] : all.items()) {
    const Bounds bounds = bounds_of(golden["type"]);
    const fs::path start = folder.path / golden["hugging_face"].get<std::string>();
    if (!fs::exists(start)) {
      const fs::path from = goldens.parent_path() / "hugging_face" / start.filename();
      REQUIRE(run_zrt("checkpoint import " + from.string() + " --out " + start.string()).code == 0);
    }
    const auto train = [&](const Way& way, const fs::path& out, const std::string& more) {
      const Result result =
          run_command("cd " + goldens.string() + " && " ZRT_BINARY_DIR "/zrt train " + name + ".json --ranks " +
                      std::to_string(way.ranks) + " --set zero_optimization.stage=" + std::to_string(way.stage) +
                      " --set run.out=" + out.string() + " --set run.checkpoint_interval=" + std::to_string(stop) +
                      " --set run.resume=" + more);
      INFO(result.text);
      REQUIRE(result.code == 0);
    };
    for (const Way& way : {Way{1, 0}, Way{3, 0}, Way{1, 3}, Way{3, 3}}) {
      INFO(name << " on " << way.ranks << " ranks at stage " << way.stage);
      const fs::path out = folder.path / "run", again = folder.path / "again";
      train(way, out, start.string() + " --set run.load_module_only=true");
      check_steps(golden["steps"], out, 1, bounds);
      const std::string last = "checkpoints/step_" + std::to_string(steps);
      check_change(golden["change"], start / "checkpoints/step_0", out / last, bounds.change);
      const Way other{4 - way.ranks, 3 - way.stage};
      train(other, again, (out / "checkpoints/step_").string() + std::to_string(stop));
      INFO("from step " << stop << " on " << other.ranks << " ranks at stage " << other.stage);
      check_steps(golden["steps"], again, stop + 1, bounds);
      check_change(golden["change"], start / "checkpoints/step_0", again / last, bounds.change);
      fs::remove_all(out);
      fs::remove_all(again);
    }
  }
}

}  // namespace zrt::pytorch_runs_test
