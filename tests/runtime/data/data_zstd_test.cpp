// Compressed by zstd: frames that follow each other, and files that are cut or changed.
#include "catch.h"
#include "core/error.h"
#include "runtime/data/text_reader.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/zstd.h"

namespace zrt::data_zstd_test {

using namespace zrt::runtime::data;
using test::contains;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;
using test::zstd;
using zrt::core::DataError;

namespace {

std::string read_all(const std::string& path, size_t piece = 1 << 16) {
  TextReader reader(path);
  std::string text, part(piece, '\0');
  while (const size_t count = reader.read(part.data(), part.size())) text.append(part, 0, count);
  CHECK(reader.read(part.data(), part.size()) == 0);  // still at the end
  return text;
}

std::string some_text(size_t lines) {
  std::string text;
  for (size_t i = 0; i < lines; ++i) text += "line " + std::to_string(i * 7919 % 10007) + "\n";
  return text;
}

}  // namespace

TEST_CASE("zstd data is read whole, frame after frame, in pieces of any size", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.txt.zst", text = some_text(100'000);  // many blocks
  write_file(path, zstd(text));
  for (const size_t piece : {size_t{1} << 20, size_t{4097}}) CHECK(read_all(path, piece) == text);
  write_file(path, zstd("ab") + zstd("") + zstd(text) + zstd("c"));
  CHECK(read_all(path) == "ab" + text + "c");
  CHECK(read_all(path, 1).substr(0, 2) == "ab");
  write_file(path, "");
  CHECK(read_all(path).empty());
}

TEST_CASE("damaged zstd files are refused by name wherever they are cut or changed", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.txt.zst", text = some_text(200), whole = zstd(text);
  const auto fails = [&](const std::string& bytes) {
    write_file(path, bytes);
    std::string seen = text;
    const std::string message = error_of<DataError>([&] { seen = read_all(path); });
    CHECK(seen == text);  // a file that is read is read whole
    return message;
  };
  CHECK(fails(whole).empty());
  for (size_t size = 1; size < whole.size(); ++size) {
    INFO(size << " of " << whole.size() << " bytes");
    CHECK(contains(fails(whole.substr(0, size)), path));
  }
  CHECK(contains(fails(whole.substr(0, whole.size() / 2)), "the zstd data is truncated: unexpected end of file"));
  for (size_t byte = 0; byte < whole.size(); ++byte) {  // a checksum tells all
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ 0x10);
    INFO("byte " << byte);
    const std::string message = fails(changed);
    CHECK((contains(message, path) || message.empty()));
  }
  CHECK(contains(fails(whole + "a line of text"), path + ": other bytes follow its zstd data"));
  CHECK(contains(fails("not compressed"), path + ": its name ends in .zst but it is not zstd data"));
  CHECK(contains(error_of<DataError>([&] {
                   write_file(folder / "a.gz", whole);
                   read_all(folder / "a.gz");
                 }),
                 "it is zstd data; give it a name that ends in .zst"));
}

TEST_CASE("a window that would take gigabytes is refused with the command that makes it smaller", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "a.zst", zstd(some_text(3000), 28));
  CHECK(contains(
      error_of<DataError>([&] { read_all(folder / "a.zst"); }),
      "needs a window of more than 128 MiB of memory. Compress it anew: zstd -dc --long=31 " + (folder / "a.zst")));
  write_file(folder / "a.zst", zstd(some_text(3000), 27));
  CHECK(read_all(folder / "a.zst") == some_text(3000));
}

}  // namespace zrt::data_zstd_test
