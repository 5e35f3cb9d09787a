// Text files become datasets: inputs, documents, gzip, the validation part, counts, tokenizer.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/validation_split.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/gzip.h"

namespace zrt::data_build_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::gzip;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;
using zrt::core::DataError;

namespace {

// The documents of a dataset as text; each must end with the end-of-document id and hold no other.
std::vector<std::string> texts_of(const std::string& prefix) {
  std::vector<std::string> texts;
  for (const auto& tokens : test::read_dataset(prefix, 257)) {
    CHECK(std::count(tokens.begin(), tokens.end(), 256) == 1);
    CHECK(tokens.back() == 256);
    texts.push_back(ByteTokenizer().decode(tokens));
  }
  return texts;
}

BuildOptions options_for(std::vector<std::string> inputs, const std::string& out, double validation = 0) {
  BuildOptions options;
  options.inputs = std::move(inputs);
  options.out = out;
  options.validation = validation;
  options.force = true;  // data_refusal_test.cpp builds without it
  return options;
}

std::string lines(size_t count, const std::string& word = "line") {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += word + " " + std::to_string(i) + "\n";
  return text;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the byte tokenizer gives every byte back", "[data]") {
  const auto tokenizer = make_tokenizer("bytes");
  CHECK(tokenizer->vocab_size() == 257);
  CHECK(tokenizer->eod() == 256);
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  std::vector<int32_t> ids;
  tokenizer->encode(all, ids);
  for (int i = 0; i < 256; ++i) CHECK(ids[static_cast<size_t>(i)] == i);
  ids.push_back(256);
  CHECK(tokenizer->decode(ids) == all);
  CHECK_THROWS_AS(tokenizer->decode(std::vector<int32_t>{257}), DataError);
  CHECK_THROWS_AS(tokenizer->decode(std::vector<int32_t>{-1}), DataError);
  CHECK(contains(error_of<ConfigError>([] { make_tokenizer("byte"); }),
                 "'byte' is not known; legal are: bytes, the path of a SentencePiece model"));
}

TEST_CASE("folders are read recursively in order and say what they leave out", "[data]") {
  const TemporaryFolder folder;
  const std::string in = folder / "in";
  write_file(in + "/b.txt", "second");
  write_file(in + "/a/z.md", "first");
  write_file(in + "/c.text.gz", gzip("third"));
  write_file(in + "/c/empty.txt", "");
  write_file(in + "/c/empty.txt.gz", gzip(""));
  write_file(in + "/picture.png", "PNG");
  write_file(in + "/txt", "no ending");
  write_file(folder / "extra.log", "named");
  std::filesystem::create_directory_symlink(in, in + "/loop");
  std::filesystem::create_symlink("nowhere", in + "/dangling.txt");
  std::filesystem::create_symlink(in + "/b.txt", in + "/same.txt");

  const BuildResult result = build_dataset(options_for({in, folder / "extra.log"}, folder / "out/x"));
  CHECK(texts_of(folder / "out/x") == Texts{"first", "second", "third", "named"});
  CHECK(result.files == 4);
  CHECK(result.train.prefix == folder / "out/x");
  CHECK(!result.validation);
  std::vector<std::string> skipped;
  for (const SkippedInput& skip : result.skipped) skipped.push_back(skip.path.substr(in.size()) + ": " + skip.reason);
  std::sort(skipped.begin(), skipped.end());
  CHECK(skipped == Texts{"/c/empty.txt.gz: no text", "/c/empty.txt: no text", "/dangling.txt: not a regular file",
                         "/loop: a link to a folder",
                         "/picture.png: not .txt, .md, .text, .jsonl, .ndjson, or .gz or .zst of them",
                         "/same.txt: named twice",
                         "/txt: not .txt, .md, .text, .jsonl, .ndjson, or .gz or .zst of them"});
}

TEST_CASE("counts and entropy describe the text", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "aabb");
  write_file(folder / "b.txt", "cd\n\t\u00e9\u4e2da");
  const BuildResult result = build_dataset(options_for({folder / "a.txt", folder / "b.txt"}, folder / "x"));
  const DatasetMeta& meta = result.train.meta;
  CHECK(meta.documents == 2);
  CHECK(meta.bytes == 14);
  CHECK(meta.tokens == 16);
  const auto share = [](double p) { return -p * std::log2(p); };
  CHECK(meta.unigram_entropy == Approx(share(3 / 14.0) + share(2 / 14.0) + 9 * share(1 / 14.0)));
  const auto written = read_meta(folder / "x");
  REQUIRE(written);
  CHECK(written->tokenizer == "bytes");
  CHECK(written->vocabulary == 257);
  CHECK(written->tokens == 16);
  CHECK(written->unigram_entropy == meta.unigram_entropy);
  const IndexedDataset data(folder / "x");
  CHECK(data.type() == TokenType::u16);
  CHECK(data.tokens() == 16);

  write_file(folder / "same.txt", "aaaaaaaa");
  const BuildResult same = build_dataset(options_for({folder / "same.txt"}, folder / "y"));
  CHECK(same.train.meta.unigram_entropy == 0);
  CHECK(!std::signbit(same.train.meta.unigram_entropy));
}

TEST_CASE("blank lines separate paragraphs", "[data]") {
  const TemporaryFolder folder;
  BuildOptions options = options_for({folder / "a.txt"}, folder / "x");
  options.documents = Documents::paragraph;
  const auto paragraphs = [&](const std::string& text) {
    write_file(folder / "a.txt", text);
    build_dataset(options);
    return texts_of(folder / "x");
  };
  CHECK(paragraphs("one\ntwo\n\nthree") == Texts{"one\ntwo\n", "three"});
  CHECK(paragraphs("\n \n\t\r\none\r\n\r\n\r\ntwo\n\n\n") == Texts{"one\r\n", "two\n"});
  CHECK(paragraphs("  indented\n\nx") == Texts{"  indented\n", "x"});
  // Paragraphs and lines may cross the chunks in which the file is read.
  const std::string wide(3000000, 'w'), many = lines(400000);
  CHECK(paragraphs(wide + "\n\n" + many + "\n" + wide) == Texts{wide + "\n", many, wide});
  for (size_t shift = 0; shift < 4; ++shift) {
    const std::string first((1u << 20) - 3 + shift, 'f');
    CHECK(paragraphs(first + "\n\nx\n\n") == Texts{first + "\n", "x\n"});
  }
  write_file(folder / "a.txt", " \n\n\t\n");
  CHECK(
      contains(error_of<DataError>([&] { build_dataset(options); }), (folder / "a.txt") + ": the file holds no text"));
  CHECK(parse_documents("file") == Documents::file);
  CHECK(parse_documents("paragraph") == Documents::paragraph);
  CHECK_THROWS_AS(parse_documents("line"), ConfigError);
}

TEST_CASE("one big file is split at a line near its end", "[data]") {
  const TemporaryFolder folder;
  const std::string text = lines(5000);
  write_file(folder / "big.txt", text);
  const BuildResult result = build_dataset(options_for({folder / "big.txt"}, folder / "corpus", 0.05));
  CHECK(!result.split_by_document);
  CHECK(result.train.prefix == folder / "corpus/train");
  REQUIRE(result.validation);
  CHECK(result.validation->prefix == folder / "corpus/validation");
  const Texts train = texts_of(folder / "corpus/train"), validation = texts_of(folder / "corpus/validation");
  REQUIRE(train.size() == 1);
  REQUIRE(validation.size() == 1);
  CHECK(train[0] + validation[0] == text);
  CHECK(train[0].back() == '\n');
  CHECK(std::abs(static_cast<double>(validation[0].size()) - 0.05 * static_cast<double>(text.size())) < 20);
  CHECK(result.validation->meta.bytes == static_cast<int64_t>(validation[0].size()));
  CHECK(result.validation->meta.unigram_entropy > 0);
  CHECK(result.validation->meta.unigram_entropy != result.train.meta.unigram_entropy);
}

TEST_CASE("a few documents each give their end to validation", "[data]") {
  const TemporaryFolder folder;
  Texts names;
  for (int i = 0; i < 3; ++i) {
    names.push_back(folder / (std::to_string(i) + ".txt"));
    write_file(names.back(), lines(1000, "word" + std::to_string(i)));
  }
  const BuildResult result = build_dataset(options_for(names, folder / "corpus", 0.1));
  CHECK(!result.split_by_document);
  const Texts train = texts_of(folder / "corpus/train"), validation = texts_of(folder / "corpus/validation");
  REQUIRE(train.size() == 3);
  REQUIRE(validation.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(train[i] + validation[i] == test::read_file(names[i]));
}

TEST_CASE("many documents are drawn whole for validation, each time the same", "[data]") {
  const TemporaryFolder folder;
  std::string text;
  for (size_t i = 0; i < 1000; ++i) text += "paragraph " + std::to_string(i) + "\n\n";
  write_file(folder / "a.txt", text);
  BuildOptions options = options_for({folder / "a.txt"}, folder / "corpus", 0.05);
  options.documents = Documents::paragraph;
  const BuildResult result = build_dataset(options);
  CHECK(result.split_by_document);
  const Texts train = texts_of(folder / "corpus/train"), validation = texts_of(folder / "corpus/validation");
  CHECK(train.size() + validation.size() == 1000);
  CHECK(std::abs(static_cast<int>(validation.size()) - 50) < 3);
  Texts all = train;
  all.insert(all.end(), validation.begin(), validation.end());
  std::sort(all.begin(), all.end());
  CHECK(std::unique(all.begin(), all.end()) == all.end());  // nothing in both
  CHECK(all.size() == 1000);
  // The documents are drawn from all over the text, not from one end.
  const auto early = std::count_if(validation.begin(), validation.end(),
                                   [](const std::string& t) { return std::stoi(t.substr(10)) < 500; });
  CHECK((early > 10 && early < 40));
  build_dataset(options);
  CHECK(texts_of(folder / "corpus/validation") == validation);
}

TEST_CASE("validation gets the share of the text that was asked for, however unequal its documents are", "[data]") {
  struct Case {
    const char* what;
    std::vector<size_t> lines;  // of each document
    bool by_document;
  };
  const auto documents = [](std::vector<size_t> small, size_t large) {
    small.push_back(large);
    return small;
  };
  for (const Case& each :
       {Case{"many of one size", std::vector<size_t>(300, 10), true},
        Case{"many small ones and a larger one", documents(std::vector<size_t>(300, 10), 200), true},
        Case{"a few of one size", std::vector<size_t>(12, 250), false},
        Case{"small ones and one that is nearly all", documents(std::vector<size_t>(12, 2), 3000), false},
        Case{"many small ones and one that is most", documents(std::vector<size_t>(100, 2), 3000), false},
        Case{"one alone", {3000}, false}}) {
    for (const double fraction : {0.1, 0.2}) {
      INFO(each.what << ", " << fraction << " of them");
      const TemporaryFolder folder;
      std::string text;
      for (size_t d = 0; d < each.lines.size(); ++d) text += lines(each.lines[d], "text " + std::to_string(d)) + "\n";
      write_file(folder / "a.txt", text);
      BuildOptions options = options_for({folder / "a.txt"}, folder / "corpus", fraction);
      options.documents = Documents::paragraph;
      const BuildResult result = build_dataset(options);
      CHECK(result.split_by_document == each.by_document);
      const auto held = static_cast<double>(result.validation->meta.bytes);
      const double share = held / (held + static_cast<double>(result.train.meta.bytes));
      CHECK(share > 0.8 * fraction);
      CHECK(share < 1.1 * fraction);
    }
  }
}

TEST_CASE("a document is cut at the nearest line, else between characters", "[data]") {
  const std::string text = "aaaa\nbbbb\ncccc\ndddd\n";  // 20 bytes
  CHECK(cut_document(text, 0.25) == 15);
  CHECK(cut_document(text, 0.35) == 15);                         // exact place 13
  CHECK(cut_document(text, 0.45) == 10);                         // exact place 11
  CHECK(cut_document("abcdefghij", 0.3) == 7);                   // no line to cut at
  CHECK(cut_document("a\nbcdefghij", 0.2) == 9);                 // the line is too far
  CHECK(cut_document("abc\xe2\x82\xac\xe2\x82\xac", 0.4) == 3);  // 9 bytes, exact place 5 lies inside a character
  CHECK(cut_document("abc", 0.1) == 3);                          // nothing to cut off
  CHECK(cut_document("x", 0.9) == 1);
  CHECK(cut_document("", 0.5) == 0);
  CHECK(cut_document("\n\n\n\n", 0.5) == 2);
  for (size_t size = 1; size < 40; ++size)
    for (const char fill : {'\n', 'x', '\x80'})
      for (const double fraction : {0.01, 0.3, 0.5, 0.77, 0.999}) {
        const size_t cut = cut_document(std::string(size, fill), fraction);
        CHECK((cut > 0 && cut <= size));
      }
}

TEST_CASE("impossible builds name what is wrong and write nothing", "[data]") {
  const TemporaryFolder folder;
  const std::string out = folder / "out/x";
  const auto fails = [&](const Texts& inputs) {
    return error_of<DataError>([&] { build_dataset(options_for(inputs, out)); });
  };
  write_file(folder / "good.txt", "good");
  write_file(folder / "empty.txt", "");
  write_file(folder / "fake.gz", "not compressed");
  write_file(folder / "wrong.txt", gzip("compressed"));
  std::filesystem::create_directory(folder / "nothing");
  CHECK(contains(fails({}), "no input"));
  CHECK(contains(fails({folder / "missing.txt"}), (folder / "missing.txt") + ": cannot open it"));
  CHECK(contains(fails({folder / "good.txt", folder / "empty.txt"}),
                 (folder / "empty.txt") + ": the file holds no text"));
  CHECK(contains(fails({folder / "fake.gz"}), (folder / "fake.gz") + ": its name ends in .gz but it is not gzip"));
  CHECK(contains(fails({folder / "wrong.txt"}), (folder / "wrong.txt") + ": it is gzip data"));
  CHECK(contains(fails({folder / "nothing"}), (folder / "nothing") + ": no text was found"));
  REQUIRE(::mkfifo((folder / "pipe.txt").c_str(), 0600) == 0);
  CHECK(contains(fails({folder / "pipe.txt"}), "not a regular file"));
  write_file(folder / "nothing/empty.txt", "");
  CHECK(contains(fails({folder / "nothing"}), "too few"));
  if (::geteuid() != 0) {  // the superuser reads everything
    std::filesystem::permissions(folder / "good.txt", std::filesystem::perms::none);
    CHECK(contains(fails({folder / "good.txt"}), (folder / "good.txt") + ": cannot open it"));
    std::filesystem::permissions(folder / "good.txt", std::filesystem::perms::owner_all);
  }
  CHECK(!std::filesystem::exists(folder / "out"));

  for (const double fraction : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_AS(build_dataset(options_for({folder / "good.txt"}, out, fraction)), ConfigError);
  CHECK_THROWS_AS(build_dataset(options_for({folder / "good.txt"}, "")), ConfigError);
  BuildOptions unknown = options_for({folder / "good.txt"}, out);
  unknown.tokenizer = "none";
  CHECK_THROWS_AS(build_dataset(unknown), ConfigError);
  CHECK(contains(error_of<DataError>([&] { build_dataset(options_for({folder / "good.txt"}, out, 0.01)); }),
                 "too few to set the fraction 0.01 aside"));
}

TEST_CASE("damaged gzip files are refused by name wherever they are cut", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.txt.gz", text = lines(200), whole = gzip(text);
  const auto fails = [&](const std::string& bytes) {
    write_file(path, bytes);
    return error_of<DataError>([&] { build_dataset(options_for({path}, folder / "x")); });
  };
  CHECK(fails(whole).empty());
  CHECK(texts_of(folder / "x") == Texts{text});
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(size << " of " << whole.size() << " bytes");
    CHECK(contains(fails(whole.substr(0, size)), path));
  }
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ 0x10);
    const std::string message = fails(changed);
    INFO("byte " << byte);
    // Some header fields and the padding after the last block mean nothing; then the text must be whole.
    CHECK((contains(message, path) || (message.empty() && texts_of(folder / "x") == Texts{text})));
  }
  CHECK(texts_of(folder / "x") == Texts{text});  // a failed build leaves the old dataset
  CHECK(fails(whole + whole).empty());           // members may follow each other
  CHECK(texts_of(folder / "x") == Texts{text + text});
  CHECK(fails(whole + std::string(300000, '\0')).empty());  // tapes are filled up so
  CHECK(texts_of(folder / "x") == Texts{text});
  for (const std::string& tail :
       {std::string("a line of text"), std::string(300000, '\0') + "x", std::string("\x1fx")}) {
    const std::string message = fails(whole + tail);
    INFO(message);
    CHECK(contains(message, path));
    if (tail[0] == 'a') CHECK(contains(message, "from byte " + std::to_string(whole.size()) + " on"));
  }
}

TEST_CASE("progress counts all text of both passes", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", lines(300000));
  write_file(folder / "b.txt", "end\n");
  const auto size = static_cast<int64_t>(lines(300000).size() + 4);
  BuildOptions options = options_for({folder / "a.txt", folder / "b.txt"}, folder / "corpus", 0.1);
  int64_t scanned = 0, written = 0, calls = 0, documents = 0, tokens = 0;
  options.progress = [&](const BuildProgress& progress) {
    int64_t& bytes = progress.scanning ? scanned : written;
    CHECK((progress.documents >= documents || bytes == 0));
    CHECK((!progress.scanning || progress.tokens == 0));
    documents = progress.documents, tokens = progress.tokens;
    CHECK(progress.bytes > bytes);
    bytes = progress.bytes;
    ++calls;
    CHECK((progress.file == folder / "a.txt" || progress.file == folder / "b.txt"));
  };
  build_dataset(options);
  CHECK(scanned == size);
  CHECK(written == size);
  CHECK(calls > 4);
  CHECK(documents == 1);  // the last file was not read to its end then
  CHECK(tokens > 0);
}

}  // namespace zrt::data_build_test
