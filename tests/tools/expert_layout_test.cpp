// The layout that a folder has its experts in goes through import, training and going on, by the program alone.
#include "tests/program.h"
#include "tests/runtime/train/fused_copy.h"

namespace zrt::expert_layout_test {

using namespace zrt::testing;
using hugging_face_copy::RawTensors;

namespace {

struct Started : Folder {
  std::string train;
  explicit Started(const std::string& name) : Folder(name) {
    build_data(*this);
    write("run.json", config());
    train = "train " + (*this / "run.json") + " --ranks 2 --set model.preset=mixtral-tiny --out " + (*this / "");
  }
  void must(const std::string& arguments) const {
    const Result result = run_zrt(arguments);
    INFO(arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
  }
  RawTensors exported(const std::string& run, const std::string& out) const {
    must("checkpoint export " + (*this / run) + " --out " + (*this / out));
    return hugging_face_copy::read_tensors(*this / (out + "/model.safetensors"));
  }
  // A folder with the weights of another, and the experts of each layer in two tensors.
  void fuse(const std::string& from, const std::string& to) const {
    fs::copy(*this / from, *this / to);
    const std::string file = *this / (to + "/model.safetensors");
    hugging_face_copy::write_tensors(file, hugging_face_copy::fused(hugging_face_copy::read_tensors(file)));
  }
};

bool one_for_all(const RawTensors& tensors) {
  size_t fused = 0, single = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name.find(".experts.") == std::string::npos) continue;
    ++(name.find(".mlp.experts.") != std::string::npos && tensor.shape.size() == 3 ? fused : single);
  }
  CHECK((fused == 0) != (single == 0));
  CHECK((fused == 4 || single == 2 * 4 * 3));
  return fused > 0;
}

}  // namespace

TEST_CASE("Exports have the layout of the folder that a run began with, however often it goes on") {
  const Started folder("expert_layout");
  folder.must(folder.train + "first --steps 1");
  const RawTensors first = folder.exported("first", "plain");
  CHECK_FALSE(one_for_all(first));
  folder.fuse("plain", "fused");

  for (const std::string from : {"plain", "fused"}) {
    CAPTURE(from);
    const bool all = from == "fused";
    const RawTensors before = hugging_face_copy::read_tensors(folder / (from + "/model.safetensors"));
    const std::string name = from + "_";
    folder.must("checkpoint import " + (folder / from) + " --out " + (folder / (name + "imported")));
    CHECK(folder.exported(name + "imported", name + "imported_out") == before);

    const std::string run = folder.train + name;
    folder.must(run + "trained --steps 1 --resume " + (folder / from));
    folder.must(run + "trained --steps 2 --resume auto");
    const RawTensors trained = folder.exported(name + "trained", name + "trained_out");
    CHECK(one_for_all(trained) == all);
    CHECK(trained != before);
    folder.must(run + "weights --steps 1 --set run.load_module_only=true --resume " + (folder / (name + "trained")));
    CHECK(one_for_all(folder.exported(name + "weights", name + "weights_out")) == all);
    folder.must(run + "still --steps 1 --set optimizer.params.lr=0 --resume " + (folder / (name + "imported")));
    CHECK(folder.exported(name + "still", name + "still_out") == before);
    // An export is a folder to begin with, too.
    folder.must(run + "again --steps 1 --resume " + (folder / (name + "trained_out")));
    CHECK(one_for_all(folder.exported(name + "again", name + "again_out")) == all);
    // Its sizes alone say nothing of how weights lie.
    folder.must(run + "sizes --steps 1 --set model.preset=null --set model.from=" + (folder / from));
    CHECK_FALSE(one_for_all(folder.exported(name + "sizes", name + "sizes_out")));
  }
  CHECK(hugging_face_copy::read_tensors(folder / "fused_trained_out/model.safetensors") ==
        hugging_face_copy::fused(hugging_face_copy::read_tensors(folder / "plain_trained_out/model.safetensors")));
}

}  // namespace zrt::expert_layout_test
