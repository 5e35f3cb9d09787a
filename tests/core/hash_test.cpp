#include "core/hash.h"

#include <utility>
#include <vector>

#include "catch.h"

namespace zrt::core::hash_test {
namespace {

TEST_CASE("the hash is XXH3-64 with seed 0") {
  CHECK(Hash().hex() == "2d06800538d394c2");  // of no bytes, from the specification's vectors
}

TEST_CASE("the hash depends on the bytes, not on how they are split") {
  std::vector<uint8_t> data(10000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 256);
  Hash whole;
  whole.update(data.data(), data.size());
  for (size_t split : {0u, 1u, 239u, 256u, 1024u, 9999u}) {
    Hash parts;
    parts.update(data.data(), split);
    parts.update(data.data() + split, data.size() - split);
    CHECK(parts.digest() == whole.digest());
  }
  data[5000] ^= 1;
  Hash changed;
  changed.update(data.data(), data.size());
  CHECK(changed.digest() != whole.digest());
}

TEST_CASE("a moved hash goes on where it was, and hex has 16 digits") {
  Hash first, reference;
  first.update("ab", 2);
  Hash second = std::move(first);
  second.update("c", 1);
  reference.update("abc", 3);
  CHECK(second.hex() == reference.hex());
  CHECK(second.hex().size() == 16);
  CHECK(std::stoull(second.hex(), nullptr, 16) == second.digest());
}

}  // namespace
}  // namespace zrt::core::hash_test
