// Tests what `zrt data build` refuses, what it does not replace, and that a refusal leaves nothing.
#include <fmt/format.h>

#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/data/build.h"
#include "runtime/data/tokenizer.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/gzip.h"

namespace zrt::data_refusal_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::gzip;
using test::TemporaryFolder;
using test::write_file;
using zrt::core::ConfigError;
using zrt::core::DataError;

namespace {

const std::string prose = "A text of some lines,\nof which none is long.\n";

BuildOptions options_for(const std::string& input, const std::string& out) {
  BuildOptions options;
  options.inputs = {input};
  options.out = out;
  return options;
}

struct Refusals {
  TemporaryFolder folder;
  // The message of a build from a file of this name and content, plain and compressed; it must leave nothing.
  std::string of(const std::string& name, const std::string& bytes) {
    std::string messages;
    for (const bool compressed : {false, true}) {
      const std::string path = folder / ("in/" + name + (compressed ? ".gz" : ""));
      write_file(path, compressed ? gzip(bytes) : bytes);
      const std::string message =
          error_of<DataError>([&] { build_dataset(options_for(path, folder / "out/deep/corpus")); });
      INFO(name << ", compressed " << compressed << ": " << message);
      CHECK(message.find(path + ": ") == 0);
      CHECK(contains(message, "of the decompressed text") == compressed);
      CHECK(!std::filesystem::exists(folder / "out"));
      messages = message;
    }
    return messages;
  }
  // The tokens of the document that a build makes of these bytes.
  std::vector<int32_t> built(const std::string& bytes) {
    write_file(folder / "in/good.txt", bytes);
    BuildOptions options = options_for(folder / "in/good.txt", folder / "good");
    options.force = true;
    build_dataset(options);
    return test::read_dataset(folder / "good", 257).at(0);
  }
};

// Each character of an ASCII text in `bytes` bytes.
std::string wide(const std::string& text, size_t bytes, bool little) {
  std::string out;
  for (const char c : text) {
    std::string unit(bytes, '\0');
    unit[little ? 0 : bytes - 1] = c;
    out += unit;
  }
  return out;
}

std::string lines_of(const std::string& line, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("binary files are refused with what they are and where it shows", "[data]") {
  Refusals refusals;
  using namespace std::string_literals;
  const std::string filler(5000, 'x');
  CHECK(contains(refusals.of("ls.txt",
                             "\x7f"
                             "ELF\x02\x01\x01\0"s +
                                 filler),
                 "byte 0"));
  CHECK(contains(refusals.of("ls",
                             "\x7f"
                             "ELF\x02\x01\x01\0"s +
                                 filler),
                 "it is an ELF program"));
  const std::string parquet = refusals.of("a.parquet", "PAR1\x15\x04"s + filler + "\0"s + filler);
  CHECK(contains(parquet, "it is a parquet file, not text. Convert it first: zcat " +
                              (refusals.folder / "in/a.parquet.gz") + " > " + (refusals.folder / "in/a.parquet") +
                              " && python3 -c 'import sys, pandas; "));
  CHECK(contains(parquet, "' " + (refusals.folder / "in/a.parquet") + " " + (refusals.folder / "in/a.jsonl")));
  CHECK(contains(refusals.of("a.arrow", "ARROW1\0\0\xff\xff\xff\xff"s + filler), "it is an Arrow file"));
  CHECK(contains(refusals.of("data-00000.arrow", "\xff\xff\xff\xff\xa8\0\0\0"s + filler), "it is an Arrow stream"));
  CHECK(contains(refusals.of("a.tar", "name" + std::string(253, '\0') + "ustar"s + filler), "it is a tar archive"));
  CHECK(contains(refusals.of("a.npy", "\x93NUMPY\x01\0"s + filler), "it is an array of NumPy"));
  CHECK(contains(refusals.of("a.docx", "PK\x03\x04"s + filler), "it is a zip archive"));
  CHECK(contains(refusals.of("a.txt", "SQLite format 3\0"s + filler), "a SQLite database"));
  CHECK(contains(refusals.of("a.pdf", "%PDF-1.7\n"s + filler), "it is a PDF"));
  CHECK(contains(refusals.of("a.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"),
                 "it is a pointer of Git LFS, whose file `git lfs pull` brings"));
  std::string marks;
  for (int i = 0; i < 100; ++i) marks += "\x1e{\"text\": \"a line\"}\n";
  CHECK(contains(refusals.of("a.txt", marks), "it is a control character, as are 100 of the file's 2000 bytes"));
  CHECK(refusals.built(prose + "\x1b[1m\f" + prose).size() == 2 * prose.size() + 6);
  CHECK(contains(refusals.of("a.bz2", "BZh9"s + std::string(3000, '\x93')), "it is bzip2 data"));
  CHECK(contains(refusals.of("zero.txt", filler + "\0"s + prose), "byte 5000"));
  CHECK(contains(refusals.of("zero.txt", filler + "\0"s + prose), "it is 0, which no text has"));
  // The zero lies far behind the first pieces in which a file is read.
  CHECK(contains(refusals.of("late.txt", std::string(3'000'001, 'y') + "\0"s), "byte 3000001"));
  // This text is compressed twice.
  const std::string inner = gzip(prose), path = refusals.folder / "in/twice.txt.gz";
  write_file(path, gzip(inner));
  CHECK(contains(error_of<DataError>([&] { build_dataset(options_for(path, refusals.folder / "out/x")); }),
                 "it is gzip data inside"));
  // Letters alone make no file binary.
  for (const char* text : {"PAR1 is a protein.", "BZh and GIF89a and RIFF and PK.", "MZ"})
    CHECK(refusals.built(text).size() == std::string(text).size() + 1);
}

TEST_CASE("UTF-16 and UTF-32 are known by their mark or their zeros, and iconv is named", "[data]") {
  Refusals refusals;
  struct Case {
    size_t bytes;
    bool little;
    std::string mark, name;
  };
  using namespace std::string_literals;
  for (const Case& c : {Case{2, true, "\xff\xfe", "UTF-16LE"}, Case{2, false, "\xfe\xff", "UTF-16BE"},
                        Case{4, true, "\xff\xfe\0\0"s, "UTF-32LE"}, Case{4, false, "\0\0\xfe\xff"s, "UTF-32BE"}}) {
    const std::string text = wide(lines_of(prose, 40), c.bytes, c.little);
    const std::string marked = refusals.of("a.txt", c.mark + text), plain = refusals.of("a.txt", text);
    INFO(marked << plain);
    CHECK(contains(marked, "byte order mark says " + c.name));
    CHECK(contains(plain, "bytes that are 0 say " + c.name));
    for (const std::string& message : {marked, plain})
      CHECK(contains(message, "zcat " + (refusals.folder / "in/a.txt.gz") + " | iconv -f " + c.name + " -t UTF-8"));
  }
  // Chinese has no zeros to be known by, but bytes that are no UTF-8.
  const std::string chinese = "\x2d\x4e\x87\x65\x2d\x4e\x87\x65\x8c\xff\x0a\x00"s;
  CHECK(!refusals.of("a.txt", lines_of(chinese, 9)).empty());
}

TEST_CASE("text that is not UTF-8 is refused from one byte in a thousand on, and told of below", "[data]") {
  Refusals refusals;
  const std::string latin = lines_of(
      "Die Gr\xf6\xdf"
      "e z\xe4hlt.",
      30);
  const std::string message = refusals.of("latin.txt", latin);
  CHECK(contains(message, "byte 6 of the decompressed text: it is not UTF-8, nor are 90 of the file's 510 bytes"));
  CHECK(contains(message, "iconv -f ISO-8859-1 -t UTF-8"));
  CHECK(!refusals.of("cut.txt", "Gr\xc3").empty());  // a character without its end

  const auto damaged = [&](size_t bytes) {
    write_file(refusals.folder / "in/few.txt", std::string(300, 'a') + "\xe9" + std::string(bytes - 301, 'b'));
    BuildOptions options = options_for(refusals.folder / "in/few.txt", refusals.folder / "few");
    options.force = true;
    return build_dataset(options).damaged;
  };
  REQUIRE(damaged(1000).size() == 1);
  CHECK(damaged(1000)[0].path == refusals.folder / "in/few.txt");
  CHECK((damaged(1000)[0].bytes == 1 && damaged(1000)[0].first == 300));
  CHECK(contains(error_of<DataError>([&] { damaged(999); }), "byte 300: it is not UTF-8, nor are 1 of"));
}

TEST_CASE("characters may lie across the pieces in which a file is read", "[data]") {
  Refusals refusals;
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string text((1u << 20) - shift, 'x');
    text += "\U0001F600 and \u4e2d";
    CHECK(refusals.built(text).size() == text.size() + 1);
    text[(1u << 20) - shift + 1] = 'x';  // the character is broken, and far too much of so short a text
    CHECK(refusals.built(text + std::string(4000, '.')).size() == text.size() + 4001);
  }
}

TEST_CASE("JSON lines in a file of plain text are refused by content, and prose in one of JSON lines by its line",
          "[data]") {
  Refusals refusals;
  const std::string line = R"({"text": "He said \"no\".", "id": 7})";
  for (const std::string name : {"a.jsonl", "a.ndjson", "a.json", "a.JSONL", "b.Json"}) {
    for (const std::string end : {"", ".gz"}) {
      const std::string path = refusals.folder / ("in/" + name + end);
      write_file(path, end.empty() ? prose : gzip(prose));
      const std::string message =
          error_of<DataError>([&] { build_dataset(options_for(path, refusals.folder / "out/x")); });
      INFO(message);
      CHECK(message.find(path + ": line 1: it is no JSON: column ") == 0);
      CHECK(!std::filesystem::exists(refusals.folder / "out"));
    }
  }
  const std::string cut = R"({"text": ")" + std::string(3'000'000, 'w') + "\"}";
  for (const std::string& text : {lines_of(line, 40), line, "\n \n" + lines_of(line, 2), cut + "\n" + line,
                                  "[\n" + lines_of(line + ",", 3) + line + "\n]\n", "[" + line + ", " + line + "]",
                                  "[" + line + ",\n" + line + "]\n", "\xef\xbb\xbf" + lines_of(line, 3)}) {
    const std::string message = refusals.of("a.txt", text);
    INFO(text.substr(0, 60));
    CHECK(contains(message, "it is JSON"));
    CHECK(contains(message, "a name that ends in .jsonl, and --field NAME"));
  }
  // Braces are no JSON.
  for (const std::string& text : {lines_of("{\\em TeX}", 3), lines_of("{ return 0; }", 3), line + "\n" + prose,
                                  std::string("{"), std::string("[1]\n[2]\n"), std::string("{{template}}")})
    CHECK(refusals.built(text).size() == text.size() + 1);
}

TEST_CASE("a text is refused when most of its lines are JSON, wherever they are, and learnt when half of them are",
          "[data]") {
  Refusals refusals;
  const std::string line = R"({"text": "He said \"no\".", "id": 7})", list = R"(["He said.", 7])";
  const std::string long_text =
      "{\"text\": \"" + std::string(1'500'000, 'w') + "\"}";  // over three pieces, with others
  struct Case {
    std::string text;
    size_t first;  // byte of the first JSON line
    const char* counts;
  };
  const std::string comment = "# 2 fields\n", many = lines_of(prose, 30);
  const std::string package = "{\n  \"name\": \"zrt\",\n  \"files\": [\"a\"],\n  \"list\": [\n    1\n  ]\n}\n";
  const std::string folded = "{\"a\": {\"b\": [\n1,\n2]}, \"e\":\t{}\n, \"c\": \"] }\\\"\",\n \"d\": [2, 3]}\n";
  for (const Case& c :
       {Case{comment + lines_of(line, 2), comment.size(), "2 lines that are JSON, of 3 "},
        Case{"\n\n" + comment + "\n" + lines_of(line + "\n", 2), comment.size() + 3, "of 3 "},
        Case{lines_of(list, 3), 0, "3 lines that are JSON, of 3 "}, Case{lines_of("[1, 2]", 3), 0, "of 3 "},
        Case{lines_of("[[1, 2], [3]]\r", 3), 0, "of 3 "}, Case{lines_of("  [{\"a\": 1}],", 3), 0, "of 3 "},
        Case{"[\n" + lines_of(list + ",", 3) + list + "\n]\n", 2, "4 lines that are JSON, of 4 "},
        Case{package, 2, "4 lines that are JSON, of 4 "}, Case{"[\n" + package + ",\n" + package + "]", 4, "of 8 "},
        Case{lines_of(folded, 2), 0, "10 lines that are JSON, of 10 "},
        Case{"[\n" + lines_of("  \"He said.\",", 3) + "  \"No.\"\n]\n", 2, "4 lines that are JSON, of 4 "},
        Case{"{\n\t\"text\" : \"" + std::string(1'500'000, 'w') + "\"\n}\n", 2, "1 lines that are JSON, of 1 "},
        Case{many + lines_of(line, 61), many.size(), "61 lines that are JSON, of 121 "},
        Case{lines_of(line, 61) + many, 0, "61 lines that are JSON, of 121 "},
        Case{prose + long_text + "\n" + line + "\n" + line, prose.size(), "3 lines that are JSON, of 5 "},
        Case{prose + lines_of(long_text, 4), prose.size(), "4 lines that are JSON, of 6 "}}) {
    INFO(c.text.substr(0, 60));
    const std::string message = refusals.of("a.txt", c.text);
    CHECK(contains(message, fmt::format("byte {} of the decompressed text: here begins the first of ", c.first)));
    CHECK(contains(message, c.counts));
    CHECK(contains(message, "a name that ends in .jsonl, and --field NAME"));
  }
  // A build of paragraphs and a tokenizer's training read the same way.
  write_file(refusals.folder / "in/a.txt", comment + lines_of(line, 2));
  BuildOptions paragraphs = options_for(refusals.folder / "in/a.txt", refusals.folder / "out/x");
  paragraphs.documents = Documents::paragraph;
  CHECK(contains(error_of<DataError>([&] { build_dataset(paragraphs); }), "2 lines that are JSON, of 3 "));
  TokenizerOptions train;
  train.inputs = paragraphs.inputs, train.out = refusals.folder / "out/t.model", train.vocabulary = 270;
  CHECK(contains(error_of<DataError>([&] { train_tokenizer(train); }), "2 lines that are JSON, of 3 "));
  CHECK(!std::filesystem::exists(refusals.folder / "out"));

  const std::string source = "int main() {\n  int a[] = {1, 2};\n  {\n  }\n  return a[0];\n}\n";
  for (const std::string& text :
       {prose + lines_of(line, 2), many + lines_of(line, 60), lines_of(line + "\n" + "prose", 500),
        "# Title\n\n```json\n" + line + "\n" + line + "\n```\n\n" + prose, source, source + source + package,
        lines_of("\"Yes\", he said.", 9), lines_of("\"No.\"", 9), "names = [\n" + lines_of("  \"a\",", 9) + "]\n",
        "codes =\n{\n" + lines_of("  \"a\",", 9) + "}\n", "codes = {\n" + lines_of("  \"a\": 1,", 9) + "}\n",
        lines_of("{}", 9), lines_of("[]", 9), lines_of("[[Link]] of a wiki", 9), lines_of("[1, 2, 3],", 9),
        "[" + std::string(100'000, '[') + "\n", lines_of("{" + std::string(70'000, 'x') + "}", 3)}) {
    INFO(text.substr(0, 60));
    CHECK(refusals.built(text).size() == text.size() + 1);
  }
}

TEST_CASE("a file of white space alone holds no text", "[data]") {
  const TemporaryFolder folder;
  const auto build = [&](const std::string& text, Documents documents, const std::string& input) {
    write_file(folder / "in/a.txt", text);
    BuildOptions options = options_for(folder / input, folder / "out/x");
    options.documents = documents;
    options.force = true;
    return error_of<DataError>([&] { build_dataset(options); });
  };
  for (const Documents documents : {Documents::file, Documents::paragraph}) {
    for (const std::string& text : {std::string(" "), std::string(3'000'000, '\n'), std::string("\xef\xbb\xbf\r\n"),
                                    std::string("\t\v\f"), std::string("\u00a0\n\n\u3000\n\u2003\u2028\u0085")}) {
      CHECK(contains(build(text, documents, "in/a.txt"), "a.txt: the file holds no text"));
      CHECK(contains(build(text, documents, "in"), "0 bytes of text are too few"));
    }
    CHECK(!std::filesystem::exists(folder / "out"));
    CHECK(build("\u3000\n\n.\n\n\u00a0\n", documents, "in/a.txt").empty());
    CHECK(test::read_dataset(folder / "out/x", 257).size() == 1);
    CHECK(build("\u200b", documents, "in/a.txt").empty());  // no space: a character of no width
    std::filesystem::remove_all(folder / "out");
  }
}

TEST_CASE("a UTF-8 byte order mark is dropped", "[data]") {
  Refusals refusals;
  CHECK(refusals.built("\xef\xbb\xbf" + prose) == refusals.built(prose));
  CHECK(refusals.built(prose + "\xef\xbb\xbf").size() == prose.size() + 4);  // elsewhere it is a character
  write_file(refusals.folder / "in/mark.txt", "\xef\xbb\xbf");
  CHECK(contains(error_of<DataError>(
                     [&] { build_dataset(options_for(refusals.folder / "in/mark.txt", refusals.folder / "out/x")); }),
                 "the file holds no text"));
  // Each file of a dataset has its own.
  write_file(refusals.folder / "two/a.txt",
             "\xef\xbb\xbf"
             "a");
  write_file(refusals.folder / "two/b.txt.gz", gzip("\xef\xbb\xbf"
                                                    "b"));
  build_dataset(options_for(refusals.folder / "two", refusals.folder / "both"));
  CHECK(test::read_dataset(refusals.folder / "both", 257) == test::DocumentList{{'a', 256}, {'b', 256}});
}

TEST_CASE("nothing that a build writes replaces what is there, unless it is told to", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", lines_of("a line of the text that is there", 4000));
  const auto build = [&](double validation, const std::string& tokenizer, bool force) {
    BuildOptions options = options_for(folder / "a.txt", folder / "out/x");
    options.validation = validation;
    options.tokenizer = tokenizer;
    options.vocabulary = 512;
    options.force = force;
    return error_of<ConfigError>([&] { build_dataset(options); });
  };
  TokenizerOptions train;
  train.inputs = {folder / "a.txt"};
  train.out = folder / "t.model";
  train.vocabulary = 512;
  train_tokenizer(train);
  CHECK(contains(error_of<ConfigError>([&] { train_tokenizer(train); }), train.out + ": this file is there already"));
  train.force = true;
  train_tokenizer(train);

  struct Case {
    double validation;
    std::string tokenizer;
    std::set<std::string> outputs;
  };
  const std::set<std::string> pair{"x.bin", "x.idx", "x.meta.json"};
  const std::set<std::string> parts{"x/train.bin",      "x/train.idx",      "x/train.meta.json",
                                    "x/validation.bin", "x/validation.idx", "x/validation.meta.json"};
  std::set<std::string> pair_and_model = pair, parts_and_model = parts;
  pair_and_model.insert("x.model"), parts_and_model.insert("x/tokenizer.model");
  for (const Case& c : {Case{0, "bytes", pair}, Case{0.1, "bytes", parts}, Case{0, "train", pair_and_model},
                        Case{0.1, "train", parts_and_model}}) {
    std::filesystem::remove_all(folder / "out");
    REQUIRE(build(c.validation, c.tokenizer, false).empty());
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "out"))
      if (entry.is_regular_file()) found.insert(std::filesystem::relative(entry.path(), folder / "out").string());
    CHECK(found == c.outputs);
    for (const std::string& only : c.outputs) {  // each by itself stands in the way
      std::filesystem::remove_all(folder / "out");
      write_file(folder / ("out/" + only), "mine");
      const std::string message = build(c.validation, c.tokenizer, false);
      INFO(message);
      CHECK(message.find((folder / ("out/" + only)) + ": this file is there already") == 0);
      CHECK(contains(message, "--force"));
      CHECK(test::read_file(folder / ("out/" + only)) == "mine");
      CHECK(build(c.validation, c.tokenizer, true).empty());
      CHECK(test::read_file(folder / ("out/" + only)) != "mine");
    }
  }
  // A model that is the given one already is no obstacle; another is.
  std::filesystem::remove_all(folder / "out");
  write_file(folder / "out/x.model", test::read_file(folder / "t.model"));
  CHECK(build(0, folder / "t.model", false).empty());
  std::filesystem::remove_all(folder / "out");
  write_file(folder / "out/x.model", "another");
  CHECK(contains(build(0, folder / "t.model", false), "x.model: this file is there already"));
}

TEST_CASE("a text that is one of the files to be written is not replaced, whatever it is called and with --force too") {
  const TemporaryFolder folder;
  for (const std::string name : {"x.bin", "x.idx", "x.meta.json", "x/train.bin", "x/validation.idx", "x.model"}) {
    const std::string path = folder / name;
    write_file(path, prose);
    BuildOptions options = options_for(path, folder / "x");
    options.validation = name[1] == '/' ? 0.5 : 0;
    options.force = true;
    if (name == "x.model") options.tokenizer = "train", options.vocabulary = 270;
    const std::string message = error_of<ConfigError>([&] { build_dataset(options); });
    INFO(name << ": " << message);
    CHECK(message.find(path + ": --out would replace this file, which is one of the inputs") == 0);
    CHECK(test::read_file(path) == prose);
    std::filesystem::remove_all(path);
  }
  // A tokenizer's file is one, too; a model that is not written stands in nobody's way.
  TokenizerOptions train;
  train.inputs = {folder / "x.model"}, train.out = folder / "x.model", train.vocabulary = 270, train.force = true;
  write_file(train.out, prose);
  CHECK(contains(error_of<ConfigError>([&] { train_tokenizer(train); }), "which is one of the inputs"));
  CHECK(test::read_file(train.out) == prose);
  CHECK_NOTHROW(build_dataset(options_for(train.out, folder / "x")));
  CHECK(test::read_file(train.out) == prose);
}

TEST_CASE("a prefix without a name is refused, and names a folder where text is held out", "[data]") {
  TemporaryFolder folder;
  write_file(folder / "in/text.txt", prose);
  for (const std::string& name : {std::string("out/"), std::string("out/."), std::string("out/..")})
    CHECK(contains(error_of<ConfigError>([&] { build_dataset(options_for(folder / "in/text.txt", folder / name)); }),
                   "a folder; it must be the prefix of the files to write, such as"));
  CHECK(!std::filesystem::exists(folder / "out"));
  BuildOptions options = options_for(folder / "in/text.txt", folder / "out/");
  options.validation = 0.5;
  build_dataset(options);
  CHECK(std::filesystem::exists(folder / "out/train.bin"));
}

TEST_CASE("a refused build removes the folders that it made and no others", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "short");
  const auto build = [&](const std::string& out, double validation) {
    BuildOptions options = options_for(folder / "a.txt", out);
    options.validation = validation;
    return error_of<DataError>([&] { build_dataset(options); });
  };
  CHECK(contains(build(folder / "new/deep/x", 0.01), "too few"));
  CHECK(!std::filesystem::exists(folder / "new"));
  std::filesystem::create_directories(folder / "old/empty");
  CHECK(contains(build(folder / "old/empty/deep/x", 0.01), "too few"));
  CHECK(std::filesystem::is_empty(folder / "old/empty"));
  write_file(folder / "file", "in the way");
  CHECK(contains(build(folder / "file/x", 0), "cannot make this folder"));
  CHECK(build(folder / "new/deep/x", 0).empty());
  CHECK(std::filesystem::exists(folder / "new/deep/x.idx"));
}

}  // namespace zrt::data_refusal_test
