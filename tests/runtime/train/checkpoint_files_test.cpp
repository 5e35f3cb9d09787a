// Files of a checkpoint: safetensors, rectangles, manifest, commit. Nothing here trains.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "catch.h"
#include "core/error.h"
#include "core/file.h"
#include "runtime/train/checkpoint/shard.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/checkpoint/tensor_set.h"
#include "temporary_folder.h"
#include "tests/runtime/train/small_checkpoint.h"

namespace zrt::checkpoint_files_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
namespace fs = std::filesystem;
using namespace zrt::small_checkpoint;

TEST_CASE("Any run of a tensor is cut into rectangles that cover it once, in order") {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {1}, {6}, {3, 4}, {1, 5}, {5, 1}, {2, 3, 4}, {2, 1, 3, 2}}) {
    const int64_t size = product(shape);
    for (int64_t begin = 0; begin <= size; ++begin) {
      for (int64_t end = begin; end <= size; ++end) {
        const auto rectangles = cut_run(shape, begin, end);
        CHECK(rectangles.size() <= most_rectangles(shape.size()));
        int64_t next = begin;
        for (const Rectangle& r : rectangles) {
          common_runs(shape, r, 0, size, [&](int64_t at, int64_t within, int64_t count) {
            CHECK(within == 0);
            CHECK(at == next);
            next += count;
          });
        }
        CHECK(next == end);
      }
    }
  }
}

TEST_CASE("A rectangle that is no single run, as a column shard is, gives its runs in order") {
  std::vector<std::array<int64_t, 3>> runs;
  common_runs(std::vector<int64_t>{3, 4}, {{0, 1}, {3, 2}}, 2, 11, [&](int64_t at, int64_t within, int64_t count) {
    runs.push_back({at, within, count});
  });
  CHECK(runs == std::vector<std::array<int64_t, 3>>{{2, 1, 1}, {5, 2, 2}, {9, 4, 2}});
}

TEST_CASE("What any number of ranks writes is read back at any place, whatever the cuts") {
  for (int ranks : {1, 2, 3, 4, 9}) {
    const testing::TemporaryFolder folder;
    const fs::path checkpoint = make_checkpoint(folder.path, 3, ranks, 100);
    CHECK(verify_checkpoint(checkpoint).step == 3);
    const TensorSet set(checkpoint, weight_files(checkpoint));
    CHECK(set.names() == std::vector<std::string>{"a.weight", "b.bias"});
    CHECK(set.shape("a.weight") == std::vector<int64_t>{7, 5});
    for (int64_t begin = 0; begin < 35; ++begin) {
      std::vector<float> part(static_cast<size_t>(35 - begin));
      set.read("a.weight", begin, part);
      for (size_t i = 0; i < part.size(); ++i)
        CHECK(part[i] == 100 + static_cast<float>(begin) + static_cast<float>(i));
    }
  }
}

TEST_CASE("What tensor-parallel ranks have of a tensor is written to its place in the whole, small or large") {
  struct Cut {
    std::vector<int64_t> shape;
    size_t dimension;
    int64_t sections;
  };
  constexpr int ranks = 2;
  // Some have padding: 5, 13, 1401 and 699 are odd.
  for (const Cut& cut : {Cut{{12, 5}, 0, 1}, Cut{{12, 5}, 0, 3}, Cut{{12, 5}, 1, 1}, Cut{{4, 15}, 1, 3},
                         Cut{{13, 3}, 0, 1}, Cut{{1401 * 3, 512}, 0, 3}, Cut{{1024, 699 * 3}, 1, 3}}) {
    const size_t d = cut.dimension;
    const int64_t extent = cut.shape[d], section = extent / cut.sections, part = (section + ranks - 1) / ranks;
    const int64_t inner = d + 1 < cut.shape.size() ? cut.shape[d + 1] : 1, outer = product(cut.shape) / inner / extent;
    for (const int data : {1, 2}) {
      CAPTURE(cut.shape, cut.dimension, cut.sections, data);
      const testing::TemporaryFolder folder;
      for (int rank = 0; rank < ranks; ++rank) {
        // Each element is its number in the whole, padding is zero.
        std::vector<float> values;
        for (int64_t row = 0; row < outer * cut.sections * part; ++row) {
          const int64_t at = rank * part + row % part;
          const int64_t whole = (row / part * section + at) * inner;
          for (int64_t i = 0; i < inner; ++i) values.push_back(at < section ? static_cast<float>(whole + i) : 0);
        }
        std::vector<int64_t> shape = cut.shape;
        shape[d] = cut.sections * part;
        for (int shard = 0; shard < data; ++shard) {
          const int64_t begin = product(shape) * shard / data, end = product(shape) * (shard + 1) / data;
          Run run{"w",         shape,           begin,
                  end - begin, core::Form::f32, reinterpret_cast<const std::byte*>(values.data() + begin)};
          run.slice = models::Slice{d, extent, cut.sections, ranks}, run.tensor_rank = rank;
          write_shard(folder.path, rank * data + shard, {&run, 1});
        }
      }
      const TensorSet set(folder.path, weight_files(folder.path));
      CHECK(set.shape("w") == cut.shape);
      std::vector<float> whole(static_cast<size_t>(product(cut.shape)));
      set.read("w", 0, whole);
      size_t right = 0;
      while (right < whole.size() && whole[right] == static_cast<float>(right)) ++right;
      CHECK(right == whole.size());
    }
  }
}

TEST_CASE("A safetensors file has the reference writer's order, padding and metadata") {
  SafetensorsHeader header;
  header.tensors = {{"z", "F32", {2}, 0, 0}, {"b", "BF16", {3}, 0, 0}, {"a", "F32", {}, 0, 0}, {"i", "I64", {1}, 0, 0}};
  const std::string text = lay_out(header);
  CHECK(text.size() % 8 == 0);
  CHECK(
      text.substr(8, text.find('}', 200) - 8)
          .find(
              R"({"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[],"data_offsets":[8,12]},"z":)") ==
      0);
  const SafetensorsHeader back = parse_header(std::string_view(text).substr(8), 8 + 4 + 8 + 6, "x");
  CHECK(back.tensors.back().name == "b");
}

TEST_CASE("A malformed safetensors header is refused with the file, the tensor and what is wrong") {
  const auto refuse = [](const std::string& json, uint64_t bytes, const std::string& words) {
    INFO(json);
    const std::string text = message([&] { parse_header(json, bytes, "file.safetensors"); });
    CHECK(text.find("file.safetensors: ") == 0);
    CHECK(text.find(words) != std::string::npos);
  };
  const std::string ok = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(message([&] { parse_header("{" + ok + "}   ", 8, "x"); }).empty());
  CHECK(message([&] { parse_header("{}      ", 0, "x"); }).empty());
  CHECK(message([&] { parse_header(R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})", 0, "x"); }).empty());
  refuse("", 0, "'{'");
  refuse(" {}", 0, "'{'");
  refuse("[]", 0, "'{'");
  refuse("{", 0, "JSON");
  refuse("{\"\xff\":1}", 0, "JSON");
  refuse("{" + ok + "," + ok + "}", 8, "twice");
  refuse("{" + ok + "}", 9, "9 bytes");
  refuse("{" + ok + "}", 7, "7 bytes");
  refuse("{" + ok + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16, "starts at byte 12");
  refuse("{" + ok + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "starts at byte 4");
  refuse(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "do not fit");
  refuse(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8, "dtype");
  refuse(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "shape");
  refuse(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "shape");
  refuse(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "do not fit");
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "do not fit");
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", 8, "exactly");
  refuse(R"({"__metadata__":{"format":1}})", 0, "no string");
  refuse(R"({"a":[[[[[[[[[[1]]]]]]]]]]})", 0, "nested");
}

TEST_CASE("Every truncation of a shard is detected by size, with and without its hash") {
  const testing::TemporaryFolder folder;
  const fs::path checkpoint = make_checkpoint(folder.path, 1, 2);
  const fs::path shard = weight_files(checkpoint).front();
  const auto whole = fs::file_size(shard);
  const std::string contents = slurp(shard);
  for (uint64_t size = 0; size < whole; ++size) {
    spill(shard, contents.substr(0, size));
    const std::string text = message([&] { verify_checkpoint(checkpoint, false); });
    CHECK(text.find(shard.filename().string()) != std::string::npos);
    CHECK(text.find("truncated") != std::string::npos);
    CHECK(!message([&] { SafetensorsFile file(shard); }).empty());
  }
}

TEST_CASE("1,000 flipped bits in payloads and 10,000 in headers and manifests are all detected") {
  const testing::TemporaryFolder folder;
  const fs::path checkpoint = make_checkpoint(folder.path, 1, 2);
  std::mt19937 random(1);
  const auto files = weight_files(checkpoint);
  const auto flip = [&](const fs::path& path, uint64_t from, uint64_t to) {
    const std::string whole = slurp(path);
    std::string broken = whole;
    const uint64_t at = from + random() % (std::min<uint64_t>(to, whole.size()) - from);
    broken[at] = static_cast<char>(broken[at] ^ (1 << random() % 8));
    spill(path, broken);
    const std::string text = message([&] { verify_checkpoint(checkpoint); });
    // Whoever skips the hashes still meets no crash.
    message([&] {
      const TensorSet set(checkpoint, files);
      for (const std::string& name : set.names()) {
        std::vector<float> values(1);
        if (product(set.shape(name)) > 0) set.read(name, 0, values);
      }
    });
    spill(path, whole);
    return !text.empty();
  };
  int missed = 0;
  for (int i = 0; i < 1000; ++i) {
    const fs::path& file = files[random() % files.size()];
    uint64_t header = 0;
    std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), 8);
    missed += !flip(file, 8 + header, ~0ull);
  }
  for (int i = 0; i < 10000; ++i) {
    const bool manifest = i % 2 == 0;
    const fs::path& file = manifest ? checkpoint / manifest_name : files[random() % files.size()];
    uint64_t header = 0;
    std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), 8);
    missed += !flip(file, 0, manifest ? ~0ull : 8 + header);
  }
  CHECK(missed == 0);
  CHECK(message([&] { verify_checkpoint(checkpoint); }).empty());
}

TEST_CASE("A manifest with a valid hash but bad contents is refused") {
  Manifest good;
  good.optimizer = "Adam";
  good.model = good.control = good.made_by = Json::object();
  good.files["shard.safetensors"] = {8, "0123456789abcdef"};
  CHECK(parse_manifest(format_manifest(good), "m").files.size() == 1);
  for (const char* name : {"../x", "/etc/passwd", "a/../b", ".hidden", "a//b", "a/", ""}) {
    Manifest bad = good;
    bad.files[name] = {8, "0123456789abcdef"};
    INFO(name);
    CHECK(message([&] { parse_manifest(format_manifest(bad), "m"); }).find("plain names") != std::string::npos);
  }
  Manifest bad = good;
  bad.files["x"] = {8, "0123"};
  CHECK(message([&] { parse_manifest(format_manifest(bad), "m"); }).find("16 digits") != std::string::npos);
  bad = good;
  bad.step = -1;
  CHECK(!message([&] { parse_manifest(format_manifest(bad), "m"); }).empty());
}

}  // namespace zrt::checkpoint_files_test
