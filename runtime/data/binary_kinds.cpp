#include "runtime/data/binary_kinds.h"

#include <fmt/format.h>

#include <fstream>

#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  const char* kind;
  const char* command = "";  // {0}: the file, {1}: its name without ending
  size_t at = 0;             // place of the bytes in the file
};

constexpr const char* from_parquet =
    "python3 -c 'import sys, pandas; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient=\"records\", "
    "lines=True)' {0} {1}.jsonl";
constexpr const char* from_arrow_file =
    "python3 -c 'import sys, pyarrow as pa; pa.ipc.open_file(sys.argv[1]).read_pandas().to_json(sys.argv[2], "
    "orient=\"records\", lines=True)' {0} {1}.jsonl";
constexpr const char* from_arrow_stream =
    "python3 -c 'import sys, pyarrow as pa; pa.ipc.open_stream(sys.argv[1]).read_pandas().to_json(sys.argv[2], "
    "orient=\"records\", lines=True)' {0} {1}.jsonl";

constexpr Signature binary_files[] = {
    {"\x7f"
     "ELF"sv,
     "an ELF program"},
    {"PK\x03\x04"sv, "a zip archive (or a document that is one)", "unzip {0}"},
    {"\x1f\x8b"sv, "gzip data inside"},
    {"\xfd"
     "7zXZ\0"sv,
     "xz data", "xzcat {0} | gzip > {1}.gz"},
    {"\x28\xb5\x2f\xfd"sv, "zstd data inside"},
    {"\x04\x22\x4d\x18"sv, "lz4 data", "lz4 -dc {0} | gzip > {1}.gz"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x {0}"},
    {"ustar"sv, "a tar archive", "tar -xf {0}", 257},
    {"\xff\xff\xff\xff"sv, "an Arrow stream", from_arrow_stream},
    {"\x89HDF\r\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "an array of NumPy"},
    {"\x89PNG"sv, "a PNG picture"},
    {"\xff\xd8\xff"sv, "a JPEG picture"},
    {"SQLite format 3\0"sv, "a SQLite database", "sqlite3 -json {0} \"select …\" | jq -c \".[]\" > {1}.jsonl"},
    {"MMIDIDX\0"sv, "the index of a dataset"},
    {"\x88\xda\x34\x01"sv, "a token file of llm.c, which data.train can name as it is"},
    {"\xa1\xdb\x34\x01"sv, "a token file of llm.c, which data.train can name as it is"},
    {"%PDF-1"sv, "a PDF", "pdftotext {0} {1}.txt"},
    {"%PDF-2"sv, "a PDF", "pdftotext {0} {1}.txt"},
    {"version https://git-lfs.github.com/spec/"sv, "a pointer of Git LFS, whose file `git lfs pull` brings"}};
constexpr Signature lettered_files[] = {{"PAR1"sv, "a parquet file", from_parquet},
                                        {"ARROW1"sv, "an Arrow file", from_arrow_file},
                                        {"BZh"sv, "bzip2 data", "bzcat {0} | gzip > {1}.gz"},
                                        {"Obj\x01"sv, "an Avro file"},
                                        {"GIF8"sv, "a GIF picture"},
                                        {"RIFF"sv, "a RIFF file"}};
constexpr Signature marks[] = {{"\xff\xfe\0\0"sv, "UTF-32LE"},
                               {"\0\0\xfe\xff"sv, "UTF-32BE"},
                               {"\xff\xfe"sv, "UTF-16LE"},
                               {"\xfe\xff"sv, "UTF-16BE"}};

template <size_t N>
const Signature* find(const Signature (&signatures)[N], std::string_view head) {
  for (const Signature& each : signatures)
    if (head.size() > each.at && head.substr(each.at).starts_with(each.bytes)) return &each;
  return nullptr;
}

// An Arrow stream has the size of its first message behind its mark; other bytes of that value are nothing known.
bool is_arrow_stream(std::string_view head) {
  return head.size() >= 8 && head[6] == 0 && head[7] == 0 && (head[4] != 0 || head[5] != 0);
}

std::optional<BinaryKind> described(const Signature* of, const std::string& path) {
  if (of == nullptr) return std::nullopt;
  const std::string command = of->command;
  if (command.empty()) return BinaryKind{of->kind, "Turn it into text first."};
  const std::string file = uncompressed_name(path);
  const size_t dot = file.rfind('.'), slash = file.rfind('/');
  const bool ending = dot != file.npos && dot > 0 && (slash == file.npos || dot > slash + 1);
  const std::string unpack = file == path ? "" : fmt::format("{} {} > {} && ", printing_program(path), path, file);
  return BinaryKind{of->kind,
                    fmt::format("Convert it first: {}{}", unpack,
                                fmt::format(fmt::runtime(command), file, file.substr(0, ending ? dot : file.npos)))};
}

}  // namespace

std::optional<BinaryKind> binary_kind(std::string_view head, const std::string& path) {
  const Signature* found = find(binary_files, head);
  if (found != nullptr && found->command == from_arrow_stream && !is_arrow_stream(head)) return std::nullopt;
  return described(found, path);
}

std::optional<BinaryKind> lettered_kind(std::string_view head, const std::string& path) {
  return described(find(lettered_files, head), path);
}

std::optional<BinaryKind> kind_of_file(const std::string& path) {
  std::string head(binary_head_bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  if (auto kind = binary_kind(head, path)) return kind;
  return lettered_kind(head, path);
}

std::string marked_encoding(std::string_view head) {
  const Signature* found = find(marks, head);
  return found == nullptr ? "" : found->kind;
}

}  // namespace zrt::runtime::data
