// Text for a dataset: plain or JSON lines, as they are, in gzip or in zstd. The first byte of an input says which.
#include <zlib.h>
#include <zstd.h>

#include "core/error.h"
#include "runtime/data/document_stream.h"
#include "runtime/data/json_lines.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

namespace data = runtime::data;

constexpr const char* names[] = {"text.txt",     "text.jsonl",     "text.txt.gz", "text.jsonl.gz",
                                 "text.txt.zst", "text.jsonl.zst", "skip.jsonl",  "skip.jsonl.zst"};

// Documents of a reading; nothing where it is refused. `text` gets them one behind the other.
bool read_documents(const std::string& path, data::Documents kind, std::string& text) {
  const std::vector<data::InputFile> files{{path, true}};
  try {
    data::DocumentStream stream(files, kind, {"text", path.find("skip") != path.npos}, {});
    for (std::string document; stream.next(document);) {
      require(!document.empty(), "a document has text");
      text += document + '\0';
    }
    for (const data::BadLines& bad : stream.bad_lines())
      require(bad.count > 0 && bad.first > 0, "bad lines are counted");
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

bool accepts(std::string_view input) {
  if (input.empty()) return false;
  const std::string path = (folder() / names[static_cast<unsigned char>(input[0]) % std::size(names)]).string();
  write(path, input.substr(1));
  std::string once, again, paragraphs;
  const bool accepted = read_documents(path, data::Documents::file, once);
  require(read_documents(path, data::Documents::file, again) == accepted && once == again,
          "two readings give the same documents");
  const bool by_paragraph = read_documents(path, data::Documents::paragraph, paragraphs);
  if (!data::json_ending(path).empty())
    require(by_paragraph == accepted && paragraphs == once, "JSON lines have no paragraphs");
  std::filesystem::remove(path);
  return accepted;
}

std::string gzip_of(const std::string& text) {
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib begins");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib compresses");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd_of(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

std::map<std::string, std::string> seeds() {
  const std::string text = "A line.\n\nAnother one, of Gr\u00fc\u00dfe.\n";
  const std::string lines =
      "{\"id\": 1, \"text\": \"one\\n\\u00e9\\ud83d\\ude00\"}\n\n{\"meta\": {\"text\": [1]}, \"text\": \"two\"}\n";
  const std::string bad = lines + "{\"text\": \"\\ud800\"}\n{\"text\": 1}\noops\n";
  std::map<std::string, std::string> made;
  const auto add = [&](const char* name, int kind, const std::string& bytes) {
    made[name] = static_cast<char>(kind) + bytes;
  };
  add("plain", 0, text), add("lines", 1, lines), add("plain_gzip", 2, gzip_of(text)),
      add("lines_gzip", 3, gzip_of(lines));
  add("plain_zstd", 4, zstd_of(text)), add("lines_zstd", 5, zstd_of(lines) + zstd_of(lines)), add("skipped", 6, bad);
  add("skipped_zstd", 7, zstd_of(bad));
  return made;
}

}  // namespace

const Target documents{
    "documents",
    accepts,
    seeds,
    {"{\"text\": \"", "\"}\n", "\\ud83d", "\\ude00", "\\u0000", "[", "\n\n", std::string("\xef\xbb\xbf", 3),
     std::string("\x1f\x8b\x08", 3), std::string("\x28\xb5\x2f\xfd", 4), "PAR1", "ARROW1"}};

}  // namespace zrt::fuzz
