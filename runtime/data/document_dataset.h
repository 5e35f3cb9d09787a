// Each document is a sample: it begins with it, has at most S + 1 tokens of it, and what is left is padded and does not
// count. Longer ones are cut. One without a target that counts within S + 1 tokens is left out.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/gpt_dataset.h"

namespace zrt::runtime::data {

class DocumentDataset : public SampleSource {
 public:
  // Epochs of all documents, each shuffled by itself, as many as options.samples takes, or one; Order::sequential: as
  // they lie in the file. Those of an epoch do not depend on how many there are. Throws DataError when the files are
  // bad or no document is left.
  explicit DocumentDataset(const GptDatasetOptions& options);

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }
  int64_t sequence() const override { return sequence_; }
  void read(int64_t sample, const SampleRows& to) const override;
  int64_t counted(int64_t sample) const override { return counted_in(document_of(sample)); }
  SampleOrigin origin(int64_t sample) const override { return {0, document_of(sample), 0}; }
  std::vector<DatasetFacts> datasets() const override { return {facts_of(prefix_, *data_)}; }
  std::vector<std::string> left_out() const override;

  int64_t documents() const { return documents_; }     // of an epoch
  int64_t without_target() const { return without_; }  // documents left out
  int64_t cut() const { return cut_; }                 // documents that were longer
  int64_t cut_tokens() const { return cut_tokens_; }   // of them

 private:
  int32_t document_of(int64_t sample) const;
  int64_t taken(int32_t document) const;  // tokens, at most S + 1
  int64_t counted_in(int32_t document) const;

  std::string prefix_;
  std::unique_ptr<TokenDocuments> data_;
  int64_t sequence_, vocabulary_;
  int32_t padding_;
  std::vector<int32_t> order_;
  int64_t documents_ = 0, without_ = 0, cut_ = 0, cut_tokens_ = 0;
};

}  // namespace zrt::runtime::data
