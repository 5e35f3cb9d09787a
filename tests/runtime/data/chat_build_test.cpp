// Datasets of conversations: the ids, the pair that says which of them count, and what is no conversation.
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/foreign.h"
#include "runtime/data/token_mask.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::chat_build_test {
namespace {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;
using zrt::core::DataError;

constexpr const char* simple_template =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

std::string line_of(const std::string& question, const std::string& answer) {
  return nlohmann::json{{"prompt", question}, {"completion", answer}}.dump() + "\n";
}

struct Chats {
  TemporaryFolder folder;
  BuildOptions options;

  explicit Chats(const std::string& lines) {
    write_file(folder / "model/chat_template.jinja", simple_template);
    write_file(folder / "in.jsonl", lines);
    options.inputs = {folder / "in.jsonl"};
    options.out = folder / "out/x";
    options.chat = folder / "model";
    options.force = true;
  }
  template <class E>
  std::string refusal() const {
    return error_of<E>([&] { build_dataset(options); });
  }
  // A dataset of bytes as text, with ⟦ ⟧ replaced by [ ] around what counts.
  std::vector<std::string> texts(const std::string& prefix) const {
    const auto data = open_documents(prefix);
    std::vector<std::string> all;
    for (int64_t i = 0; i < data->sequences(); ++i) {
      std::vector<int32_t> ids(static_cast<size_t>(data->length(i)));
      data->read(i, 0, data->length(i), 257, ids.data());
      std::string text;
      bool before = false;
      for (int32_t k = 0; k < data->length(i); ++k) {
        const bool counts = data->mask()->counts(i, k);
        if (counts != before) text += counts ? '[' : ']';
        text += static_cast<char>(ids[static_cast<size_t>(k)]);
        before = counts;
      }
      all.push_back(text + (before ? "]" : ""));
    }
    return all;
  }
  std::vector<std::string> texts() const { return texts(options.out); }
};

std::string many_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += line_of("question " + std::to_string(i), std::string(static_cast<size_t>(i * 37 % 101), 'x') + "é");
  return lines;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("each line becomes a document whose answers count, with nothing around it", "[data]") {
  const Chats chats(line_of("Hi", "Ho") +
                    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
                    R"( {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})");
  const BuildResult result = build_dataset(chats.options);
  CHECK(chats.texts() == Texts{"<user>Hi|<assistant>[Ho|]", "<user>a|<assistant>[b|]<user>c|<assistant>[d|]"});
  CHECK(result.train.meta.counted_tokens == 7);
  CHECK(result.train.meta.tokens == 23 + 42);
  CHECK(read_meta(chats.options.out)->counted_tokens == 7);
  // Other tools read the counts as any dataset of bytes.
  const IndexedDataset counts(chats.options.out + ".counts");
  CHECK(counts.type() == TokenType::u8);
  CHECK(counts.documents() == 2);
  CHECK(read_file(chats.options.out + ".counts.bin") ==
        std::string(20, '\0') + "\1\1\1" + std::string(19, '\0') + "\1\1" + std::string(19, '\0') + "\1\1");
}

TEST_CASE("ids are those of the folder's tokenizer, which the dataset keeps", "[data]") {
  Chats chats(line_of("Hi", "Ho"));
  chats.options.chat = chats.options.tokenizer = std::string(ZRT_TEST_DATA) + "/finetuning/qwen3";
  build_dataset(chats.options);
  const auto ids = test::read_dataset(chats.options.out, 400).at(0);
  CHECK(std::count(ids.begin(), ids.end(), 318) == 2);  // <|im_start|>
  CHECK(std::count(ids.begin(), ids.end(), 319) == 2);  // <|im_end|>
  CHECK(std::count(ids.begin(), ids.end(), 317) == 0);  // the end of documents
  const auto data = open_documents(chats.options.out);
  const int64_t last = data->length(0) - 2;  // a newline is behind
  CHECK(ids[static_cast<size_t>(last)] == 319);
  CHECK(data->mask()->counts(0, last));
  CHECK(!data->mask()->counts(0, last + 1));
  CHECK(read_meta(chats.options.out)->tokenizer_file == "x.tokenizer.json");
}

TEST_CASE("a dataset of conversations has the same bytes for any number of threads", "[data]") {
  Chats chats(many_lines(3000));
  std::vector<std::string> first;
  for (const int threads : {1, 2, 5}) {
    chats.options.threads = threads;
    build_dataset(chats.options);
    std::vector<std::string> files;
    for (const char* end : {".bin", ".idx", ".counts.bin", ".counts.idx", ".meta.json"})
      files.push_back(read_file(chats.options.out + end));
    if (first.empty()) first = files;
    CHECK(files == first);
  }
  CHECK(open_documents(chats.options.out)->sequences() == 3000);
  // Pieces of a document that the byte tokenizer encodes one by one.
  Chats large(line_of(std::string(700000, 'q'), std::string(600000, 'a')));
  build_dataset(large.options);
  CHECK(large.texts().at(0) == "<user>" + std::string(700000, 'q') + "|<assistant>[" + std::string(600000, 'a') + "|]");
}

TEST_CASE("held-out conversations are whole, and duplicates are left out", "[data]") {
  Chats chats(many_lines(400) + many_lines(200));
  chats.options.dedup = true;
  chats.options.validation = 0.1;
  const BuildResult result = build_dataset(chats.options);
  CHECK(result.duplicates == 200);
  REQUIRE(result.validation);
  Texts all = chats.texts(chats.options.out + "/train");
  const Texts held = chats.texts(chats.options.out + "/validation");
  CHECK(held.size() > 20);
  all.insert(all.end(), held.begin(), held.end());
  CHECK(all.size() == 400);
  CHECK(std::all_of(all.begin(), all.end(),
                    [](const std::string& text) { return text.starts_with("<user>") && text.ends_with("|]"); }));
  CHECK(
      *result.train.meta.counted_tokens + *result.validation->meta.counted_tokens ==
      static_cast<int64_t>(std::accumulate(all.begin(), all.end(), size_t{0}, [](size_t sum, const std::string& text) {
        return sum + text.size() - 2 - text.find('[');
      })));

  Chats few(line_of("Hi", "Ho"));
  few.options.validation = 0.5;
  CHECK(contains(few.refusal<DataError>(), "1 conversations are too few"));
}

TEST_CASE("bad conversations are named with their line, or left out and counted", "[data]") {
  Chats chats(line_of("Hi", "Ho") +
              "\n{\"text\": \"x\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n[1]\n" +
              line_of("a", "b"));
  CHECK(contains(chats.refusal<DataError>(), "in.jsonl: line 3: the line has neither 'messages' nor"));
  chats.options.skip_bad = true;
  const BuildResult result = build_dataset(chats.options);
  CHECK(chats.texts() == Texts{"<user>Hi|<assistant>[Ho|]", "<user>a|<assistant>[b|]"});
  REQUIRE(result.bad_lines.size() == 1);
  CHECK((result.bad_lines[0].count == 3 && result.bad_lines[0].first == 3));

  // A template that refuses a conversation, and one that marks nothing of it.
  write_file(
      chats.folder / "model/chat_template.jinja",
      "{% if messages|length > 2 %}{{ raise_exception('too long') }}{% endif %}{% for m in messages %}{{ m.content }}"
      "{% generation %}{% if m.content == 'b' %}b{% endif %}{% endgeneration %}{% endfor %}");
  chats.options.skip_bad = false;
  CHECK(contains(chats.refusal<DataError>(), "line 1: nothing that the template makes of it counts"));
  write_file(chats.folder / "in.jsonl",
             line_of("a", "b") +
                 R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
                 R"( {"role": "user", "content": "c"}]})");
  CHECK(contains(chats.refusal<DataError>(), "line 2: "));
  CHECK(contains(chats.refusal<DataError>(), "too long"));
}

TEST_CASE("options that make no sense with conversations are refused by name", "[data]") {
  Chats chats(line_of("Hi", "Ho"));
  const auto refused = [&](const auto& change) {
    Chats other(line_of("Hi", "Ho"));
    change(other.options);
    return other.refusal<ConfigError>();
  };
  CHECK(contains(refused([](BuildOptions& o) { o.tokenizer = "train"; }), "tokenizer is 'train'"));
  CHECK(contains(refused([](BuildOptions& o) { o.with_template = true; }), "template is asked for"));
  CHECK(contains(refused([](BuildOptions& o) { o.field = "text"; }), "field is 'text'"));
  CHECK(contains(refused([](BuildOptions& o) { o.documents = Documents::paragraph; }), "documents is 'paragraph'"));
  CHECK(contains(refused([](BuildOptions& o) { o.chat += "/none"; }), "has no chat template"));
  write_file(chats.folder / "a.txt", "text");
  chats.options.inputs.push_back(chats.folder / "a.txt");
  CHECK(contains(chats.refusal<ConfigError>(), "a.txt: conversations (chat) are read from JSON lines alone"));
}

TEST_CASE("the counts appear before the index, and go with it", "[data]") {
  Chats chats(line_of("Hi", "Ho"));
  build_dataset(chats.options);
  const std::string counts = chats.options.out + ".counts";
  // Without force it stands in the way by itself.
  for (const char* end : {".bin", ".idx"}) {
    Chats other(line_of("Hi", "Ho"));
    write_file(other.options.out + ".counts" + end, "mine");
    other.options.force = false;
    CHECK(contains(other.refusal<ConfigError>(), std::string("x.counts") + end + ": this file is there already"));
  }
  const int watch = ::inotify_init1(IN_NONBLOCK);
  REQUIRE(watch >= 0);
  REQUIRE(::inotify_add_watch(watch, (chats.folder / "out").c_str(), IN_MOVED_TO | IN_DELETE) >= 0);
  build_dataset(chats.options);
  std::vector<char> events(1 << 14);
  const ssize_t bytes = ::read(watch, events.data(), events.size());
  ::close(watch);
  Texts order;
  for (ssize_t at = 0; at < bytes;) {
    const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
    order.push_back(((event->mask & IN_DELETE) != 0 ? "-" : "+") + std::string(event->name));
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  const auto place = [&](const std::string& name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  CHECK(place("-x.idx") == 0);
  CHECK(place("-x.counts.idx") < place("+x.bin"));
  CHECK(place("+x.counts.bin") < place("+x.counts.idx"));
  CHECK(place("+x.counts.idx") < place("+x.idx"));
  CHECK(place("+x.idx") == static_cast<std::ptrdiff_t>(order.size()) - 1);

  // Text in its place has none.
  BuildOptions text;
  write_file(chats.folder / "a.txt", "text");
  text.inputs = {chats.folder / "a.txt"}, text.out = chats.options.out, text.force = true;
  build_dataset(text);
  CHECK((!std::filesystem::exists(counts + ".idx") && !std::filesystem::exists(counts + ".bin")));
  CHECK(open_documents(text.out)->mask() == nullptr);
  CHECK(!read_meta(text.out)->counted_tokens);
}

TEST_CASE("a description that is made anew says how many tokens count", "[data]") {
  const Chats chats(line_of("Hi", "Ho"));
  build_dataset(chats.options);
  std::filesystem::remove(meta_path(chats.options.out));
  CHECK(open_documents(chats.options.out)->mask()->counted() == 3);
  DescribeOptions describe;
  describe.prefix = chats.options.out;
  describe.tokenizer = "bytes";
  CHECK(describe_dataset(describe).meta.counted_tokens == 3);
}

}  // namespace zrt::chat_build_test
