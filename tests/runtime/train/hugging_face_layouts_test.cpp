// The two layouts of experts in folders of transformers: what came in goes out, and what is neither is refused.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "catch.h"
#include "runtime/train/checkpoint/exchange.h"
#include "runtime/train/checkpoint/expert_layout.h"
#include "runtime/train/run_manifest.h"
#include "tests/runtime/train/fused_copy.h"
#include "tests/runtime/train/hugging_face_logits.h"

namespace zrt::hugging_face_layouts_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
using namespace zrt::hugging_face_copy;
using hugging_face_logits::config_of;
using hugging_face_logits::contains;
namespace fs = std::filesystem;

namespace {

constexpr const char* weights = "model.safetensors";
constexpr const char* per_matrix[] = {"mixtral", "mixtral_window", "qwen3_moe", "qwen3_moe_step", "qwen3_moe_window"};
constexpr const char* gate_up = "model.layers.0.mlp.experts.gate_up_proj";
constexpr const char* down = "model.layers.0.mlp.experts.down_proj";

RawTensors tensors_in(const fs::path& folder) {
  return read_tensors(folder / weights);
}
void change(const Copy& copy, const std::function<void(RawTensors&)>& to) {
  RawTensors tensors = tensors_in(copy.path);
  to(tensors);
  write_tensors(copy.path / weights, tensors);
}
void fuse(const Copy& copy) {
  change(copy, [](RawTensors& tensors) { tensors = fused(tensors); });
}

// Reads a folder, makes it a checkpoint of a run and exports that.
void through_run(const fs::path& from, const fs::path& run, const fs::path& out, const ExportOptions& options = {}) {
  const Reader reader = open_hugging_face(from, [](const std::string& said) { FAIL_CHECK(said); });
  const fs::path made = import_hugging_face(reader, runtime::model_json(config_of(reader)), run / "checkpoints");
  export_hugging_face(Reader(made, true), out, options);
}

}  // namespace

TEST_CASE("A folder goes out with the tensors of the layout that it came in, to the byte, and so again") {
  const auto check = [](const fs::path& from) {
    const testing::TemporaryFolder folder;
    const RawTensors expected = tensors_in(from);
    through_run(from, folder.path / "run", folder.path / "out");
    CHECK(tensors_in(folder.path / "out") == expected);
    through_run(folder.path / "out", folder.path / "second", folder.path / "again");
    CHECK(tensors_in(folder.path / "again") == expected);
  };
  const Copy of_transformers("mixtral_fused");
  REQUIRE(tensors_in(of_transformers.path).contains(gate_up));
  check(of_transformers.path);
  for (const char* name : per_matrix) {
    INFO(name);
    const Copy plain(name), fused(name);
    check(plain.path);
    fuse(fused);
    CHECK(tensors_in(fused.path).size() < tensors_in(plain.path).size() / 2 + 20);
    CHECK(fused.same_weights(plain));
    check(fused.path);
  }
}

TEST_CASE("Experts in one tensor go out so in every type, and in several files, larger than one or not") {
  const Copy fused("qwen3_moe_step");
  fuse(fused);
  const RawTensors before = tensors_in(fused.path);
  for (const uint64_t shard_bytes : {1, 4000, 20000}) {
    CAPTURE(shard_bytes);
    const testing::TemporaryFolder folder;
    through_run(fused.path, folder.path / "run", folder.path / "out", {core::DType::f32, shard_bytes});
    const Json index = Json::parse(core::read_text(folder.path / "out" / index_name, 1 << 20));
    RawTensors all;
    for (const auto& entry : fs::directory_iterator(folder.path / "out")) {
      if (entry.path().extension() == ".safetensors") all.merge(read_tensors(entry.path()));
    }
    CHECK(all == before);
    CHECK(index["weight_map"].size() == before.size());
    CHECK(has_fused_experts(open_hugging_face(folder.path / "out").manifest()));
  }
  for (const core::DType type : {core::DType::bf16, core::DType::f16}) {
    const testing::TemporaryFolder folder;
    through_run(fused.path, folder.path / "run", folder.path / "out", {type});
    const RawTensors rounded = tensors_in(folder.path / "out");
    REQUIRE(rounded.contains("model.layers.1.mlp.experts.down_proj"));
    const RawTensor& of_layer = rounded.at("model.layers.1.mlp.experts.down_proj");
    CHECK(of_layer.dtype == (type == core::DType::bf16 ? "BF16" : "F16"));
    CHECK(of_layer.shape == std::vector<int64_t>{4, 24, 12});
    through_run(folder.path / "out", folder.path / "second", folder.path / "out2", {type});
    CHECK(tensors_in(folder.path / "out2") == rounded);
  }
}

TEST_CASE("Folders that have experts in both layouts are refused, in one layer or in different ones") {
  for (const char* name : per_matrix) {
    INFO(name);
    const Copy plain(name), both(name);
    fuse(both);
    std::string one, all;
    for (const auto& [tensor, raw] : tensors_in(plain.path)) {
      if (one.empty() && tensor.find(".experts.") != std::string::npos) one = tensor;
    }
    for (const auto& [tensor, raw] : tensors_in(both.path)) {
      if (all.empty() && tensor.ends_with(".experts.down_proj")) all = tensor;
    }
    change(both, [&](RawTensors& tensors) { tensors[one] = tensors_in(plain.path).at(one); });
    contains(both.error(), fmt::format("tensor '{}' of shape [", all));
    contains(both.error(), fmt::format("tensor '{}' of shape [{}] a matrix of one expert", one,
                                       fmt::join(tensors_in(plain.path).at(one).shape, ", ")));
    contains(both.error(), "keep those of one layout, in every layer");
  }
  const Copy layers("mixtral");
  change(layers, [](RawTensors& tensors) {
    const RawTensors other = fused(tensors);
    std::erase_if(tensors, [](const auto& tensor) { return tensor.first.starts_with("model.layers.1."); });
    tensors.insert(other.lower_bound("model.layers.1."), other.lower_bound("model.layers.2."));
  });
  contains(layers.error(), "tensor 'model.layers.1.mlp.experts.down_proj' of shape [4, 24, 40] holds all experts");
  contains(layers.error(), "'model.layers.0.block_sparse_moe.experts.0.w1.weight' of shape [40, 24] a matrix of one");
}

TEST_CASE("An expert, or a tensor of all experts, that is missing is named with the shape that it needs") {
  const Copy expert("mixtral"), matrix("qwen3_moe"), fused("mixtral_fused");
  change(expert, [](RawTensors& tensors) {
    std::erase_if(tensors, [](const auto& tensor) {
      return tensor.first.find(".1.block_sparse_moe.experts.3.") != std::string::npos;
    });
  });
  contains(expert.error(),
           "('model.layers.1.block_sparse_moe.experts.3.w1.weight' in the files) of shape [40, 24]; there is no such "
           "tensor");
  matrix.remove("model.layers.0.mlp.experts.5.down_proj.weight");
  contains(matrix.error(),
           "'model.layers.0.mlp.experts.5.down_proj.weight' of shape [24, 16]; there is no such tensor");
  fused.remove(down);
  contains(fused.error(),
           fmt::format("(in '{}' of shape [3, 24, 40]) of shape [24, 40]; there is no such tensor", down));
}

TEST_CASE(
    "Experts in one tensor of another number or a transposed shape are refused, also where elements are as many") {
  const auto refused = [](const char* tensor, const std::vector<int64_t>& shape, const char* needed) {
    const Copy copy("mixtral_fused");
    copy.change_header(weights, [&](Json& json) { json.at(tensor)["shape"] = shape; });
    contains(copy.error(),
             fmt::format("tensor '{}' is [{}], but the model needs [{}]", tensor, fmt::join(shape, ", "), needed));
  };
  for (const auto& shape : {std::vector<int64_t>{3, 24, 80}, {6, 40, 24}, {2, 120, 24}, {240, 24}, {3, 80, 4, 6}}) {
    refused(gate_up, shape, "3, 80, 24");
  }
  for (const auto& shape : {std::vector<int64_t>{3, 40, 24}, {4, 18, 40}, {72, 40}, {2880}}) {
    refused(down, shape, "3, 24, 40");
  }
  for (const int64_t number : {2, 4}) {
    const Copy copy("mixtral_fused");
    copy.set("num_local_experts", number);
    contains(copy.error(), fmt::format("tensor '{}' is [3, 24, 40], but the model needs [{}, 24, 40]", down, number));
  }
  // Nobody makes a list of so many.
  const Copy many("mixtral_fused");
  many.set("num_local_experts", int64_t{1} << 31);
  contains(many.error(), "model.experts.number: 2147483648 is more than 1048576");
}

TEST_CASE("An expert beyond the model's number is refused by its tensor, its shape and the number") {
  const Copy copy("mixtral"), fewer("qwen3_moe");
  copy.add_copy("model.layers.1.block_sparse_moe.experts.3.w2.weight",
                "model.layers.1.block_sparse_moe.experts.4.w2.weight");
  contains(copy.error(),
           "tensor 'model.layers.1.block_sparse_moe.experts.4.w2.weight' of shape [24, 40] is of expert 4, counted "
           "from 0, and the model has 4 experts");
  // A layer that has none.
  const Copy dense("qwen3_moe_step");
  fuse(dense);
  change(dense, [](RawTensors& tensors) {
    for (const char* half : {"gate_up_proj", "down_proj"}) {
      tensors[std::string("model.layers.0.mlp.experts.") + half] =
          tensors.at(std::string("model.layers.1.mlp.experts.") + half);
    }
  });
  contains(dense.error(), fmt::format("it has no '{}', '{}'. Correct config.json", down, gate_up));
  fewer.set("num_local_experts", 5);
  contains(fewer.error(), "tensor 'model.layers.0.mlp.experts.5.down_proj.weight' of shape [24, 16] is of expert 5");
}

TEST_CASE("An export of experts in one tensor refuses weights that are of another model than the manifest says") {
  const Copy fused("mixtral_fused");
  const Reader reader = open_hugging_face(fused.path);
  Json model = runtime::model_json(config_of(reader));
  model["experts.ffn"] = model["ffn"] = 20;
  const testing::TemporaryFolder folder;
  const Reader wrong(import_hugging_face(reader, model, folder.path / "checkpoints"), true);
  std::string error;
  try {
    export_hugging_face(wrong, folder.path / "out", {});
  } catch (const core::DataError& refusal) {
    error = refusal.what();
  }
  contains(error,
           "'model.layers.0.mlp.experts.0.down_proj.weight' is [24, 40], and the model of its manifest needs [24, 20]");
  CHECK(!fs::exists(folder.path / "out"));
}

}  // namespace zrt::hugging_face_layouts_test
