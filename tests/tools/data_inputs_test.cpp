// Text and datasets that people have, as a user meets them: JSON lines, datasets made elsewhere, and one dataset that
// is cut into a part for training and one that is held out.
#include <algorithm>
#include <cmath>

#include "program.h"
#include "runtime/data/dataset_meta.h"
#include "tests/data_folder.h"

namespace zrt::data_inputs_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string require(const Result& result, int code = 0) {
  INFO(result.text);
  REQUIRE(result.code == code);
  return result.text;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string lines_of(int count, const std::string& field = "text") {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines +=
        json{{"id", i}, {field, "document " + std::to_string(i * 7919 % 1009) + " says little, twice"}}.dump() + "\n";
  return lines;
}

std::string config(const Folder& folder, const json& data, int ranks_batch = 4) {
  return json{
      {"train_batch_size", ranks_batch},
      {"train_micro_batch_size_per_gpu", 1},
      {"optimizer", {{"type", "AdamW"}}},
      {"model", {{"preset", "gpt2-tiny"}, {"sequence", 32}, {"vocab", 1024}}},
      {"data", data},
      {"run", {{"steps", 4}, {"seed", 5}, {"eval_interval", 2}, {"eval_batches", 1000}, {"out", folder / "run"}}}}
      .dump();
}

// Losses of the training steps, then those of the evaluations.
std::vector<double> losses(const fs::path& run) {
  std::vector<double> all;
  for (const char* file : {"metrics.jsonl", "evaluations.jsonl"}) {
    std::ifstream in(run / file);
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line)["loss"]);
  }
  return all;
}

bool close(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (std::abs(a[i] - b[i]) > 1e-4) return false;
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("JSON lines become a dataset, bad ones among them by name or counted") {
  const Folder folder("json_lines");
  folder.write("a.jsonl", lines_of(50) + "{\"id\": 1}\n" + "{\"text\": \"\\ud800\"}\n");
  const std::string build = "data build --force --out " + (folder / "x") + " ";
  CHECK(contains(require(run_zrt(build + (folder / "a.jsonl")), 1),
                 (folder / "a.jsonl") + ": line 51: it has no field 'text'; --field names another: it has id"));
  CHECK(!fs::exists(folder.path / "x.bin"));
  const Result skipped = run_zrt(build + "--skip-bad " + (folder / "a.jsonl"));
  CHECK(contains(require(skipped), "2 bad line(s) skipped, the first is line 51: it has no field 'text'"));
  CHECK(contains(skipped.text, "50 documents"));
  const std::string counted = require(run_zrt(build + "--skip-bad --json " + (folder / "a.jsonl")));
  CHECK(json::parse(counted.substr(counted.find('{')))["bad_lines"] == 2);  // behind the warning

  // This one reads another field, in a folder, and trains a tokenizer on it; any number of threads makes the same
  // bytes.
  fs::create_directory(folder.path / "in");
  folder.write("in/b.jsonl", lines_of(400, "body"));
  std::string bytes;
  for (const char* threads : {"1", "2", "7"}) {
    require(run_zrt(build + "--field body --tokenizer train --vocab 512 --threads " + std::string(threads) + " " +
                    (folder / "in")));
    const std::string made =
        read_file(folder / "x.bin") + read_file(folder / "x.idx") + read_file(folder / "x.meta.json");
    CHECK((bytes.empty() || made == bytes));
    bytes = made;
  }
  CHECK(contains(require(run_zrt(build + "--threads 0 " + (folder / "in")), 2), "--threads is 0; legal are 1 to 1024"));
  require(run_zrt("data tokenizer --out " + (folder / "t.model") + " --vocab 512 --field body " + (folder / "in")));
  CHECK(
      contains(require(run_zrt(build + "--field body " + (folder / "text.txt")), 2), "no input is one of JSON lines"));
}

TEST_CASE("the tokenizer of bytes is that, whatever folder has its name") {
  const Folder folder("bytes_folder");
  folder.write("a.jsonl", lines_of(3));
  fs::create_directory(folder.path / "bytes");
  fs::copy(zrt::test::data_folder() + "/tokenizers/gpt2.json", folder.path / "bytes/tokenizer.json");
  const std::string in = "(cd " + folder.path.string() + " && " + ZRT_BINARY_DIR + "/zrt ";
  require(run_command(in + "data build --tokenizer bytes --out x a.jsonl)"));
  CHECK(read_json(folder.path / "x.meta.json")["tokenizer"] == "bytes");
  require(run_command(in + "data build --tokenizer ./bytes --out y a.jsonl)"));
  CHECK(read_json(folder.path / "y.meta.json")["tokenizer"] == "tokenizer.json");
}

TEST_CASE("a dataset that was made elsewhere gets bits per byte and a text once it is described") {
  const Folder folder("described");
  folder.write("a.jsonl", lines_of(400));
  require(run_zrt("data build --tokenizer train --vocab 512 --out " + (folder / "x") + " " + (folder / "a.jsonl")));
  const std::string own = read_file(folder / "x.meta.json");
  fs::rename(folder.path / "x.model", folder.path / "t.model");
  fs::remove(folder.path / "x.meta.json");
  folder.write("c.json", config(folder, {{"train", folder / "x"}, {"validation", folder / "x"}}));
  require(run_zrt("train " + (folder / "c.json")));
  const std::string eval = "eval " + (folder / "run") + " --json",
                    generate = "generate " + (folder / "run") + " --tokens 4";
  CHECK(!json::parse(require(run_zrt(eval))).contains("bits_per_byte"));
  require(run_zrt(generate), 2);

  CHECK(contains(require(run_zrt("data describe " + (folder / "x") + " --tokenizer " + (folder / "t.model"))),
                 "400 documents"));
  CHECK(read_file(folder / "x.meta.json") == own);
  CHECK(json::parse(require(run_zrt(eval)))["bits_per_byte"].get<double>() > 1);
  require(run_zrt(generate));
  CHECK(contains(require(run_zrt("data describe " + (folder / "x") + " --tokenizer " + (folder / "t.model")), 2),
                 "x.meta.json: this file is there already"));
  CHECK(contains(require(run_zrt("data describe --force " + (folder / "x") + " --tokenizer bytes"), 1),
                 "but tokenizer bytes has ids 0 to 256: another one made this dataset"));
  CHECK(contains(require(run_zrt("data describe " + (folder / "x")), 2), "--tokenizer is missing"));
}

TEST_CASE("nanoGPT's files of ids are imported and trained on, and a run that names one is told how") {
  const Folder folder("imported");
  std::vector<uint16_t> ids(4000);
  for (int i = 0; i < 4000; ++i)
    ids[static_cast<size_t>(i)] = static_cast<uint16_t>(i % 40 == 39 ? 256 : 'a' + i * 7 % 23);
  folder.write("ids.bin", std::string(reinterpret_cast<const char*>(ids.data()), 2 * ids.size()));
  folder.write("c.json", config(folder, {{"train", folder / "ids.bin"}}));
  CHECK(contains(require(run_zrt("train " + (folder / "c.json")), 1), "`zrt data import` makes one"));
  const std::string import = "data import --out " + (folder / "x") + " " + (folder / "ids.bin");
  CHECK(contains(require(run_zrt(import + " --tokenizer bytes")), "100 documents, 4000 tokens of 3900 bytes"));
  CHECK(contains(require(run_zrt(import + " --vocab 300 --eod 256"), 2), "this file is there already"));
  CHECK(contains(require(run_zrt(import + " --force --vocab 300 --eod 256")), "100 documents, 4000 tokens\n"));
  CHECK(json::parse(require(run_zrt(import + " --force --json --vocab 300")))["documents"] == 1);
  CHECK(contains(require(run_zrt(import + " --force --vocab 100"), 1), "but the vocabulary has 100 ids"));
  CHECK(
      contains(require(run_zrt(import + " --force --vocab 300 --ids u8"), 2), "--ids is 'u8'; legal are u16 and u32"));
  CHECK(contains(require(run_zrt(import + " --force --vocab 300 --language de"), 2), "which needs --tokenizer"));
  folder.write("c.json", config(folder, {{"train", folder / "x"}}));
  require(run_zrt("train " + (folder / "c.json")));
}

TEST_CASE("one dataset is cut by its documents into a part for training and one that is held out, on any mesh") {
  const Folder folder("split");
  folder.write("a.jsonl", lines_of(300));
  require(run_zrt("data build --out " + (folder / "x") + " " + (folder / "a.jsonl")));
  const std::string data = R"({"train": ")" + (folder / "x") + R"(", "split": "7,3"})";
  folder.write("c.json", config(folder, json::parse(data)));
  std::vector<double> first;
  for (const char* mesh : {"--ranks 1", "--ranks 4", "--ranks 2 --set parallel.pipeline=2"}) {
    fs::remove_all(folder.path / "run");
    require(run_zrt("train " + (folder / "c.json") + " " + mesh));
    const std::vector<double> seen = losses(folder.path / "run");
    INFO(mesh);
    CHECK(seen.size() == 6);  // four steps and two evaluations
    if (first.empty()) first = seen;
    CHECK(close(seen, first));
  }
  const json eval = json::parse(require(run_zrt("eval " + (folder / "run") + " --ranks 1 --json")));
  CHECK(eval["loss"].get<double>() == Approx(first.back()).epsilon(1e-5));
  CHECK(eval.contains("bits_per_byte"));
  // The same as two datasets of these documents.
  std::string all = lines_of(300), head, tail;
  for (size_t at = 0, i = 0; at < all.size(); ++i) {
    const size_t end = all.find('\n', at) + 1;
    (i < 210 ? head : tail) += all.substr(at, end - at);
    at = end;
  }
  folder.write("head.jsonl", head), folder.write("tail.jsonl", tail);
  for (const char* part : {"head", "tail"})
    require(run_zrt("data build --out " + (folder / part) + " " + (folder / part) + ".jsonl"));
  const std::string set =
      " --set data.split=null --set data.train=" + (folder / "head") + " --set data.validation=" + (folder / "tail");
  require(run_zrt("train " + (folder / "c.json") + " --out " + (folder / "two") + set));
  CHECK(close(losses(folder.path / "two"), first));

  // A run that goes on with another cut says so; a cut that gives no document is refused.
  CHECK(contains(require(run_zrt("train " + (folder / "c.json") +
                                 " --resume auto --ranks 2 --set run.steps=6 --set data.split=5,5 "
                                 "--set parallel.pipeline=2")),
                 "data.split is '5,5' and was '7,3': samples are cut and shuffled anew"));
  CHECK(contains(
      require(run_zrt("train " + (folder / "c.json") + " --out " + (folder / "none") + " --set data.split=999999,1"),
              1),
      "(the validation part of data.split 999999,1): none of its 300 documents is in that part"));
  CHECK(contains(require(run_zrt("train " + (folder / "c.json") + " --out " + (folder / "none") +
                                 " --set data.validation=" + (folder / "x")),
                         2),
                 "Leave one of them out"));
}

}  // namespace zrt::data_inputs_test
