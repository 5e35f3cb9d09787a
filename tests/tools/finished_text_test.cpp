// Text from a finished run: each token follows from those before it, to the end of its sequence and from an empty
// prompt.
#include <set>

#include "core/error.h"
#include "program.h"
#include "runtime/config/config.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/train/generate.h"
#include "runtime/train/resume.h"
#include "tests/tools/finished_run.h"

namespace zrt::finished_text_test {

using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;
using namespace zrt::finished_run;

TEST_CASE("text fills the sequence of its model to the last position, and each token follows from those before it") {
  const Folder folder("sequence");
  build_data(folder);
  folder.write("run.json", base_config(folder).dump());
  require("train " + (folder / "run.json"));
  const RunPaths run = find_run(folder / "run");
  const Config config = load_resolved(run.config);
  const int64_t sequence = config.model.sequence;
  Generator generator(config, run.checkpoint);
  const auto text = [&](std::vector<int32_t> prompt, int64_t tokens, int64_t top_k = 40, double temperature = 0,
                        uint64_t seed = 1) {
    int64_t emitted = 0;
    GenerateOptions options{.prompt = std::move(prompt), .tokens = tokens, .sampling = {temperature, top_k, 1, seed}};
    options.emit = [&](int32_t) { return ++emitted > 0; };
    const GeneratedTokens made = generator.generate(options);
    CHECK(emitted == static_cast<int64_t>(made.tokens.size()));
    return made.tokens;
  };
  const auto prompt_of = [](int64_t length) {
    std::vector<int32_t> prompt;
    for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>('a' + i * 7 % 26));
    return prompt;
  };
  for (const int64_t length : {int64_t{1}, int64_t{5}, sequence - 1, sequence}) {
    INFO("a prompt of " << length << " of " << sequence);
    const std::vector<int32_t> prompt = prompt_of(length), whole = text(prompt, sequence - length + 1);
    CHECK(static_cast<int64_t>(whole.size()) == sequence - length + 1);
    CHECK(text(prompt, sequence - length + 2) == whole);
    CHECK(text(prompt, sequence - length) == std::vector<int32_t>(whole.begin(), whole.end() - 1));
    // Each as the first one behind a prompt that holds those before it.
    std::vector<int32_t> longer = prompt;
    for (const int32_t token : whole) {
      CHECK(text(longer, 1) == std::vector<int32_t>{token});
      longer.push_back(token);
    }
  }
  // A stop token ends the text and is no part of it.
  {
    const std::vector<int32_t> whole = text(prompt_of(5), 12);
    const int32_t stop = whole[3];
    const auto first = std::find(whole.begin(), whole.end(), stop);
    std::vector<int32_t> emitted;
    GenerateOptions options{.prompt = prompt_of(5), .tokens = 12, .sampling = {.temperature = 0}};
    options.stop_tokens = {0, stop};
    options.emit = [&](int32_t token) {
      emitted.push_back(token);
      return true;
    };
    const GeneratedTokens made = generator.generate(options);
    CHECK(made.tokens == std::vector<int32_t>(whole.begin(), first));
    CHECK(made.end == TextEnd::stop_token);
    CHECK(emitted == std::vector<int32_t>(whole.begin(), first));
  }
  CHECK_THROWS_AS(text(prompt_of(sequence + 1), 1), core::ConfigError);
  CHECK_THROWS_AS(text({}, 1), core::ConfigError);

  // One candidate is the likeliest token, whatever is drawn; as many as there are is no limit.
  const std::vector<int32_t> prompt = prompt_of(3), greedy = text(prompt, 12);
  std::set<std::vector<int32_t>> drawn;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    CHECK(text(prompt, 12, 1, 1.5, seed) == greedy);
    CHECK(text(prompt, 12, 0, 1.5, seed) == text(prompt, 12, config.model.vocab, 1.5, seed));
    CHECK(text(prompt, 12, 0, 1.5, seed) == text(prompt, 12, config.model.vocab + 1, 1.5, seed));
    drawn.insert(text(prompt, 12, 0, 1.5, seed));
    // Both of two candidates are taken, and no third one.
    std::vector<int32_t> before = prompt;
    for (const int32_t token : text(prompt, 12, 2, 1.5, seed)) {
      const std::vector<int32_t> likely = text(before, 1);
      std::set<int32_t> two{likely[0]};
      for (uint64_t other = 1; other <= 12; ++other) two.insert(text(before, 1, 2, 50, other)[0]);
      CHECK(two.size() == 2);
      CHECK(two.count(token) == 1);
      before.push_back(token);
      if (before.size() > prompt.size() + 2) break;
    }
  }
  CHECK(drawn.size() > 1);
}

TEST_CASE("an empty prompt begins a document: text follows the id that ends one, of any tokenizer") {
  for (const std::string tokenizer : {"bytes", "train --vocab 512"}) {
    INFO(tokenizer);
    const Folder folder("no_prompt");
    require("data build --validation 0.2 --tokenizer " + tokenizer + " --out " + (folder / "corpus") + " " +
            (folder / "text.txt"));
    const auto known = data::common_tokenizer({folder / "corpus/train"}, 1 << 20);
    const int32_t end = data::open_tokenizer(*known)->eod();
    folder.write("run.json", base_config(folder).dump());
    require("train " + (folder / "run.json") + " --set model.vocab=" + std::to_string(known->vocabulary));
    const RunPaths run = find_run(folder / "run");
    const Config config = load_resolved(run.config);
    Generator generator(config, run.checkpoint);
    int as_another = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const auto behind = [&](int32_t token) {
        GenerateOptions options{.prompt = {token}, .tokens = 12, .sampling = {1.5, 0, 1, seed}};
        options.stop_tokens = {end};
        return json(generator.generate(options).tokens);
      };
      const std::string how = " --prompt '' --tokens 12 --temperature 1.5 --top-k 0 --json --seed ";
      const json text = json::parse(require("generate " + (folder / "run") + how + std::to_string(seed)).text);
      CHECK(text["prompt"] == "");
      CHECK(text["tokens"] == behind(end));
      as_another += text["tokens"] == behind(0);
    }
    CHECK(as_another < 4);  // else the text would not show what it follows
  }
}

}  // namespace zrt::finished_text_test
