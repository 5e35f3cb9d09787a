// Samples that several documents share, each of which attends to itself alone. A document of L tokens has L - 1 rows, a
// token and its target each. Those with more than S are cut into pieces of S and a rest, documents of their own that
// begin with the last target of the piece before. Pieces without a target that counts are left out, and the others
// packed into samples of S rows by best fit decreasing (best_fit.h). Rows behind the last piece are padded.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/gpt_dataset.h"
#include "runtime/data/numpy_random.h"
#include "runtime/data/sample_source.h"

namespace zrt::runtime::data {

class PackedDataset : public SampleSource {
 public:
  struct Piece {
    int32_t document = 0, offset = 0;  // of its first token
    int32_t rows = 0;
  };

  // Epochs of all pieces, as many as options.samples takes, or one. In each the pieces are shuffled, packed, and the
  // samples shuffled; Order::sequential: pieces are packed as they lie in the file, and samples are in the order of
  // their first ones. Samples of an epoch do not depend on how many there are. Takes 12 bytes for each piece of all
  // epochs and 8 for each sample. Throws DataError when the files are bad or no piece is left.
  explicit PackedDataset(const GptDatasetOptions& options);

  int64_t size() const override { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t sequence() const override { return sequence_; }
  // A row of padding is a document of its own.
  void read(int64_t sample, const SampleRows& to) const override;
  int64_t counted(int64_t sample) const override;
  SampleOrigin origin(int64_t sample) const override;  // of its first piece
  std::vector<DatasetFacts> datasets() const override { return {facts_of(prefix_, *data_)}; }
  std::vector<std::string> left_out() const override;
  std::vector<std::string> fullness() const override;

  // Gives those of a sample, in the order in which the epoch has them.
  std::span<const Piece> pieces(int64_t sample) const;

 private:
  // Facts on an epoch, which all have.
  struct Counts {
    int64_t documents = 0;        // of which a piece is left
    int64_t cut = 0;              // of these
    int64_t without_target = 0;   // documents without a piece
    int64_t pieces_left_out = 0;  // of documents that have others
    int64_t samples = 0, rows = 0;
  };

  std::vector<Piece> cut(int64_t first, int64_t behind);
  int64_t counted_in(const Piece& piece) const;
  // Nothing is shuffled where there are no random numbers.
  void append_epoch(std::vector<Piece> pieces, NumpyRandom* random);

  std::string prefix_;
  std::unique_ptr<TokenDocuments> data_;
  int64_t sequence_, vocabulary_;
  int32_t padding_;
  Counts counts_;
  std::vector<Piece> pieces_;       // of all samples, one behind the other
  std::vector<int64_t> starts_{0};  // of each sample in pieces_, and the end of the last
};

}  // namespace zrt::runtime::data
