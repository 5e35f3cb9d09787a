// numpy's legacy random stream, against streams that numpy wrote (tests/data/make_dataset_golden.py).
#include <nlohmann/json.hpp>
#include <numeric>

#include "catch.h"
#include "runtime/data/numpy_random.h"
#include "tests/data_folder.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::data_numpy_test {

using zrt::runtime::data::numpy_sum;
using zrt::runtime::data::NumpyRandom;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json all =
      nlohmann::json::parse(test::read_file(zrt::test::data_folder() + "/dataset_golden/numpy.json"));
  return all;
}

uint64_t digest(const std::vector<uint32_t>& values) {
  uint64_t h = 0;
  for (const uint32_t value : values) h = h * 6364136223846793005u + value + 1442695040888963407u;
  return h;
}

}  // namespace

TEST_CASE("shuffles equal numpy's and leave the stream where numpy's is", "[data]") {
  for (const auto& item : golden()["shuffles"]) {
    NumpyRandom random(item["seed"].get<uint32_t>());
    std::vector<uint32_t> values(item["n"].get<size_t>());
    std::iota(values.begin(), values.end(), 0u);
    random.shuffle(std::span(values));
    INFO("seed " << item["seed"] << ", " << values.size() << " values");
    if (item.contains("values")) CHECK(values == item["values"].get<std::vector<uint32_t>>());
    CHECK(digest(values) == item["digest"].get<uint64_t>());
    CHECK(random.next32() == item["next"].get<uint32_t>());
    if (!item.contains("words")) continue;
    NumpyRandom fresh(item["seed"].get<uint32_t>());
    for (const auto& word : item["words"]) CHECK(fresh.next32() == word.get<uint32_t>());
  }
}

TEST_CASE("intervals above 32 bits take two words as numpy does", "[data]") {
  for (const auto& item : golden()["wide"]) {
    NumpyRandom random(7);
    for (const auto& value : item["values"])
      CHECK(random.interval(item["max"].get<uint64_t>()) == value.get<uint64_t>());
  }
}

TEST_CASE("an interval of one value draws nothing", "[data]") {
  NumpyRandom random(3), same(3);
  CHECK(random.interval(0) == 0);
  CHECK(random.next32() == same.next32());
}

TEST_CASE("sums equal numpy's to the last bit", "[data]") {
  for (const auto& item : golden()["sums"]) {
    const auto values = item["values"].get<std::vector<double>>();
    INFO(values.size() << " values");
    CHECK(numpy_sum(values) == item["sum"].get<double>());
  }
}

}  // namespace zrt::data_numpy_test
