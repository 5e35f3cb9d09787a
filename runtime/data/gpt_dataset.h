// Samples of one dataset in Megatron-Core's order (sample_index.h): documents are joined. Targets that do not count
// (token_mask.h) are models::not_counted.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/data/document_use.h"
#include "runtime/data/sample_index.h"
#include "runtime/data/sample_source.h"
#include "runtime/data/token_documents.h"

namespace zrt::runtime::data {

struct GptDatasetOptions {
  std::string prefix;              // what open_documents() takes
  int64_t sequence = 0;            // S
  int64_t vocabulary = 0;          // of the model: every token must be below it
  std::optional<int64_t> samples;  // at least this many; nothing: the whole samples of one epoch, each once
  uint32_t seed = 1234;            // Megatron's default
  Order order = Order::megatron;   // evaluation reads sequentially
  std::string split;               // "969,30,1": `part` of these; empty: all sequences
  size_t part = 0;                 // 0 training, 1 validation, 2 test
  DocumentUse documents = DocumentUse::joined;  // for open_samples(); a class below it makes its own kind
  int32_t padding = 0;                          // the id behind documents that are not joined
};

// Facts on an opened dataset, of its files and its description.
DatasetFacts facts_of(const std::string& prefix, const TokenDocuments& data);
// " (the validation part of data.split 969,30,1)"; "" without a split.
std::string part_text(const GptDatasetOptions& options);
// Documents [first, second) of options.split and part. Throws DataError where there is none.
std::pair<int64_t, int64_t> documents_of_part(const TokenDocuments& data, const GptDatasetOptions& options);

class GptDataset : public SampleSource {
 public:
  // Throws DataError when the files are bad or hold fewer than S + 1 tokens.
  explicit GptDataset(const GptDatasetOptions& options);

  int64_t size() const override { return index_.samples(); }
  int64_t sequence() const override { return sequence_; }
  void read(int64_t sample, const SampleRows& to) const override;
  int64_t counted(int64_t sample) const override;
  SampleOrigin origin(int64_t sample) const override;
  std::vector<DatasetFacts> datasets() const override;

  const TokenDocuments& data() const { return *data_; }
  const SampleIndex& index() const { return index_; }

 private:
  const SampleStart& start(int64_t sample) const;
  // Calls run(document, offset, count) for the runs of `count` tokens from `at` on.
  template <class Run>
  void walk(SampleStart at, int64_t count, const Run& run) const;

  std::string prefix_;
  std::unique_ptr<TokenDocuments> data_;
  int64_t sequence_, vocabulary_;
  SampleIndex index_;
};

}  // namespace zrt::runtime::data
