// Folders of Hugging Face that lack something or hold something else: each is refused with what is wrong and where.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "catch.h"
#include "core/error.h"
#include "core/file.h"
#include "runtime/config/config.h"
#include "runtime/train/checkpoint/exchange.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/resume.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"

namespace zrt::hugging_face_errors_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
namespace fs = std::filesystem;

namespace {

// A copy of one of transformers' folders, to be damaged.
struct Copy {
  explicit Copy(const std::string& name) : path(folder.path / name) {
    fs::copy(fs::path(zrt::test::data_folder()) / "hugging_face" / name, path);
  }
  // What opening it and asking for every weight of its model says; "" for nothing.
  std::string error() const {
    try {
      const Reader reader = open_hugging_face(path);
      runtime::require_weights(reader, runtime::hugging_face_config(reader, {}).model.make());
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  }
  void change_json(const char* file, const std::function<void(Json&)>& change) const {
    Json json = Json::parse(core::read_text(path / file, 1 << 20));
    change(json);
    std::ofstream(path / file) << json.dump();
  }
  // Changes the header of a safetensors file; the data stay.
  void change_header(const char* file, const std::function<void(Json&)>& change) const {
    const std::string text = core::read_text(path / file, 1 << 20);
    uint64_t length = 0;
    std::memcpy(&length, text.data(), sizeof length);
    Json json = Json::parse(text.substr(8, length));
    change(json);
    const std::string header = json.dump();
    const uint64_t changed = header.size();
    std::ofstream(path / file, std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&changed), sizeof changed) << header << text.substr(8 + length);
  }

  testing::TemporaryFolder folder;
  fs::path path;
};

bool contains(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

void rename_key(Json& json, const char* from, const char* to) {
  json[to] = json.at(from);
  json.erase(from);
}

constexpr const char* query = "model.layers.0.self_attn.q_proj.weight";

}  // namespace

TEST_CASE("A folder without one of its files is refused with the name of what it lacks") {
  const Copy whole("llama"), tied("llama_tied");
  CHECK(whole.error().empty());
  CHECK(tied.error().empty());
  fs::remove(tied.path / "model.safetensors");
  contains(tied.error(), "holds neither model.safetensors nor model.safetensors.index.json");
  fs::remove(whole.path / "model-00002-of-00003.safetensors");
  contains(whole.error(), "lies in 'model-00002-of-00003.safetensors', which the folder does not hold");
  CHECK(is_hugging_face(whole.path));  // so that resuming it says what is missing, too
  fs::remove(whole.path / "config.json");
  contains(whole.error(), "has no config.json");
  CHECK(is_hugging_face(whole.path));
  fs::remove_all(whole.path);
  contains(whole.error(), "is no folder");
  CHECK(!is_hugging_face(whole.path));
}

TEST_CASE("A file that was cut is refused as truncated") {
  const Copy copy("llama");
  const fs::path file = copy.path / "model-00003-of-00003.safetensors";
  fs::resize_file(file, fs::file_size(file) - 4);
  contains(copy.error(), file.string());
  contains(copy.error(), "is truncated");
}

TEST_CASE("A tensor that is missing, has another shape or occurs twice is named") {
  const Copy missing("llama_tied");
  missing.change_header("model.safetensors", [](Json& json) { rename_key(json, query, "other"); });
  contains(missing.error(), fmt::format("needs tensor '{}' of shape [24, 24]; there is no such tensor", query));
  const Copy renamed("gpt2");
  renamed.change_header("model.safetensors",
                        [](Json& json) { rename_key(json, "transformer.ln_f.bias", "transformer.ln_f.shift"); });
  contains(renamed.error(), "needs tensor 'ln_f.bias' ('transformer.ln_f.bias' in the files)");
  const Copy flat("llama_tied");
  flat.change_header("model.safetensors", [](Json& json) { json[query]["shape"] = {576}; });
  contains(flat.error(), fmt::format("needs tensor '{}' of shape [24, 24]; it is [576]", query));
  const Copy twice("gpt2");
  twice.change_header("model.safetensors",
                      [](Json& json) { rename_key(json, "transformer.ln_f.weight", "ln_f.bias"); });
  contains(twice.error(), "'ln_f.bias' and 'transformer.ln_f.bias' are both the tensor 'ln_f.bias'");
}

TEST_CASE("A type that is no weight's is refused with the legal ones before anything is read") {
  const Copy copy("llama_tied");
  copy.change_header("model.safetensors", [](Json& json) { json[query]["dtype"] = "I32"; });
  contains(copy.error(), fmt::format("tensor '{}' has dtype I32; legal are F32, BF16, F16 and F64", query));
}

TEST_CASE("An index that leads out of its folder, or to tensors that no file holds, is refused") {
  const Copy copy("llama");
  for (const char* name : {"../x.safetensors", "/etc/passwd", ".", "a/b", ""}) {
    copy.change_json(index_name, [&](Json& json) { json["weight_map"].begin().value() = name; });
    contains(copy.error(), "no plain file name");
  }
  const Copy more("llama");
  more.change_json(index_name, [](Json& json) { json["weight_map"]["extra"] = "model-00001-of-00003.safetensors"; });
  contains(more.error(), "none of the files holds tensor 'extra'");
}

TEST_CASE("An import that fails on its way leaves nothing behind") {
  const Copy copy("llama_tied");
  const Reader reader = open_hugging_face(copy.path);
  fs::resize_file(copy.path / "model.safetensors", 10000);  // after its header was checked
  const fs::path run = copy.folder.path / "new/run";
  std::string error;
  try {
    import_hugging_face(reader, reader.manifest().model, run / "checkpoints");
  } catch (const core::DataError& failure) {
    error = failure.what();
  }
  contains(error, "model.safetensors");
  CHECK(!fs::exists(run.parent_path()));
}

}  // namespace zrt::hugging_face_errors_test
