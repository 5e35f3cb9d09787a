// A Megatron .idx/.bin pair, read as tokens and as what says which of them count. An input is 4 bytes (little endian)
// with the length of the index, the index, the tokens.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "runtime/data/indexed_dataset.h"
#include "runtime/data/indexed_dataset_writer.h"
#include "runtime/data/token_mask.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

namespace data = runtime::data;

bool accepts(std::string_view input) {
  uint32_t length = 0;
  if (input.size() < sizeof length) return false;
  std::memcpy(&length, input.data(), sizeof length);
  input.remove_prefix(sizeof length);
  const std::string counted = (folder() / "pair").string(), prefix = data::counts_prefix(counted);
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
    try {
      const data::TokenMask mask(counted, dataset);
      int64_t counts = 0;
      for (int64_t sequence = 0; sequence < dataset.sequences(); ++sequence)
        counts += mask.counted(sequence, 0, dataset.length(sequence));
      require(counts == mask.counted(), "what counts is what counts of the sequences");
    } catch (const core::DataError&) {  // other types, and bytes that are neither 1 nor 0
    }
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

std::string seed(int64_t vocabulary, const std::vector<std::vector<int32_t>>& documents, bool counts = false) {
  std::string prefix = (folder() / "seed").string();
  data::IndexedDatasetWriter writer(prefix, vocabulary, counts);
  for (const std::vector<int32_t>& document : documents) {
    if (counts)
      writer.append_counted(document, std::vector<uint8_t>(document.begin(), document.end()));
    else
      writer.append(document);
    writer.end_document();
  }
  writer.seal();
  writer.publish();
  if (counts) prefix = data::counts_prefix(prefix);
  const std::string idx = read(data::idx_path(prefix)), bin = read(data::bin_path(prefix));
  const auto length = static_cast<uint32_t>(idx.size());
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + idx + bin;
}

std::map<std::string, std::string> seeds() {
  return {{"u16", seed(300, {{1, 2, 3}, {256}, {7, 8, 9, 10, 299}})},
          {"i32", seed(100000, {{1, 70000}, {3}})},
          {"counts", seed(2, {{0, 1, 1}, {0}, {1, 0, 0, 1, 1, 0, 1, 0, 1}}, true)}};
}

}  // namespace

const Target dataset{
    "dataset",
    accepts,
    seeds,
    {"MMIDIDX", std::string("MMIDIDX\0\0", 9), std::string("\1\0\0\0\0\0\0\0", 8), std::string("\x04", 1),
     std::string("\x08", 1), std::string("\xff\xff\xff\x7f", 4), std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)}};

}  // namespace zrt::fuzz
