// Files with many tensors: the work of reading and writing their tables grows as the tables do. Compared are counts
// where there are any, else the processor time of one thread, which does not pass while others run: one table of N
// entries against ten of N / 10, in the same round. Where each entry is compared with all others, the one takes about
// ten times as long as the ten; where not, as long.
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>

#include "catch.h"
#include "core/error.h"
#include "runtime/train/checkpoint/hugging_face.h"
#include "runtime/train/checkpoint/manifest.h"
#include "runtime/train/checkpoint/rectangle.h"
#include "runtime/train/checkpoint/shard.h"
#include "temporary_folder.h"

namespace zrt::checkpoint_work_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
namespace fs = std::filesystem;

namespace {

constexpr size_t parts = 10, entries = 40000;

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const std::function<void()>& work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

// True when work of ten times as many entries takes about ten times as long in one of ten rounds; work that grows with
// the square takes about a hundred times as long in all of them.
bool grows_as_the_table(const std::function<std::function<void()>(size_t)>& work_of) {
  const std::function<void()> whole = work_of(entries), part = work_of(entries / parts);
  double ratio = 0;
  for (int round = 0; round < 10; ++round) {
    const double once = seconds_of(whole), often = seconds_of([&] {
                                             for (size_t i = 0; i < parts; ++i) part();
                                           });
    ratio = once / often;
    if (ratio < 3) return true;
  }
  UNSCOPED_INFO("one table takes " << ratio << " times as long as its " << parts << " parts");
  return false;
}

std::string name_of(size_t i) {
  return "model.layers." + std::to_string(i) + ".self_attn.q_proj.weight";
}

SafetensorsHeader header_of(size_t count) {
  SafetensorsHeader header;
  for (size_t i = 0; i < count; ++i) header.tensors.push_back({name_of(i), "F32", {1}, 0, 0});
  return header;
}

std::vector<const Rectangle*> pointers(const std::vector<Rectangle>& rectangles) {
  std::vector<const Rectangle*> result;
  for (const Rectangle& rectangle : rectangles) result.push_back(&rectangle);
  return result;
}

}  // namespace

TEST_CASE("The header of a safetensors file is read and written in time that grows as the number of its tensors") {
  CHECK(grows_as_the_table([](size_t count) {
    SafetensorsHeader header = header_of(count);
    const std::string text = lay_out(header).substr(8);
    return [text, count] { CHECK(parse_header(text, 4 * count, "file").tensors.size() == count); };
  }));
  CHECK(grows_as_the_table([](size_t count) {
    return [header = header_of(count)] {
      SafetensorsHeader fresh = header;
      CHECK(lay_out(fresh).size() > fresh.tensors.size());
    };
  }));
}

TEST_CASE("A manifest is read and written in time that grows as the number of its files") {
  const auto manifest_of = [](size_t count) {
    Manifest manifest;
    manifest.model = manifest.control = manifest.made_by = Json::object();
    for (size_t i = 0; i < count; ++i) manifest.files[name_of(i)] = {8, "0123456789abcdef"};
    return manifest;
  };
  CHECK(grows_as_the_table([&](size_t count) {
    return [manifest = manifest_of(count)] { CHECK(format_manifest(manifest).size() > manifest.files.size()); };
  }));
  CHECK(grows_as_the_table([&](size_t count) {
    const std::string text = format_manifest(manifest_of(count));
    return [text, count] { CHECK(parse_manifest(text, "manifest").files.size() == count); };
  }));
}

TEST_CASE("The places of a shard's tensors are read and written in time that grows as their number") {
  CHECK(grows_as_the_table([](size_t count) {
    Json places = Json::object();
    for (size_t i = 0; i < count; ++i) append(places, name_of(i), {{"saved_offsets", {0}}});
    const std::string text = places.dump();
    return [text, count] { CHECK(parse_sharding(text, "file").size() == count); };
  }));
  CHECK(grows_as_the_table([](size_t count) {
    std::vector<Run> runs;
    for (size_t i = 0; i < count; ++i) runs.push_back({name_of(i), {1}, 0, 1});
    return [runs] { CHECK(shard_bytes(runs) > runs.size()); };
  }));
}

TEST_CASE("A folder with an index is opened in time that grows as the number of its tensors") {
  const testing::TemporaryFolder folder;
  CHECK(grows_as_the_table([&](size_t count) {
    const fs::path path = folder.path / std::to_string(count);
    fs::create_directories(path);
    std::ofstream(path / "config.json") << R"({"model_type": "llama"})";
    SafetensorsHeader header = header_of(count);
    std::ofstream(path / "model-1.safetensors", std::ios::binary) << lay_out(header) << std::string(4 * count, '\0');
    Json index{{"weight_map", Json::object()}};
    for (size_t i = 0; i < count; ++i) append(index["weight_map"], name_of(i), "model-1.safetensors");
    std::ofstream(path / index_name) << index.dump();
    return [path, count] { CHECK(open_hugging_face(path).weights().names().size() == count); };
  }));
}

TEST_CASE("A key that occurs twice among many, or once more inside, is found or not as among few") {
  std::string text = "{";
  for (size_t i = 0; i < 5000; ++i) text += "\"" + name_of(i) + "\":{\"" + name_of(7) + "\":1},";
  CHECK(parse_strict_json(text + "\"x\":1}", "file").size() == 5001);
  const auto error = [](const std::string& json) {
    try {
      parse_strict_json(json, "file");
    } catch (const core::DataError& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  CHECK(error(text + "\"" + name_of(4321) + "\":1}") == "file: the key '" + name_of(4321) + "' occurs twice");
  CHECK(error(R"({"a":[{"b":1,"c":2,"b":3}]})") == "file: the key 'b' occurs twice");
  CHECK(error(R"({"a\u001b[2J":1,"a\u001b[2J":2})") == "file: the key 'a\\x1b[2J' occurs twice");
}

TEST_CASE("Pieces of a tensor that overlap are found with about as many comparisons as there are pieces") {
  constexpr int64_t count = 4000;
  const std::vector<int64_t> flat{3 * count}, matrix{count, 4}, wide{2, 2 * count};
  for (const std::vector<int64_t>& shape : {flat, matrix, wide}) {
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    // These pieces are cut as ZeRO cuts a tensor: runs that begin in mid row.
    std::vector<Rectangle> pieces;
    for (int64_t i = 0; i < count; ++i) {
      for (const Rectangle& piece : cut_run(shape, elements * i / count, elements * (i + 1) / count)) {
        pieces.push_back(piece);
      }
    }
    uint64_t compared = 0;
    CHECK(!any_overlap(pointers(pieces), &compared));
    CHECK(compared < 4 * pieces.size());
    pieces.push_back(pieces[pieces.size() / 2]);
    CHECK(any_overlap(pointers(pieces)));
  }
  // Tensor-parallel ranks cut a tensor so: columns, here of as many rows.
  std::vector<Rectangle> columns;
  for (int64_t i = 0; i < count; ++i) columns.push_back({{0, 2 * i}, {5, 2}});
  uint64_t compared = 0;
  CHECK(!any_overlap(pointers(columns), &compared));
  CHECK(compared < 4 * columns.size());
  columns[17].shape[1] = 3;
  CHECK(any_overlap(pointers(columns)));
  CHECK(any_overlap(pointers(std::vector<Rectangle>{{{}, {}}, {{}, {}}})));
  CHECK(!any_overlap(pointers(std::vector<Rectangle>{{{2}, {0}}, {{0}, {5}}})));
}

}  // namespace zrt::checkpoint_work_test
