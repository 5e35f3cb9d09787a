// From document lengths to training samples, exactly as Megatron-Core's GPTDataset does it: documents are laid end to
// end in a shuffled order, cut into samples of S + 1 tokens that overlap by one, and the samples are shuffled again.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zrt::runtime::data {

// megatron: shuffled by numpy's RandomState(seed). sequential: documents and samples as they lie in the file.
enum class Order : uint8_t { megatron, sequential };

struct SampleStart {
  int64_t position = 0;  // in SampleIndex::documents
  int64_t offset = 0;    // in tokens, inside that document
};

struct SampleIndex {
  int64_t epochs = 0;
  bool separate_last_epoch = false;  // the last epoch gives few samples and is shuffled by itself
  std::vector<int32_t> documents;    // ids, `epochs` times each
  std::vector<SampleStart> starts;   // samples + 1; sample j ends one token after starts[j + 1]
  std::vector<int64_t> order;        // sample k reads from starts[order[k]]
  int64_t left_out = 0;              // tokens after the last whole sample

  int64_t samples() const { return static_cast<int64_t>(order.size()); }
};

// Documents [first, first + lengths.size()) with their lengths in tokens, each 0 or more. Without `samples`: the whole
// samples of one epoch; with it: at least that many, from as many epochs as it takes. Throws DataError naming `source`
// when one epoch holds fewer than sequence + 1 tokens, ConfigError for a
// sequence below 1.
SampleIndex build_sample_index(const std::vector<int32_t>& lengths, int32_t first, int64_t sequence,
                               std::optional<int64_t> samples, uint32_t seed, Order order, const std::string& source);

// Sequences [first, second) of training, validation and test for a split such as "969,30,1"; second <= first where a
// part is empty. Throws ConfigError naming the split.
std::array<std::pair<int64_t, int64_t>, 3> split_sequences(const std::string& split, int64_t sequences);

}  // namespace zrt::runtime::data
