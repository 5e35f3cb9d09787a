// Twelve sources with one tokenizer, from text to an evaluation of each language, through the program.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.h"
#include "tests/record_hashes.h"

namespace zrt::languages_test {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string run_zrt(const std::string& arguments, int expected = 0) {
  const std::string command = std::string(ZRT_BINARY_DIR) + "/zrt " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  const int status = pclose(pipe);
  INFO("zrt " << arguments << "\n" << text);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == expected);
  return text;
}

const std::vector<std::string> languages{"de", "en", "es",    "fr", "id",    "it",
                                         "ja", "pt", "pt-br", "ru", "zh-cn", "zh-tw"};
const std::vector<std::string> words{"größe",  "size", "tamaño", "taille", "ukuran", "misura",
                                     "大きさ", "pois", "você",   "размер", "大小",   "體積"};

// The data of all languages, built once; a run trained on it.
struct Corpus {
  fs::path path = fs::temp_directory_path() / ("zrt_languages_" + std::to_string(getpid()));
  std::string run = (path / "run").string();

  Corpus() {
    fs::remove_all(path);
    fs::create_directories(path / "text");
    json train = json::array(), validation = json::array();
    for (size_t l = 0; l < languages.size(); ++l) {
      std::ofstream text(path / "text" / (languages[l] + ".txt"));
      // Lengths differ, so that the sets end within batches at different places.
      for (size_t i = 0; i < 150 + 31 * l; ++i) text << words[l] << ' ' << i * 7919 % 97 << (i % 5 == 0 ? "\n" : " ");
    }
    const std::string tokenizer = (path / "t.model").string();
    run_zrt("data tokenizer --vocab 512 --out " + tokenizer + " " + (path / "text").string());
    for (size_t l = 0; l < languages.size(); ++l) {
      const std::string out = (path / languages[l]).string();
      run_zrt("data build --validation 0.2 --language " + languages[l] + " --tokenizer " + tokenizer + " --out " + out +
              " " + (path / "text" / (languages[l] + ".txt")).string());
      train.push_back({1.0 + static_cast<double>(l), out + "/train", languages[l]});
      validation.push_back({out + "/validation", languages[l]});
    }
    const json config{{"train_batch_size", 4},
                      {"train_micro_batch_size_per_gpu", 2},
                      {"zero_optimization", {{"stage", 3}}},
                      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.003}}}}},
                      {"model", {{"layers", 1}, {"hidden", 32}, {"heads", 2}, {"sequence", 16}, {"vocab", 512}}},
                      {"data", {{"train", train}, {"validation", validation}}},
                      {"run", {{"steps", 8}, {"out", run}}}};
    std::ofstream(path / "config.json") << config.dump();
    run_zrt("train " + (path / "config.json").string() + " --ranks 2");
  }
  ~Corpus() { fs::remove_all(path); }
};

const Corpus& corpus() {
  static const Corpus all;
  return all;
}

json evaluated(const std::string& arguments) {
  return json::parse(run_zrt("eval " + corpus().run + " --json " + arguments));
}

}  // namespace

TEST_CASE("Each language is evaluated, and the total counts every token once") {
  const json all = evaluated("");
  REQUIRE(all["sets"].size() == 12);
  double nats = 0, bits = 0;
  int64_t tokens = 0, bytes = 0;
  for (size_t l = 0; l < 12; ++l) {
    const json& set = all["sets"][l];
    CHECK(set["language"] == languages[l]);
    CHECK(set["bytes"] > set["tokens"]);
    nats += set["loss"].get<double>() * set["tokens"].get<double>();
    bits += set["bits_per_byte"].get<double>() * set["bytes"].get<double>();
    tokens += set["tokens"].get<int64_t>();
    bytes += set["bytes"].get<int64_t>();
    // Bits per byte say the same as nats per token.
    CHECK(set["bits_per_byte"].get<double>() * set["bytes"].get<double>() ==
          Approx(set["loss"].get<double>() * set["tokens"].get<double>() / std::log(2.0)).epsilon(0.01));
  }
  CHECK(all["tokens"] == tokens);
  CHECK(all["bytes"] == bytes);
  CHECK(all["loss"].get<double>() == Approx(nats / static_cast<double>(tokens)));
  CHECK(all["bits_per_byte"].get<double>() == Approx(bits / static_cast<double>(bytes)));
  // The trainer's last evaluation is the same one.
  std::ifstream summary(corpus().run + "/summary.json");
  CHECK(json::parse(summary)["validation"] == all);
}

TEST_CASE("A language's evaluation is that of its data alone, on any number of ranks") {
  const json all = evaluated("");
  for (const size_t l : {size_t{0}, size_t{6}, size_t{11}}) {
    const json alone = evaluated("--data " + (corpus().path / languages[l] / "validation").string());
    CHECK(alone["loss"] == all["sets"][l]["loss"]);
    CHECK(alone["tokens"] == all["sets"][l]["tokens"]);
    CHECK(alone["bits_per_byte"] == all["sets"][l]["bits_per_byte"]);
    CHECK(alone["language"] == languages[l]);
  }
  const std::string train =
      "train " + (corpus().path / "config.json").string() + " --steps 1 --set train_batch_size=null";
  for (const int ranks : {1, 3}) {
    const std::string out = (corpus().path / ("ranks" + std::to_string(ranks))).string();
    run_zrt(train + " --ranks " + std::to_string(ranks) + " --out " + out);
    fs::remove_all(out + "/checkpoints");
    fs::copy(corpus().run + "/checkpoints", out + "/checkpoints", fs::copy_options::recursive);
    const json other = json::parse(run_zrt("eval " + out + " --json"));
    for (size_t l = 0; l < 12; ++l) {
      CHECK(other["sets"][l]["tokens"] == all["sets"][l]["tokens"]);
      CHECK(other["sets"][l]["loss"].get<double>() == Approx(all["sets"][l]["loss"].get<double>()).epsilon(1e-6));
    }
  }
}

TEST_CASE("A total has bits per byte only where every set tells its bytes, whatever its place") {
  const auto data = [](const char* language) { return (corpus().path / language / "validation").string(); };
  const std::string bare = (corpus().path / "bare").string();
  for (const char* file : {".bin", ".idx"}) {
    fs::copy(data("de") + file, bare + file, fs::copy_options::overwrite_existing);
  }
  const std::vector<std::string> sets{data("de"), data("fr"), data("ru")};
  const json known = evaluated("--data " + sets[0] + " --data " + sets[1] + " --data " + sets[2]);
  CHECK((known.contains("bytes") && known.contains("bits_per_byte")));
  for (size_t place = 0; place < sets.size(); ++place) {
    INFO("set " << place << " does not tell");
    std::string arguments;
    for (size_t s = 0; s < sets.size(); ++s) arguments += "--data " + (s == place ? bare : sets[s]) + " ";
    const json total = evaluated(arguments);
    CHECK(!total.contains("bytes"));
    CHECK(!total.contains("bits_per_byte"));
    CHECK(std::isfinite(total["loss"].get<double>()));
    for (size_t s = 0; s < sets.size(); ++s) CHECK(total["sets"][s].contains("bits_per_byte") == (s != place));
  }
}

TEST_CASE("Text is made with no tokenizer but that of the run's data, whatever its file is called") {
  const fs::path path = corpus().path;
  const std::string generate = "generate " + corpus().run + " --prompt größe --tokens 8 --json --tokenizer ";
  fs::copy(path / "t.model", path / "same.model", fs::copy_options::overwrite_existing);
  CHECK(run_zrt(generate + (path / "same.model").string()) == run_zrt(generate + (path / "t.model").string()));
  run_zrt("data tokenizer --vocab 512 --out " + (path / "other.model").string() + " " +
          (path / "text/de.txt").string());
  for (const std::string& other : {(path / "other.model").string(), std::string("bytes")}) {
    const std::string refused = run_zrt(generate + other, 2);
    INFO(refused);
    CHECK(refused.find("--tokenizer is " + other) != std::string::npos);
    CHECK(refused.find("was made by 'sentencepiece'") != std::string::npos);
  }
}

TEST_CASE("The table names every language, and text comes back through the tokenizer") {
  const std::string table = run_zrt("eval " + corpus().run);
  for (const std::string& language : languages) CHECK(table.find("\n" + language + " ") != std::string::npos);
  CHECK(table.find("\nall ") != std::string::npos);
  const json text = json::parse(run_zrt("generate " + corpus().run + " --prompt größe --tokens 8 --json"));
  CHECK(text["prompt"] == "größe");
  CHECK(text["tokens"].size() <= 8);
}

namespace {

// Every byte of the values of a safetensors file.
void fill_values(const fs::path& path, char byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), 8);
  const std::string values(fs::file_size(path) - 8 - header, byte);
  file.seekp(static_cast<std::streamoff>(8 + header));
  file.write(values.data(), static_cast<std::streamsize>(values.size()));
}

}  // namespace

TEST_CASE("Data of another tokenizer or language, and weights that are not numbers, are refused") {
  const fs::path path = corpus().path;
  run_zrt("data build --out " + (path / "bytes").string() + " " + (path / "text/de.txt").string());
  const std::string other = run_zrt("eval " + corpus().run + " --data " + (path / "bytes").string(), 2);
  CHECK(other.find("their token ids mean different text") != std::string::npos);
  const std::string train = "train " + (path / "config.json").string() + " --out " + (path / "bad").string();
  const std::string de = (path / "de/validation").string();
  CHECK(run_zrt(train + " --set 'data.validation=[[\"" + de + "\", \"fr\"]]'", 2).find("which says 'de'") !=
        std::string::npos);
  CHECK(run_zrt(train + " --set data.validation=" + (path / "bytes").string(), 2).find("different text") !=
        std::string::npos);
  CHECK(run_zrt(train + " --set model.vocab=300", 2).find("model.vocab is 300") != std::string::npos);

  const fs::path plain = path / "plain", copy = path / "nan";
  run_zrt("checkpoint export " + corpus().run + " --out " + plain.string());
  run_zrt("checkpoint import " + plain.string() + " --out " + copy.string());
  for (const auto& entry : fs::directory_iterator(copy / "checkpoints/step_0"))
    if (entry.path().extension() == ".safetensors") fill_values(entry.path(), '\xFF');
  testing::record_hashes(copy / "checkpoints/step_0");
  const fs::path weights = plain / "model.safetensors";
  const auto fill = [&](char byte) { fill_values(weights, byte); };
  fill('\xFF');
  const std::string refused = run_zrt("checkpoint import " + plain.string() + " --out " + (path / "no").string(), 1);
  CHECK(refused.find(weights.string() + ": tensor '") != std::string::npos);
  CHECK(refused.find("is NaN at element 0 of [") != std::string::npos);
  const std::string tokenizer = " --tokenizer " + (path / "t.model").string();
  for (const std::string& command :
       {"eval " + copy.string() + " --data " + de, "generate " + copy.string() + tokenizer}) {
    const std::string message = run_zrt(command, 1);
    INFO(message);
    CHECK(message.find("step_0: the weight 'wte.weight' of unit '") != std::string::npos);
    CHECK(message.find("is NaN at element 0") != std::string::npos);
  }
  // Weights may be finite and what is computed with them not: 3.4e38.
  fill('\x7F');
  const fs::path large = path / "large";
  run_zrt("checkpoint import " + plain.string() + " --out " + large.string());
  const std::string loss = run_zrt("eval " + large.string() + " --data " + de, 1);
  CHECK(loss.find("step_0: the loss is") != std::string::npos);
  CHECK(loss.find("the weights are finite") != std::string::npos);
  CHECK(run_zrt("generate " + large.string() + tokenizer, 1)
            .find("the model's output is not a number: the weights are finite") != std::string::npos);
  // The first token is taken where all are equally likely.
  fill('\0');
  run_zrt("checkpoint import " + plain.string() + " --out " + (path / "equal").string());
  const std::string greedy =
      "generate " + (path / "equal").string() + tokenizer + " --prompt a --tokens 3 --temperature 0 --json";
  CHECK(json::parse(run_zrt(greedy))["tokens"] == json::array({0, 0, 0}));
}

}  // namespace zrt::languages_test
