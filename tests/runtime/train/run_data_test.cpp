// A run wires its data: seeds, shares, special ids and limits reach the sample sources, which are made here a second
// time with numbers written out. The data that a checkpoint tells of are compared with those that are read after it.
#include <fstream>
#include <map>

#include "catch.h"
#include "core/error.h"
#include "core/file.h"
#include "runtime/data/blended_dataset.h"
#include "runtime/data/build.h"
#include "runtime/data/masked_dataset.h"
#include "runtime/train/data_identity.h"
#include "runtime/train/train_data.h"
#include "tests/temporary_folder.h"

namespace zrt::run_data_test {

using namespace runtime;
using checkpoint::Json;
using testing::TemporaryFolder;
namespace data = runtime::data;

namespace {

constexpr int64_t samples = 600;
constexpr int32_t end_of_document = 256;

struct Data {
  TemporaryFolder folder;
  // Two byte datasets of many documents, and held-out text.
  Data() {
    for (const char* name : {"a", "b", "held"}) {
      std::string text;
      for (int i = 0; i < 300; ++i) {
        text += "document " + std::to_string(i * 7919 % 1000) + " of " + name + " says little";
        text += i % (name == std::string("b") ? 4 : 3) == 0 ? " more\n\n" : "\n\n";
      }
      write(name, text);
    }
  }
  std::string operator/(const std::string& name) const { return (folder.path / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / (name + ".txt")) << text;
    data::BuildOptions build;
    build.inputs = {*this / (name + ".txt")};
    build.out = *this / name;
    build.documents = data::Documents::paragraph;
    build.force = true;
    data::build_dataset(build);
  }
  Config config(const Json& model, int64_t seed = 7, double first_weight = 3) const {
    const Json json{{"train_batch_size", 4},
                    {"model", model},
                    {"data",
                     {{"train", Json::array({Json::array({first_weight, *this / "a"}), Json::array({1, *this / "b"})})},
                      {"validation", Json::array({*this / "held"})}}},
                    {"run", {{"seed", seed}}}};
    return parse_config(json.dump(), "test", {}, 1);
  }
};

const Json gpt{{"preset", "gpt2-tiny"}, {"sequence", 32}};
// Ids 257 to 296 stand for nothing; 297, 298 and 299 are the special ones.
const Json bert{{"preset", "bert-tiny"}, {"sequence", 32}, {"vocab", 300}, {"mask_rate", 0.5}, {"whole_words", true}};

std::unique_ptr<data::SampleSource> blend(const Data& of, int64_t sequence, uint32_t seed, double first_weight = 3) {
  data::GptDatasetOptions common;
  common.sequence = sequence, common.vocabulary = 257, common.seed = seed;
  return data::open_training_data({{first_weight, of / "a"}, {1, of / "b"}}, samples, common);
}

std::shared_ptr<data::SampleSource> masked_text(std::shared_ptr<const data::SampleSource> text, uint64_t seed) {
  models::Masking masking{297, 298, 299};
  masking.rate = 0.5, masking.whole_words = true;
  const data::ByteTokenizer bytes;
  return std::make_shared<data::MaskedDataset>(
      std::move(text), 32,
      data::MaskedOptions{masking, data::word_parts(masking, &bytes, 300), seed, 257, end_of_document});
}

struct Sample {
  std::vector<int32_t> tokens, targets;
  bool operator==(const Sample&) const = default;
};

Sample read(const data::SampleSource& source, int64_t number) {
  const auto length = static_cast<size_t>(source.sequence());
  Sample sample{std::vector<int32_t>(length), std::vector<int32_t>(length)};
  source.read(number, {sample.tokens.data(), sample.targets.data()});
  return sample;
}

bool equal(const data::SampleSource& a, const data::SampleSource& b, int64_t count) {
  for (int64_t n = 0; n < count; ++n) {
    if (!(read(a, n) == read(b, n))) return false;
  }
  return true;
}

Json facts_of(const Config& config) {
  const models::Model model = config.model.make();
  return data_json(config, model, *open_train_data(config, model, samples), open_validation_data(config, model));
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a run reads its text in the order of its seed and the shares of its datasets") {
  const Data data;
  for (const int64_t seed : {7, 8}) {
    for (const double weight : {3.0, 0.5}) {
      const Config config = data.config(gpt, seed, weight);
      const auto source = open_train_data(config, config.model.make(), samples);
      CHECK(source->sequence() == 32);
      CHECK(equal(*source, *blend(data, 32, static_cast<uint32_t>(seed), weight), samples));
      int64_t of_first = 0;
      for (int64_t n = 0; n < samples; ++n) of_first += source->origin(n).dataset == 0;
      CHECK(std::abs(static_cast<double>(of_first) - samples * weight / (weight + 1)) <= 1);
    }
  }
}

TEST_CASE("a run masks with the special ids of its model, the end of its tokenizer's documents and its seed") {
  const Data data;
  for (const int64_t seed : {7, 8}) {
    const Config config = data.config(bert, seed);
    const auto source = open_train_data(config, config.model.make(), samples);
    CHECK(equal(*source, *masked_text(blend(data, 30, static_cast<uint32_t>(seed)), static_cast<uint64_t>(seed)),
                samples));
  }
}

TEST_CASE("no token that a run draws is special, an end of document or an id that is no text") {
  const Data data;
  const Config config = data.config(bert);
  const auto source = open_train_data(config, config.model.make(), samples);
  const auto text = blend(data, 30, 7);
  std::map<int32_t, int> drawn;
  int ends = 0, masks = 0;
  for (int64_t n = 0; n < samples; ++n) {
    const Sample masked = read(*source, n), plain = read(*text, n);
    CHECK((masked.tokens.front() == 297 && masked.tokens.back() == 298));
    for (size_t i = 0; i < plain.tokens.size(); ++i) {
      const int32_t was = plain.tokens[i], is = masked.tokens[i + 1];
      ends += was == end_of_document;
      if (is == 299)
        ++masks;
      else if (is != was)
        ++drawn[is];
    }
  }
  CHECK((ends > 100 && masks > 5000));
  // Each of 257 ids drawn at will some 900 times would come three or four times.
  int all = 0;
  for (const auto& [id, count] : drawn) all += count;
  CHECK((all > 800 && drawn.size() > 200));
  CHECK(drawn.count(end_of_document) == 0);
  CHECK(drawn.rbegin()->first < end_of_document);
}

TEST_CASE("held-out data is read as it lies, and masked alike in every evaluation") {
  const Data data;
  data::GptDatasetOptions plain;
  plain.prefix = data / "held", plain.vocabulary = 257, plain.order = data::Order::sequential;
  for (const int64_t seed : {7, 8}) {
    plain.sequence = 32;
    const Config text = data.config(gpt, seed);
    const auto held = open_validation_data(text, text.model.make());
    REQUIRE((held && held->size() == 1));
    const data::GptDataset expected(plain);
    CHECK(held->front().source->size() == expected.size());
    CHECK(equal(*held->front().source, expected, expected.size()));

    plain.sequence = 30;
    const Config hidden = data.config(bert, seed);
    const auto masked = open_validation_data(hidden, hidden.model.make());
    const auto also = masked_text(std::make_shared<data::GptDataset>(plain), 0);
    CHECK(masked->front().source->size() == also->size());
    CHECK(equal(*masked->front().source, *also, also->size()));
  }
}

TEST_CASE("a token beyond the model's vocabulary is refused in training and in evaluation") {
  const Data data;
  std::filesystem::remove(data / "a.meta.json");
  std::filesystem::remove(data / "b.meta.json");
  std::filesystem::remove(data / "held.meta.json");
  Json model = gpt;
  model["vocab"] = 256;  // all but the end of documents
  const Config config = data.config(model);
  const auto train = open_train_data(config, config.model.make(), samples);
  const auto held = open_validation_data(config, config.model.make());
  const auto message = [](const data::SampleSource& source) {
    try {
      for (int64_t n = 0; n < source.size(); ++n) read(source, n);
    } catch (const core::DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(contains(message(*train), "is 256; the model's vocabulary has 256 ids"));
  CHECK(contains(message(*held->front().source), "is 256; the model's vocabulary has 256 ids"));
}

TEST_CASE("what a checkpoint says of its data is compared with what is read after it") {
  const Data data;
  const Json before = facts_of(data.config(gpt));
  CHECK(before["train"].size() == 2);
  CHECK(before["train"][0]["prefix"] == data / "a");
  CHECK(before["train"][0]["share"] == 0.75);
  CHECK(before["train"][0]["documents"] == 300);
  CHECK(before["validation"].size() == 1);
  CHECK((before["sequence"] == 32 && before["train_batch_size"] == 4));
  const auto changes = [&](const Json& now) { return joined(data_changes(before, now, 100)); };
  CHECK(changes(before).empty());
  CHECK(data_changes(Json(), before, 100).empty());  // an old checkpoint says nothing

  Json now = before;
  now["train"][0]["share"] = 0.5, now["train"][1]["share"] = 0.5;
  CHECK(contains(changes(now), data / "a" +
                                   " gives 0.5 of the samples and gave 0.75: about 25 of the 75 that were read "
                                   "repeat"));
  CHECK(contains(changes(now), data / "b" + " gives 0.5 of the samples and gave 0.25: about 25 behind the 25 that were "
                                            "read are lost"));

  for (const char* key : {"documents", "tokens", "xxh3"}) {
    now = before;
    now["train"][1][key] = key == std::string("xxh3") ? Json("0123456789abcdef") : Json(77);
    const std::string text = changes(now);
    CHECK(contains(text, data / "b" + " has"));
    CHECK(contains(text, now["train"][1][key].is_string() ? "index 0123456789abcdef" : "77 " + std::string(key)));
    CHECK(contains(text, "about 25 that were read may come again"));
    CHECK(!contains(text, data / "a"));
  }

  now = before;
  now["train"][0]["prefix"] = "moved";
  CHECK(changes(now) == "data.train moved was " + data / "a" +
                            " in the checkpoint, with the same index and tokens: no sample repeats or is lost\n");
  std::swap(now["train"][0], now["train"][1]);
  CHECK(contains(changes(now), "moved was"));

  const std::string order = "data.train has its datasets in another order than the checkpoint";
  CHECK(contains(changes(now), order));
  now = before;
  std::swap(now["train"][0], now["train"][1]);
  CHECK(changes(now).find(order) == 0);
  CHECK(joined(data_changes(before, now, 0)).empty());  // nothing was read
  now["train"].insert(now["train"].begin() + 1, now["train"][0]), now["train"][1]["prefix"] = "new";
  CHECK(contains(changes(now), order));

  now = before;
  now["train"][0]["prefix"] = "moved";
  std::swap(now["train"][0], now["train"][1]);
  now["train"].erase(1);
  now["train"][0]["share"] = 1.0;
  CHECK(contains(changes(now), "data.train " + data / "a" + " of the checkpoint is gone: about 75 samples"));
  CHECK(contains(joined(data_changes(now, before, 100)), data / "a" + " is not in the checkpoint's data"));
  CHECK(contains(joined(data_changes(now, before, 100)), "about 75 samples of it had been read, which are lost"));

  now = before;
  now["train_batch_size"] = 2;
  CHECK(contains(changes(now), "train_batch_size is 2 and was 4: no sample repeats or is lost"));
  now = before;
  now["validation"][0]["tokens"] = 5;
  CHECK(contains(changes(now), "data.validation[0].tokens: "));

  const Json hidden = facts_of(data.config(bert));
  Json other = bert;
  other["mask_rate"] = 0.25, other["whole_words"] = false;
  const std::string masks = joined(data_changes(hidden, facts_of(data.config(other)), 100));
  CHECK(contains(masks, "model.mask_rate is 0.25 and was 0.5"));
  CHECK(contains(masks, "model.whole_words is false and was true"));

  data.write("b", std::string(99, 'x') + "\n\nanother\n\n");
  const std::string rebuilt = changes(facts_of(data.config(gpt)));
  CHECK(contains(rebuilt, data / "b" + " has 2 documents, 110 tokens"));
  CHECK(contains(rebuilt, "'s " + data / "b" + " has 300 documents"));
}

TEST_CASE("other tokens under an equal index are told, by ranks and where a run goes on") {
  const Data data;
  const Json before = facts_of(data.config(gpt));
  {
    std::fstream tokens(data / "b.bin", std::ios::in | std::ios::out | std::ios::binary);
    tokens.seekp(40);
    tokens.put('!');
  }
  const Json now = facts_of(data.config(gpt));
  CHECK(now != before);
  CHECK(now["train"][0] == before["train"][0]);
  CHECK(now["train"][1]["xxh3"] == before["train"][1]["xxh3"]);
  const std::string changes = joined(data_changes(before, now, 100));
  INFO(changes);
  CHECK(contains(changes, data / "b" + " has the index of the checkpoint's " + data / "b" + ", but its tokens are"));
  CHECK(contains(changes, before["train"][1]["tokens_xxh3"].get<std::string>()));
  CHECK(!contains(changes, data / "a"));

  Json old = before;  // of a checkpoint without these keys
  for (Json& dataset : old["train"]) dataset.erase("tokens_xxh3"), dataset.erase("tokenizer");
  for (Json& dataset : old["validation"]) dataset.erase("tokens_xxh3"), dataset.erase("tokenizer");
  CHECK(joined(data_changes(old, now, 100)).empty());
  CHECK(other_tokenizer(old, now).empty());
}

TEST_CASE("data of another tokenizer is told, whatever the weights are taken for") {
  const Data data;
  const Json bytes = facts_of(data.config(gpt));
  CHECK(bytes["train"][0]["tokenizer"] == "'bytes' of 257 tokens");
  CHECK(other_tokenizer(bytes, bytes).empty());
  Json words = bytes;
  for (Json& dataset : words["train"]) dataset["tokenizer"] = "'sentencepiece' 0123456789abcdef of 257 tokens";
  for (const auto& [before, now] : {std::pair(bytes, words), std::pair(words, bytes)}) {
    CHECK(contains(other_tokenizer(before, now), "the same ids mean other text"));
    CHECK(data_changes(before, now, 100).front() == other_tokenizer(before, now));
  }
  // One that is not known may be the same.
  std::filesystem::remove(data / "a.meta.json");
  CHECK(other_tokenizer(words, facts_of(data.config(gpt))) == other_tokenizer(words, bytes));
  for (const char* name : {"b.meta.json", "held.meta.json"}) std::filesystem::remove(data / name);
  CHECK(other_tokenizer(words, facts_of(data.config(gpt))).empty());
}

TEST_CASE("each of two datasets with one prefix is compared with one of the checkpoint") {
  const Data data;
  const Json one = facts_of(data.config(gpt));
  Json two = one;
  two["train"][0]["share"] = 0.25, two["train"][1]["share"] = 0.5;
  two["train"].push_back(one["train"][0]), two["train"][2]["share"] = 0.25;
  CHECK(joined(data_changes(two, two, 100)).empty());

  const std::string split = joined(data_changes(one, two, 100));
  INFO(split);
  CHECK(contains(split, data / "a" + " gives 0.25 of the samples and gave 0.75"));
  CHECK(contains(split, data / "a" + " is not in the checkpoint's data"));
  const std::string joint = joined(data_changes(two, one, 100));
  INFO(joint);
  CHECK(contains(joint, data / "a" + " gives 0.75 of the samples and gave 0.25"));
  CHECK(contains(joint, data / "a" + " of the checkpoint is gone: about 25 samples"));
}

TEST_CASE("a large file of tokens is hashed in blocks at even distances, its ends among them") {
  const Data data;
  const auto path = data / "large";
  constexpr uint64_t bytes = (uint64_t{1} << 30) + 777, block = 64 << 10;
  std::ofstream(path).close();
  std::filesystem::resize_file(path, bytes);  // a file of zeros, of which the disk holds none
  const std::string zeros = core::InputFile(path).sampled_xxh3();
  const auto with = [&](uint64_t place) {
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(place)), file.put('x');
    }
    const std::string changed = core::InputFile(path).sampled_xxh3();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(place)), file.put('\0');
    return changed;
  };
  // The blocks begin at i (bytes - block) / 255.
  for (const uint64_t i : {0, 1, 100, 254, 255}) {
    const uint64_t first = i * (bytes - block) / 255;
    INFO("block " << i);
    CHECK((with(first) != zeros && with(first + block - 1) != zeros));
  }
  CHECK(with(block) == zeros);
  std::filesystem::resize_file(path, bytes + 1);
  CHECK(core::InputFile(path).sampled_xxh3() != zeros);
  std::filesystem::resize_file(path, 256 * block);
  CHECK(core::InputFile(path).sampled_xxh3() == core::InputFile(path).xxh3());
  std::filesystem::resize_file(path, 256 * block + 1);
  CHECK(core::InputFile(path).sampled_xxh3() != core::InputFile(path).xxh3());
}

}  // namespace zrt::run_data_test
