#include "models/kernels/kernel_file.h"

#include "catch.h"
#include "core/error.h"

namespace zrt::kernel_file_test {

using namespace zrt::models;
using Catch::Matchers::Contains;
using zrt::core::ConfigError;

namespace {

KernelFile sample() {
  KernelFile file{"NVIDIA H200", "cuBLASLt 13.0.2", {}};
  file.products["a product"] = {1, 2, 3, 4, 5, 6, 7, ~0ull};
  return file;
}

}  // namespace

TEST_CASE("a kernel file is read as it was written") {
  const KernelFile file = sample();
  const KernelFile read = parse_kernel_file(kernel_file_text(file), "table.json");
  CHECK(read.chip == file.chip);
  CHECK(read.library == file.library);
  CHECK(read.products == file.products);
}

TEST_CASE("kernel files that say something else are refused by name") {
  const auto refused = [](const std::string& text, const std::string& about) {
    CHECK_THROWS_WITH(parse_kernel_file(text, "table.json"), Contains("table.json") && Contains(about));
    CHECK_THROWS_AS(parse_kernel_file(text, "table.json"), ConfigError);
  };
  refused("", "not a JSON object");
  refused("[1, 2]", "not a JSON object");
  refused(R"({"chip": "x", "library": "y")", "not a JSON object");
  refused(R"({"library": "y", "products": {}})", "chip");
  refused(R"({"chip": 5, "library": "y", "products": {}})", "chip");
  refused(R"({"chip": "x", "products": {}})", "library");
  refused(R"({"chip": "x", "library": "y"})", "products");
  refused(R"({"chip": "x", "library": "y", "products": [1]})", "products");
  const std::string text = kernel_file_text(sample());
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"0000000000000001", "000000000000001"},
                                                        {"0000000000000001", "000000000000000g"},
                                                        {"0000000000000001", "-000000000000001"},
                                                        {"\"0000000000000001", "12, \"0000000000000001"}}) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    CHECK_THROWS_AS(parse_kernel_file(changed, "table.json"), ConfigError);
  }
}

TEST_CASE("a kernel file of another chip or library is refused with both names") {
  const KernelFile file = sample();
  CHECK_NOTHROW(check_kernel_file(file, "table.json", "NVIDIA H200", "cuBLASLt 13.0.2"));
  CHECK_THROWS_WITH(check_kernel_file(file, "table.json", "NVIDIA A100", "cuBLASLt 13.0.2"),
                    Contains("table.json") && Contains("NVIDIA H200") && Contains("NVIDIA A100"));
  CHECK_THROWS_WITH(check_kernel_file(file, "table.json", "NVIDIA H200", "cuBLASLt 13.1.0"),
                    Contains("13.0.2") && Contains("13.1.0"));
}

TEST_CASE("products look their algorithm up by their whole text") {
  GemmSpec spec{4, 5, 6, false, false, 6, 5, 5};
  KernelFile file = sample();
  file.products[spec.text()] = {9, 8, 7, 6, 5, 4, 3, 2};
  CHECK(!listed_algorithm(spec));
  use_kernel_file(file);
  REQUIRE(listed_algorithm(spec));
  CHECK(*listed_algorithm(spec) == file.products[spec.text()]);
  spec.add = true;
  CHECK(!listed_algorithm(spec));
  use_kernel_file({});
}

}  // namespace zrt::kernel_file_test
