#include "core/ledger.h"

#include <sstream>

#include "catch.h"

namespace zrt::core::ledger_test {
namespace {

TEST_CASE("bytes print exactly below a KiB and in binary units above") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(uint64_t{3} << 29) == "1.50 GiB");
  CHECK(format_bytes(uint64_t{5} << 50) == "5120.00 TiB");
}

TEST_CASE("a ledger lists the largest buffers first and counts the rest") {
  const std::vector<LedgerEntry> entries{{"small", Category::comm, Tier::host, 10, 5},
                                         {"large", Category::master, Tier::device, 4096, 2048},
                                         {"equal a", Category::grads, Tier::device, 0, 64},
                                         {"equal b", Category::weights, Tier::nvme, 64, 64}};
  std::istringstream lines(format_ledger(entries, 3));
  std::string name, category, tier, rest;
  uint64_t offset = 0;
  lines >> name >> category >> tier >> offset;
  std::getline(lines, rest);
  CHECK(name == "large");
  CHECK(category == "master");
  CHECK(tier == "device");
  CHECK(offset == 4096);
  CHECK(rest.find("2.00 KiB") != std::string::npos);
  std::getline(lines, rest);
  CHECK(rest.find("equal a") != std::string::npos);
  std::getline(lines, rest);
  CHECK(rest.find("equal b") != std::string::npos);
  CHECK(rest.find("nvme") != std::string::npos);
  std::getline(lines, rest);
  CHECK(rest.find("1 smaller buffer") != std::string::npos);
  CHECK(!std::getline(lines, rest));
  CHECK(format_ledger({}, 5).empty());
}

}  // namespace
}  // namespace zrt::core::ledger_test
