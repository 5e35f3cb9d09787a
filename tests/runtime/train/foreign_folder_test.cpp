// Anything that is no folder of weights that zrt reads is named for what it is.
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "core/error.h"
#include "core/file.h"
#include "runtime/config/config.h"
#include "runtime/config/json_reader.h"
#include "runtime/config/model_folder.h"
#include "runtime/train/checkpoint/hugging_face.h"
#include "tests/temporary_folder.h"

namespace zrt::foreign_folder_test {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using namespace zrt::runtime;

namespace {

void write(const fs::path& path, const std::string& text = "x") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("checkpoints of DeepSpeed and Megatron-LM are refused as what they are, with what makes a folder of them") {
  testing::TemporaryFolder folder;
  write(folder.path / "ds" / "latest", "global_step10");
  write(folder.path / "ds" / "global_step10" / "mp_rank_00_model_states.pt");
  write(folder.path / "meg" / "latest_checkpointed_iteration.txt", "100");
  for (const bool plan : {true, false}) {
    const auto error = [&](const char* name) {
      return error_of([&] {
        plan ? static_cast<void>(configuration::read_model_folder(folder.path / name))
             : static_cast<void>(checkpoint::open_hugging_face(folder.path / name, nullptr));
      });
    };
    CHECK_THAT(error("ds"), Contains("a checkpoint of DeepSpeed") && Contains("global_step10/mp_rank_00") &&
                                Contains("zero_to_fp32.py"));
    CHECK_THAT(error("meg"), Contains("a checkpoint of Megatron-LM") && Contains("folder of Hugging Face"));
    fs::create_directories(folder.path / "none");
    CHECK_THAT(error("none"), Contains("config.json") && !Contains("DeepSpeed"));
  }
}

TEST_CASE("a pointer of Git LFS is refused as one, whatever file it stands for") {
  testing::TemporaryFolder folder;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
  for (const char* name : {"run.json", "m/config.json"}) write(folder.path / name, pointer);
  CHECK_THAT(error_of([&] { configuration::read_config_file(folder.path / "run.json"); }), Contains("git lfs pull"));
  CHECK_THAT(error_of([&] { configuration::read_model_folder(folder.path / "m"); }), Contains("git lfs pull"));
  CHECK_THAT(error_of([&] { core::read_text(folder.path / "run.json", 1000); }), Contains("git lfs pull"));
  CHECK(core::read_bytes(folder.path / "run.json", 1000) == pointer);
}

TEST_CASE("a name of the Hub that is no folder is answered with how to get one") {
  const auto error = [](const char* name) { return error_of([&] { configuration::read_config_file(name); }); };
  CHECK_THAT(error("Qwen/Qwen3-8B"),
             Contains("no such file or folder") && Contains("huggingface-cli download Qwen/Qwen3-8B"));
  CHECK_THAT(error("nowhere/run.json"), Contains("no such file or folder; check the path") && !Contains("Hub"));
}

}  // namespace zrt::foreign_folder_test
