// zrt generate: stops, several samples, prompts from a file; and the text that comes piece by piece.
#include <sstream>
#include <vector>

#include "tests/program.h"
#include "tools/commands/generated_text.h"

namespace zrt::generate_command_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

struct Pieces {
  std::string shown, end;
  bool stopped;
};

Pieces pieces(const std::string& text, std::vector<std::string> stops) {
  const runtime::data::ByteTokenizer bytes;
  tools::GeneratedText generated(bytes, {'a', 'b'}, std::move(stops));
  Pieces result;
  for (const char c : text) {
    const std::string piece = generated.add(static_cast<uint8_t>(c));
    result.shown += piece;
    if (generated.stopped()) break;
  }
  result.stopped = generated.stopped();
  result.end = generated.end();
  CHECK(result.shown + result.end == generated.text());
  return result;
}

}  // namespace

TEST_CASE("A text ends in front of a stop string, none of which was shown") {
  Pieces found = pieces("one two\n\nthree", {"\n\n", "four"});
  CHECK((found.shown == "one two" && found.end.empty() && found.stopped));
  found = pieces("one\ntwo", {"\n\n"});
  CHECK((found.shown == "one\ntwo" && !found.stopped));
  found = pieces("one two\n", {"\n\n"});  // may have been the begin of one
  CHECK((found.shown == "one two" && found.end == "\n" && !found.stopped));
  found = pieces("aababc", {"abc", "bx"});
  CHECK((found.shown == "aab" && found.stopped));
  found = pieces("xyz", {"yz", "xyz"});  // the one that begins first
  CHECK((found.shown.empty() && found.end.empty() && found.stopped));
}

TEST_CASE("Samples, prompts from files and stops, through the program") {
  const Folder folder("generate");
  build_data(folder);
  folder.write("run.json", folder.config());
  const Result trained = run_zrt("train " + (folder / "run.json") + " --ranks 1");
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const auto generate = [&](const std::string& arguments) {
    const Result result = run_zrt("generate " + (folder / "run") + " --tokens 12 " + arguments);
    INFO(arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
    return result.text;
  };
  const json one = json::parse(generate("--prompt li --json --temperature 1.5 --top-k 0"));
  CHECK((one["end"] == "tokens" && one["tokens"].size() == 12 && !one.contains("sample")));
  const std::string three = generate("--prompt li --json --temperature 1.5 --top-k 0 --samples 3");
  const std::vector<json> samples = lines_of(three);
  REQUIRE(samples.size() == 3);
  CHECK(samples[0]["tokens"] == one["tokens"]);
  CHECK((samples[1]["tokens"] != one["tokens"] && samples[1]["sample"] == 1));
  CHECK(lines_of(generate("--prompt li --json --temperature 1.5 --top-k 0 --samples 2"))[1] == samples[1]);

  folder.write("prompts.txt", "zz\n\nli\n");
  folder.write("prompts.jsonl", "{\"prompt\": \"a\\nb\"}\n{\"prompt\": \"li\"}\n");
  for (const std::string file : {"prompts.txt", "prompts.jsonl"}) {
    const std::vector<json> texts =
        lines_of(generate("--json --temperature 1.5 --top-k 0 --prompts " + (folder / file)));
    REQUIRE(texts.size() == 2);
    CHECK(texts[1]["tokens"] == one["tokens"]);
    CHECK(texts[0]["prompt"] == (file == "prompts.txt" ? "zz" : "a\nb"));
  }
  const std::string plain = generate("--temperature 0 --samples 2 --prompts " + (folder / "prompts.txt"));
  CHECK(plain.find("== prompt 2 of 2, sample 1 of 2 ==\nli") != std::string::npos);

  const json greedy = json::parse(generate("--prompt li --temperature 0 --json"));
  const std::string text = greedy["text"];
  const auto stop_id = std::to_string(greedy["tokens"][0].get<int>());
  const json stopped = json::parse(generate("--prompt li --temperature 0 --json --stop-id " + stop_id));
  CHECK((stopped["end"] == "stop id" && stopped["tokens"].empty() && stopped["text"] == ""));
  if (const char last = text.back(); last > ' ' && last != '\'') {
    const json cut =
        json::parse(generate("--prompt li --temperature 0 --json --stop '" + text.substr(text.size() - 1) + "'"));
    CHECK(cut["end"] == "stop text");
    CHECK(cut["text"] == text.substr(0, text.find(last)));
  }
  const auto refused = [&](const std::string& arguments) {
    return run_zrt("generate " + (folder / "run") + " " + arguments).text;
  };
  CHECK(refused("--top-p 0").find("--top-p is 0; legal") != std::string::npos);
  CHECK(refused("--samples 0").find("--samples is 0; legal") != std::string::npos);
  CHECK(refused("--stop ''").find("--stop is an empty text") != std::string::npos);
  CHECK(refused("--stop-id 9999999").find("--stop-id is 9999999; legal") != std::string::npos);
  CHECK(refused("--prompt a --prompts x").find("both given") != std::string::npos);
  folder.write("bad.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"a\"}\n");
  CHECK(refused("--prompts " + (folder / "bad.jsonl")).find("bad.jsonl:2: must be an object") != std::string::npos);
}

}  // namespace zrt::generate_command_test
