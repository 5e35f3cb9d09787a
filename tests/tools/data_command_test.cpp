// `zrt data build`, `zrt generate` and runs on their data as a user meets them: what is refused, what is said when the
// data is another, and names that no terminal obeys.
#include "program.h"
#include "runtime/data/dataset_meta.h"
#include "runtime/train/checkpoint/manifest.h"

namespace zrt::data_command_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string require(const Result& result, int code = 0) {
  INFO(result.text);
  REQUIRE(result.code == code);
  return result.text;
}

// A blend of two small datasets and a run that was stopped after four of eight steps of four samples.
struct Run : Folder {
  explicit Run(const std::string& name, const json& model = {{"preset", "gpt2-tiny"}, {"sequence", 32}})
      : Folder(name) {
    build("a", 60), build("b", 40), build("held", 20);
    write("c.json", json{{"train_batch_size", 4},
                         {"train_micro_batch_size_per_gpu", 2},
                         {"optimizer", {{"type", "AdamW"}}},
                         {"model", model},
                         {"data",
                          {{"train", json::array({json::array({3, *this / "a"}), json::array({1, *this / "b"})})},
                           {"validation", json::array({*this / "held"})}}},
                         {"run", {{"steps", 8}, {"seed", 5}, {"checkpoint_interval", 4}, {"eval_batches", 1}}}}
                        .dump());
    require(train("begun"));
    fs::remove_all(path / "begun/checkpoints/step_8");
  }
  void build(const std::string& name, int lines, const std::string& more = "") const {
    std::ofstream text(path / (name + ".text"));
    for (int i = 0; i < lines; ++i) text << "document " << name << ' ' << i * 7919 % 1000 << " says little\n\n";
    text.close();
    require(run_zrt("data build --force --documents paragraph --out " + (*this / name) + ' ' +
                    (*this / (name + ".text")) + ' ' + more));
  }
  Result train(const std::string& out, const std::string& more = "") const {
    return run_zrt("train " + (*this / "c.json") + " --out " + (*this / out) + ' ' + more);
  }
  // Returns what is said when a copy of the run goes on.
  std::string resumed(const std::string& more = "") const {
    fs::remove_all(path / "run");
    fs::copy(path / "begun", path / "run", fs::copy_options::recursive);
    return require(train("run", "--resume auto " + more));
  }
  std::string shares(double a, double b) const {
    return "--set 'data.train=" + json::array({json::array({a, *this / "a"}), json::array({b, *this / "b"})}).dump() +
           "' ";
  }
};

}  // namespace

TEST_CASE("a run that goes on with other data says what differs and which samples repeat or are lost") {
  const Run run("other_data");
  const std::string same = run.resumed();
  CHECK(!contains(same, "data."));
  CHECK(!contains(same, "repeat"));
  CHECK(!contains(run.resumed(run.shares(6, 2)), "repeat"));

  const std::string shares = run.resumed(run.shares(1, 1));
  INFO(shares);
  CHECK(contains(shares,
                 (run / "a") + " gives 0.5 of the samples and gave 0.75: about 4 of the 12 that were read repeat"));
  CHECK(contains(shares,
                 (run / "b") + " gives 0.5 of the samples and gave 0.25: about 4 behind the 4 that were read are"));

  fs::copy(run.path / "b.bin", run.path / "moved.bin");
  fs::copy(run.path / "b.idx", run.path / "moved.idx");
  const std::string moved = run.resumed(
      "--set 'data.train=" + json::array({json::array({3, run / "a"}), json::array({1, run / "moved"})}).dump() + "'");
  CHECK(contains(moved, (run / "moved") + " was " + (run / "b") + " in the checkpoint, with the same index"));

  CHECK(contains(run.resumed("--set train_batch_size=2"),
                 "train_batch_size is 2 and was 4: no sample repeats or is lost"));
  CHECK(contains(run.resumed("--set data.train=" + (run / "a")), (run / "b") + " of the checkpoint is gone"));
  CHECK(contains(run.resumed("--set data.validation=" + (run / "b")),
                 "the held-out data is other than the checkpoint's"));

  fs::copy(run.path / "b.bin", run.path / "kept.bin");
  {
    std::fstream tokens(run.path / "b.bin", std::ios::in | std::ios::out | std::ios::binary);
    tokens.seekp(12), tokens.put('?');
  }
  CHECK(contains(run.resumed(), "but its tokens are others"));
  fs::rename(run.path / "kept.bin", run.path / "b.bin");

  // The checkpoint's ids and these mean different text, also where weights alone are taken.
  for (const char* name : {"a", "b", "held"}) {
    const std::string meta = run / (std::string(name) + ".meta.json");
    std::string text = read_file(meta);
    text.replace(text.find("\"bytes\""), 7, "\"words\"");
    std::ofstream(meta) << text;
  }
  const std::string weights =
      require(run.train("weights", "--set run.load_module_only=true --resume " + (run / "begun")));
  for (const std::string& text : {run.resumed(), weights}) {
    CHECK(contains(text,
                   "the data was made by tokenizer 'words' of 257 tokens and the checkpoint's by 'bytes' of 257 "
                   "tokens: the same ids mean other text"));
  }
  for (const char* name : {"a", "b", "held"}) fs::remove(run.path / (std::string(name) + ".meta.json"));
  run.build("a", 60), run.build("b", 40), run.build("held", 20);

  std::ofstream(run.path / "more.text") << "a document more\n";
  run.build("b", 40, run / "more.text");
  const std::string rebuilt = run.resumed();
  INFO(rebuilt);
  CHECK(contains(rebuilt, (run / "b") + " has 41 documents"));
  CHECK(contains(rebuilt, "has 40 documents"));
  CHECK(contains(rebuilt, "Any of the about 4 that were read may come again"));
  CHECK(!contains(rebuilt, (run / "a") + " has"));
}

TEST_CASE("monitors of a run that goes on with another batch count the samples that it has read") {
  const Run run("other_batch");
  for (const int batch : {2, 8}) {
    INFO("four steps of 4 samples, then four of " << batch);
    const std::string csv = run / ("csv" + std::to_string(batch));
    run.resumed("--set train_batch_size=" + std::to_string(batch) +
                " --set run.eval_interval=2 --set csv_monitor.enabled=true --set csv_monitor.output_path=" + csv);
    const auto samples = [&](const std::string& of) {
      std::istringstream rows(read_file(csv + "/DeepSpeedJobName/Train_Samples_" + of + ".csv"));
      std::vector<int> all;
      std::string row;
      REQUIRE(std::getline(rows, row));
      while (std::getline(rows, row)) all.push_back(std::stoi(row));
      return all;
    };
    const auto after = [&](int steps) { return 4 * 4 + steps * batch; };
    CHECK(samples("train_loss") == std::vector{after(1), after(2), after(3), after(4)});
    CHECK(samples("eval_loss") == std::vector{after(2), after(4)});
    const json saved = json::parse(require(run_zrt("checkpoint inspect --json " + (run / "run"))));
    CHECK(saved["samples"] == after(4));
  }
}

TEST_CASE("a checkpoint without a word of its data still goes on, and one is told of masks that change") {
  const Run run("old_data", {{"preset", "bert-tiny"}, {"sequence", 32}, {"whole_words", false}});
  const std::string masks = run.resumed("--set model.mask_rate=0.3 --set model.whole_words=true");
  CHECK(contains(masks, "model.mask_rate is 0.3 and was 0.15"));
  CHECK(contains(masks, "model.whole_words is true and was false"));

  namespace checkpoint = runtime::checkpoint;
  const fs::path file = run.path / "begun/checkpoints/step_4/manifest.json";
  checkpoint::Manifest manifest = checkpoint::parse_manifest(read_file(file), "test");
  REQUIRE(manifest.made_by.erase("data") == 1);
  std::ofstream(file) << checkpoint::format_manifest(manifest);
  CHECK(!contains(run.resumed(run.shares(1, 1)), "repeat"));
  // The checkpoint that the run leaves says it again.
  const auto left = checkpoint::parse_manifest(read_file(run.path / "run/checkpoints/step_8/manifest.json"), "test");
  CHECK(left.made_by["data"]["train"][0]["share"] == 0.5);
}

TEST_CASE("words are not hidden whole where one dataset of a blend does not say which tokens make words") {
  const Run run("nameless_words", {{"preset", "bert-tiny"}, {"sequence", 32}, {"whole_words", false}});
  const std::string whole = "--set model.whole_words=true";
  CHECK(run.train("named", whole).code == 0);
  for (const char* name : {"a.meta.json", "b.meta.json"}) {
    fs::rename(run.path / name, run.path / "away");
    const std::string refused = require(run.train("refused", whole), 2);
    CHECK(contains(refused, "model.whole_words is true, but there is no " + (run / name)));
    CHECK(run.train(std::string("tokens_") + name).code == 0);
    fs::rename(run.path / "away", run.path / name);
  }
}

TEST_CASE("a dataset that is cut in mid-run ends the run with an error that names file and byte") {
  const Run run("cut_data");
  const std::string out = run / "long";
  const Result result =
      run_command("(" ZRT_BINARY_DIR "/zrt train " + (run / "c.json") + " --out " + out +
                  " --set run.checkpoint_interval=0 --steps 1000000 --set data.train=" + (run / "a") +
                  " & run=$!; while kill -0 $run && [ ! -s " + out +
                  "/metrics.jsonl ]; do sleep 0.02; done; truncate -s 100 " + (run / "a.bin") + "; wait $run)");
  INFO(result.text.substr(result.text.size() - std::min<size_t>(result.text.size(), 2000)));
  CHECK(result.code == 1);
  CHECK(contains(result.text, "zrt: error: "));
  CHECK(contains(result.text, (run / "a.bin") + ": ends at byte 100, before byte "));
}

TEST_CASE("text is made with the tokenizer that is known or named, and else refused") {
  const Run run("unknown_ids");
  const std::string generate = "generate " + (run / "begun") + " --prompt doc --tokens 12 --seed 3 --json";
  const std::string text = require(run_zrt(generate));
  CHECK(require(run_zrt(generate + " --tokenizer bytes")) == text);
  const std::string model = run / "t.model";
  require(run_zrt("data tokenizer --vocab 512 --out " + model + ' ' + (run / "text.txt")));
  CHECK(contains(require(run_zrt(generate + " --tokenizer " + model), 2), (run / "a") + " was made by 'bytes'"));

  // The run's data is a blend of a and b: each must say it, unless the checkpoint does.
  for (const char* name : {"a.meta.json", "b.meta.json"}) {
    fs::rename(run.path / name, run.path / "away");
    CHECK(require(run_zrt(generate)) == text);
    CHECK(require(run_zrt(generate + " --tokenizer bytes")) == text);
    CHECK(contains(require(run_zrt(generate + " --tokenizer " + model), 2), " was made by 'bytes'"));
    const std::string half = std::string("half_") + name[0];
    require(run.train(half, "--steps 1"));
    const std::string refused = require(run_zrt("generate " + (run / half)), 2);
    CHECK(contains(refused, "there is no " + (run / name)));
    CHECK(contains(refused, "--tokenizer bytes, or --tokenizer FILE.model"));
    fs::rename(run.path / "away", run.path / name);
  }
  CHECK(require(run_zrt(generate)) == text);

  for (const char* name : {"a.meta.json", "b.meta.json"}) fs::remove(run.path / name);
  CHECK(require(run_zrt(generate)) == text);
  CHECK(require(run_zrt(generate + " --tokenizer bytes")) == text);
  require(run.train("neither", "--steps 1"));
  CHECK(contains(require(run_zrt("generate " + (run / "neither")), 2), "there is no " + (run / "a.meta.json")));
  CHECK(contains(require(run_zrt(generate + " --tokenizer " + model), 2), " tokens but the model's vocabulary has "));
  CHECK(contains(require(run_zrt(generate + " --tokenizer words"), 2), "tokenizer 'words' is not known"));

  require(run_zrt("checkpoint export " + (run / "begun") + " --out " + (run / "plain")));
  require(run_zrt("checkpoint import " + (run / "plain") + " --out " + (run / "imported")));
  CHECK(contains(require(run_zrt("generate " + (run / "imported")), 2), "the run has no data.train"));
}

TEST_CASE("a finished run is read with the tokenizer that it was trained with, whatever has become of its data") {
  const Run run("trained_tokenizer", {{"preset", "gpt2-tiny"}, {"sequence", 32}, {"vocab", 1024}});
  const std::string old = run / "old.model", other = run / "other.model";
  require(run_zrt("data tokenizer --vocab 512 --out " + old + ' ' + (run / "a.text")));
  for (const char* name : {"a", "b", "held"}) run.build(name, 50, "--tokenizer " + old);
  require(run.train("run"));
  const std::string generate = "generate " + (run / "run") + " --prompt doc --tokens 8 --json",
                    eval = "eval " + (run / "run") + " --json";
  const std::string text = require(run_zrt(generate)), loss = require(run_zrt(eval));
  fs::copy(run.path / "held.bin", run.path / "same.bin");
  fs::copy(run.path / "held.idx", run.path / "same.idx");
  fs::copy(run.path / "held.meta.json", run.path / "same.meta.json");

  // Built again with another tokenizer, and gone.
  require(run_zrt("data tokenizer --vocab 513 --out " + other + ' ' + (run / "b.text")));
  for (const char* name : {"a", "b", "held"}) run.build(name, 50, "--tokenizer " + other);
  run.build("b", 50, "--tokenizer " + old);  // a blend of two
  require(run_zrt(generate), 2);
  CHECK(require(run_zrt(generate + " --tokenizer " + old)) == text);
  run.build("b", 50, "--tokenizer " + other);
  for (const bool gone : {false, true}) {
    if (gone) {
      for (const char* name : {"a.meta.json", "b.meta.json", "a.bin", "b.bin"}) fs::remove(run.path / name);
      CHECK(require(run_zrt(generate)) == text);  // the run carries its tokenizer
      fs::remove_all(run.path / "run/carried");
    }
    CHECK(contains(require(run_zrt(generate), 2), "The checkpoint was trained with 'sentencepiece'") == gone);
    CHECK(contains(require(run_zrt(generate), 2), "the checkpoint was trained with the tokenizer 'sentenc") == !gone);
    require(run_zrt(generate + " --tokenizer " + other), 2);
    CHECK(require(run_zrt(generate + " --tokenizer " + old)) == text);
    CHECK(contains(require(run_zrt(eval), 2), "and the checkpoint was trained with 'sentencepiece'"));
    CHECK(contains(require(run_zrt(eval + " --data " + (run / "held")), 2), (run / "held") + " was made by"));
    const json with_old = json::parse(require(run_zrt(eval + " --data " + (run / "same")))), was = json::parse(loss);
    CHECK(with_old["loss"] == was["loss"]);
    CHECK(with_old["tokens"] == was["tokens"]);
  }
}

TEST_CASE("names and texts with escape bytes reach no terminal") {
  const Run run("escapes");
  const std::string escape = "\x1b[31m", shown = "\\x1b[31m";
  const auto clean = [&](const std::string& text) {
    INFO(text);
    CHECK(contains(text, shown));
    CHECK(!contains(text, "\x1b"));
  };
  const std::string named = "'" + (run / ("a" + escape)) + ".txt'";
  clean(require(run_zrt("data build --out " + (run / "x") + ' ' + named), 1));
  fs::create_directory(run.path / "folder");
  fs::copy(run.path / "text.txt", run.path / "folder/text.txt");
  run.write("folder/" + escape + ".png", "picture");
  clean(require(run_zrt("data build --out " + (run / "x") + ' ' + (run / "folder"))));  // skipped
  clean(require(run_zrt("data build --out '" + (run / ("y" + escape)) + "' " + (run / "text.txt"))));
  clean(require(
      run_zrt("data tokenizer --vocab 512 --out '" + (run / ("t" + escape)) + ".model' " + (run / "text.txt"))));
  auto meta = *runtime::data::read_meta(run / "b");
  meta.tokenizer = "bytes" + escape;
  run.write("b.meta.json", runtime::data::to_json(meta));
  clean(require(run.train("refused"), 2));

  // Output goes to a terminal, which script(1) stands for; a file gets every byte.
  const std::string generate =
      "generate " + (run / "begun") + " --tokenizer bytes --tokens 4 --prompt '" + escape + "größe'";
  fs::remove(run.path / "b.meta.json");
  CHECK(contains(require(run_zrt(generate)), escape + "größe"));
  run.write("command.sh", std::string(ZRT_BINARY_DIR) + "/zrt " + generate + "\n");
  const std::string terminal =
      require(run_command("script -qec 'sh " + (run / "command.sh") + "' /dev/null </dev/null"));
  clean(terminal);
  CHECK(contains(terminal, shown + "größe"));

  const std::string controls = "\x1b[31m\x7f\xc2\x9b";  // ESC, DEL, CSI of C1
  const std::string made = "generate " + (run / "begun") + " --tokenizer bytes --tokens 4 --prompt '" + controls + "'";
  for (const std::string as : {"", " --json"}) {
    run.write("command.sh", std::string(ZRT_BINARY_DIR) + "/zrt " + made + as + "\n");
    const std::string seen = require(run_command("script -qec 'sh " + (run / "command.sh") + "' /dev/null </dev/null"));
    INFO(as << seen);
    for (const char* control : {"\x1b", "\x7f", "\xc2\x9b"}) CHECK(!contains(seen, control));
    CHECK(contains(seen, as.empty() ? "\\x1b[31m\\x7f\\xc2\\x9b" : "\\u001b[31m\\u007f\\u009b"));
    const std::string piped = require(run_zrt(made + as));
    CHECK(contains(piped, as.empty() ? controls : "\\u001b[31m\x7f\xc2\x9b"));
  }
}

TEST_CASE("the size of a tokenizer is asked for where one is trained, and refused elsewhere") {
  const Run run("vocab_of_bytes");
  const Result refused = run_zrt("data build --vocab 300 --out " + (run / "sized") + ' ' + (run / "a.text"));
  CHECK(refused.code == 2);
  CHECK(contains(refused.text, "--vocab is the size of a tokenizer that is trained (--tokenizer train)"));
  CHECK(!fs::exists(run.path / "sized.bin"));
}

TEST_CASE("a dataset may be of more files than a shell lets a program open") {
  const Folder folder("many_files");
  for (int shard = 0; shard < 100; ++shard) {
    std::vector<int32_t> header(256);
    header[0] = 20240520, header[1] = 1, header[2] = 64;
    const std::vector<uint16_t> tokens(64, 7);
    std::ofstream out(folder.path / ("shard_" + std::to_string(1000 + shard) + ".bin"), std::ios::binary);
    out.write(reinterpret_cast<const char*>(header.data()), 1024);
    out.write(reinterpret_cast<const char*>(tokens.data()), 128);
  }
  folder.write("c.json", R"({"train_batch_size": 2, "model": {"preset": "gpt2-tiny"}, "run": {"steps": 2},
    "data": {"train": ")" + (folder / "shard_*.bin") +
                             "\"}}");
  const Result run =
      run_command("ulimit -Sn 64; " ZRT_BINARY_DIR "/zrt train " + (folder / "c.json") + " --out " + (folder / "run"));
  INFO(run.text);
  CHECK(run.code == 0);
}

}  // namespace zrt::data_command_test
