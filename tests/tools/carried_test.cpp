// Files go with a model's weights from folder to folder: tokenizer, template, settings of generation and
// special ids, through import, training, delinking and export.
#include "program.h"

namespace zrt::carried_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

constexpr const char* carried_names[] = {"tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "tokenizer.model",
                                         "vocab.json",
                                         "merges.txt",
                                         "vocab.txt",
                                         "added_tokens.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "generation_config.json",
                                         "spiece.model",
                                         "additional_chat_templates/tools.jinja"};

// A run on bytes, and its export with files that go with a model, and with special ids.
struct Started : Folder {
  std::string train;
  explicit Started(const std::string& name) : Folder(name) {
    build_data(*this);
    write("run.json", config());
    train = "train " + (*this / "run.json") + " --ranks 2 ";
    must(train + "--steps 1 --out " + (*this / "first"));
    exported("first", "plain");
    fs::create_directory(*this / "plain/additional_chat_templates");
    for (const char* file : carried_names) write("plain/" + std::string(file), std::string(file) + "\n\x01\xff");
    write("plain/README.md", "no file of a model");
    json model = read_json(*this / "plain/config.json");
    model.update({{"bos_token_id", 3}, {"eos_token_id", {4, 5}}});
    model.erase("pad_token_id");
    write("plain/config.json", model.dump());
  }
  std::string must(const std::string& arguments) const {
    const Result result = run_zrt(arguments);
    INFO(arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
    return result.text;
  }
  std::string exported(const std::string& run, const std::string& out) const {
    return must("checkpoint export " + (*this / run) + " --out " + (*this / out));
  }
  void check(const std::string& out, const std::string& said) const {
    CAPTURE(out);
    for (const char* file : carried_names) {
      CAPTURE(file);
      CHECK(contents(*this / (out + "/" + file)) == contents(*this / ("plain/" + std::string(file))));
      has(said, out + "/" + file + "\n");
    }
    CHECK(!fs::exists(*this / (out + "/README.md")));
    const json model = read_json(*this / (out + "/config.json"));
    CHECK(model["bos_token_id"] == 3);
    CHECK(model["eos_token_id"] == json{4, 5});
    CHECK(!model.contains("pad_token_id"));
    CHECK(said.find("note:") == std::string::npos);
  }
};

}  // namespace

TEST_CASE("Files beside the weights go through import, training from a folder and from a run, and export as they are") {
  const Started folder("carried");
  folder.must("checkpoint import " + (folder / "plain") + " --out " + (folder / "imported"));
  folder.check("imported_out", folder.exported("imported", "imported_out"));
  const std::string train = folder.train + "--out " + (folder / "");
  folder.must(train + "trained --steps 1 --resume " + (folder / "plain"));
  folder.check("trained_out", folder.exported("trained", "trained_out"));
  folder.must(train + "on --steps 2 --resume " + (folder / "trained"));
  folder.check("on_out", folder.exported("on/checkpoints/step_2", "on_out"));
  folder.must(train + "shape --steps 1 --set model.preset=null --set model.from=" + (folder / "plain"));
  folder.check("shape_out", folder.exported("shape", "shape_out"));
  // An export is a folder to start from, too.
  folder.must(train + "again --steps 1 --resume " + (folder / "trained_out"));
  folder.check("again_out", folder.exported("again", "again_out"));
}

TEST_CASE("What another run left under the same name is not exported") {
  const Started folder("carried_stale");
  for (const std::string name : {"fresh", "begun"}) {
    fs::create_directories(folder.path / name / "carried");
    folder.write(name + "/carried/merges.txt", "stale");
  }
  folder.must(folder.train + "--steps 1 --out " + (folder / "fresh"));
  folder.exported("fresh", "fresh_out");
  CHECK(!fs::exists(folder / "fresh_out/merges.txt"));
  fs::remove(folder / "plain/merges.txt");
  folder.must(folder.train + "--steps 1 --out " + (folder / "begun") + " --resume " + (folder / "plain"));
  folder.exported("begun", "begun_out");
  CHECK(!fs::exists(folder / "begun_out/merges.txt"));
  CHECK(contents(folder / "begun_out/vocab.txt") == contents(folder / "plain/vocab.txt"));
}

TEST_CASE("What a run carries stays when it goes on, and survives a delink") {
  const Started folder("carried_on");
  const std::string train = folder.train + "--set pseudo_to_real.groups=1 --out " + (folder / "run");
  folder.must(train + " --steps 1 --set model.preset=null --set model.from=" + (folder / "plain"));
  const std::string kept = folder / "run/carried/";
  std::ofstream(kept + "tokenizer.json") << "one that the user put there";
  folder.must(train + " --steps 2 --resume auto");
  CHECK(contents(kept + "tokenizer.json") == "one that the user put there");
  folder.must("checkpoint delink " + (folder / "run") + " --out " + (folder / "real"));
  folder.exported("real", "real_out");
  CHECK(contents(folder / "real_out/tokenizer.json") == "one that the user put there");
  CHECK(contents(folder / "real_out/merges.txt") == contents(folder / "plain/merges.txt"));
}

TEST_CASE("An export without a tokenizer says why, and a pointer of Git LFS is left with a warning") {
  const Started folder("carried_none");
  has(folder.exported("first", "again"), "note: the folder gets no tokenizer: the run reads bytes");
  CHECK(!fs::exists(folder / "first/carried"));
  for (const char* file : carried_names) fs::remove(folder / ("plain/" + std::string(file)));
  folder.write("plain/tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  has(folder.must("checkpoint import " + (folder / "plain") + " --out " + (folder / "imported")),
      "plain/tokenizer.json: is left and will be missing in an export: it is a pointer of Git LFS");
  const std::string said = folder.exported("imported", "imported_out");
  has(said, "note: the folder gets no tokenizer: neither the folder that the run began with nor its data had one");
  CHECK(!fs::exists(folder / "imported_out/tokenizer.json"));
  CHECK(read_json(folder / "imported_out/config.json")["bos_token_id"] == 3);
  folder.write("plain/tokenizer.json", "{}");
  folder.write("plain/config.json", contents(folder / "plain/config.json"));
  fs::create_directory(folder / "linked");
  fs::create_symlink("elsewhere", folder / "linked/carried");
  const Result refused =
      run_zrt(folder.train + "--steps 1 --out " + (folder / "linked") + " --resume " + (folder / "plain"));
  CHECK(refused.code == 1);
  has(refused.text, "linked/carried is a symbolic link");
}

TEST_CASE("A run on a dataset with a tokenizer of its own carries that, and a folder's with other ids is refused") {
  const Started folder("carried_data");
  const std::string pieces = folder / "pieces";
  folder.must("data build --tokenizer train --vocab 512 --validation 0.2 --out " + pieces + " " +
              (folder / "text.txt"));
  const int64_t vocabulary = read_json(pieces + "/train.meta.json")["vocabulary"];
  json config = json::parse(folder.config());
  config["data"] = {{"train", pieces + "/train"}};
  config["model"]["vocab"] = 512, config["run"]["steps"] = 1, config["run"]["out"] = folder / "run";
  folder.write("pieces.json", config.dump());
  folder.must("train " + (folder / "pieces.json") + " --ranks 2");
  const std::string said = folder.exported("run", "out");
  has(said, "out/tokenizer.model\n");
  CHECK(contents(folder / "out/tokenizer.model") == contents(pieces + "/tokenizer.model"));
  const json settings = read_json(folder / "out/tokenizer_config.json"), model = read_json(folder / "out/config.json");
  CHECK(settings["tokenizer_class"] == "LlamaTokenizer");
  CHECK((settings["add_bos_token"] == false && settings["bos_token"].is_null()));
  CHECK(settings["add_prefix_space"] == false);  // as the tokenizer was trained: else the first id of a text is another
  CHECK((model["eos_token_id"] == 1 && model["bos_token_id"].is_null() && vocabulary <= 512));
  folder.must("train " + (folder / "pieces.json") + " --ranks 2 --out " + (folder / "same") + " --resume " +
              (folder / "out"));
  folder.write("out/tokenizer.model", "another");
  has(folder.must("train " + (folder / "pieces.json") + " --ranks 2 --out " + (folder / "other") + " --resume " +
                  (folder / "out")),
      "pieces/train was made by another tokenizer.model (XXH3 ");

  // Files in which ids mean other texts: of the same kind, and of another.
  const std::string train = "train " + (folder / "pieces.json") + " --ranks 2 ";
  const auto refused = [&](const std::string& name, const std::string& part) {
    const Result result = run_zrt(train + "--out " + (folder / name) + " --resume " + (folder / "out"));
    INFO(result.text);
    CHECK(result.code == 1);
    has(result.text, "pieces/train was made by another tokenizer than the folder's: tokenizer.model of " +
                         std::to_string(vocabulary) + " tokens has ");
    has(result.text, part);
    has(result.text, "start from a copy of the folder without files of a tokenizer");
  };
  const std::string goldens = ZRT_SOURCE_DIR "/tests/data/";
  fs::copy_file(goldens + "few_shot/tokenizer.model", folder / "out/tokenizer.model",
                fs::copy_options::overwrite_existing);
  refused("kind", ", tokenizer.model of ");
  fs::remove(folder / "out/tokenizer.model");
  fs::copy_file(goldens + "tokenizers/gpt2.json", folder / "out/tokenizer.json");
  refused("other_kind", ", tokenizer.json of ");
  // New weights of the folder's sizes learn the data's ids.
  config["model"] = {{"from", folder / "out"}};
  folder.write("pieces.json", config.dump());
  has(folder.must(train + "--out " + (folder / "sizes")),
      "as the weights are new, the run and its exports take the data's");
  folder.exported("sizes", "sizes_out");
  CHECK(contents(folder / "sizes_out/tokenizer.model") == contents(pieces + "/tokenizer.model"));
  CHECK(!fs::exists(folder / "sizes_out/tokenizer.json"));
}

}  // namespace zrt::carried_test
