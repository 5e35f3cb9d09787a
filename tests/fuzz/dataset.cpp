// A Megatron .idx/.bin pair. An input is 4 bytes (little endian) with the length of the index, the index, the tokens.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "runtime/data/indexed_dataset.h"
#include "runtime/data/indexed_dataset_writer.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

namespace data = runtime::data;

bool accepts(std::string_view input) {
  uint32_t length = 0;
  if (input.size() < sizeof length) return false;
  std::memcpy(&length, input.data(), sizeof length);
  input.remove_prefix(sizeof length);
  const std::string prefix = (folder() / "pair").string();
  write(data::idx_path(prefix), input.substr(0, length));
  write(data::bin_path(prefix), input.substr(std::min<size_t>(length, input.size())));
  try {
    const data::IndexedDataset dataset(prefix);
    int64_t tokens = 0;
    for (int64_t sequence = 0; sequence < dataset.sequences(); ++sequence) {
      std::vector<int32_t> out(static_cast<size_t>(dataset.length(sequence)));
      tokens += dataset.length(sequence);
      try {
        dataset.read(sequence, 0, dataset.length(sequence), 1000, out.data());
      } catch (const core::DataError&) {  // a token outside the vocabulary
      }
    }
    require(tokens == dataset.tokens(), "a dataset has the tokens of its sequences");
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

std::string seed(int64_t vocabulary, const std::vector<std::vector<int32_t>>& documents) {
  const std::string prefix = (folder() / "seed").string();
  data::IndexedDatasetWriter writer(prefix, vocabulary);
  for (const std::vector<int32_t>& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.seal();
  writer.publish();
  const std::string idx = read(data::idx_path(prefix)), bin = read(data::bin_path(prefix));
  const auto length = static_cast<uint32_t>(idx.size());
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + idx + bin;
}

std::map<std::string, std::string> seeds() {
  return {{"u16", seed(300, {{1, 2, 3}, {256}, {7, 8, 9, 10, 299}})}, {"i32", seed(100000, {{1, 70000}, {3}})}};
}

}  // namespace

const Target dataset{
    "dataset",
    accepts,
    seeds,
    {"MMIDIDX", std::string("MMIDIDX\0\0", 9), std::string("\1\0\0\0\0\0\0\0", 8), std::string("\x04", 1),
     std::string("\x08", 1), std::string("\xff\xff\xff\x7f", 4), std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)}};

}  // namespace zrt::fuzz
