// The program at the machine's own level of instruction sets and at the lowest one.
#include <cmath>

#include "core/isa.h"
#include "program.h"

namespace zrt::levels_test {

using namespace zrt::testing;
using zrt::core::isa_name;

namespace {

// zrt with ZRT_MAX_ISA, or without it where `cap` is "".
Result run_at(const std::string& cap, const std::string& arguments) {
  const std::string level = cap.empty() ? "env -u ZRT_MAX_ISA " : "env ZRT_MAX_ISA=" + cap + " ";
  return run_command(level + ZRT_BINARY_DIR + "/zrt " + arguments);
}

double first_loss(const std::string& run) {
  std::ifstream metrics(run + "/metrics.jsonl");
  std::string line;
  std::getline(metrics, line);
  return nlohmann::json::parse(line)["loss"];
}

}  // namespace

TEST_CASE("GPT-2 and Llama train in bf16, fp16 and fp32 at the machine's own level and at the lowest") {
  const Folder folder("levels");
  build_data(folder);
  folder.write("good.json", folder.config());
  const std::string lowest(zrt::core::isa_names[0]);
  for (const std::string& cap : {std::string(), lowest}) {
    for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
      for (const char* type : {"bf16", "fp16", "fp32"}) {
        const std::string kind = std::string(type) == "fp32" ? "" : " --set " + std::string(type) + ".enabled=true";
        const std::string scale = std::string(type) == "fp16" ? " --set fp16.initial_scale_power=10" : "";
        const Result trained =
            run_at(cap, "train " + (folder / "good.json") + " --ranks 2 --steps 10 --set " + "model.preset=" + preset +
                            kind + scale + " --set run.save_weights=false");
        INFO(cap << ' ' << preset << ' ' << type << '\n' << trained.text);
        REQUIRE(trained.code == 0);
        const auto summary = read_json(folder / "run/summary.json");
        CHECK(summary["final_loss"].get<double>() < 0.9 * first_loss(folder / "run"));
        CHECK(summary["isa"] == (cap.empty() ? isa_name(zrt::core::detected_isa()) : lowest));
        CHECK(summary.contains("max_isa") == !cap.empty());
        fs::remove_all(folder.path / "run");
      }
    }
  }
}

TEST_CASE(
    "A name that is no level is refused with those that are, and a cap above the machine's level changes nothing") {
  for (const char* wrong : {"avx", "AVX2", "sse4"}) {
    const Result result = run_at(wrong, "--version");
    INFO(result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find("ZRT_MAX_ISA is '" + std::string(wrong) + "'") != std::string::npos);
    for (const std::string_view name : zrt::core::isa_names) CHECK(result.text.find(name) != std::string::npos);
  }
  const std::string own(isa_name(zrt::core::detected_isa())), highest(zrt::core::isa_names.back());
  CHECK(run_at("", "--version").text.find("instruction set: " + own + "\n") != std::string::npos);
  CHECK(run_at(highest, "--version").text.find("instruction set: " + own + " ") != std::string::npos);
}

TEST_CASE("A run that goes on at another level is told that its bits are others") {
  if (zrt::core::detected_isa() == zrt::core::Isa::avx2) {
    WARN("skipped: this machine has the lowest level only");
    return;
  }
  const Folder folder("other_level");
  build_data(folder);
  folder.write("good.json", folder.config());
  const std::string train = "train " + (folder / "good.json") + " --ranks 2 ";
  REQUIRE(run_at("", train + "--steps 2").code == 0);
  const Result other = run_at("avx2", train + "--steps 4 --resume auto"),
               same = run_at("avx2", train + "--steps 6 --resume auto");
  INFO(other.text << same.text);
  REQUIRE(other.code == 0);
  REQUIRE(same.code == 0);
  CHECK(other.text.find("computes at the level avx2 but the checkpoint was made at \"") != std::string::npos);
  CHECK(same.text.find("computes at the level") == std::string::npos);
}

}  // namespace zrt::levels_test
