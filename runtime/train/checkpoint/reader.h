// A checkpoint, or a folder of Hugging Face, opened for reading: any rank reads any part of any logical tensor,
// whatever wrote it.
#pragma once
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "models/sharing.h"
#include "runtime/train/checkpoint/manifest.h"
#include "runtime/train/checkpoint/tensor_set.h"

namespace zrt::runtime::checkpoint {

// Manifest::made_by has this where layers share parameters.
inline constexpr const char* shared_layers = "shared_layers";
Json sharing_json(const models::Sharing& sharing);

class Reader {
 public:
  // Checks sizes, headers and that every tensor is whole; with `hashes` every byte too. Throws DataError.
  Reader(const std::filesystem::path& folder, bool hashes);
  // Plain weights, by our names, of the model whose section of the configuration is given: a start at step 0.
  // `fused_experts`: see find_fused_experts.
  Reader(const std::filesystem::path& folder, Json model, TensorSet weights, bool fused_experts = false);

  bool plain() const { return plain_; }  // no checkpoint but a folder of Hugging Face
  const std::filesystem::path& folder() const { return folder_; }
  // The folder of Hugging Face whose weights adapters belong to, where they lie apart; "": they do not.
  const std::filesystem::path& base() const { return base_; }
  // Takes the weights of its base, too.
  void add_base(const std::filesystem::path& folder, const TensorSet& weights);
  // The weights that lie in its own files, not in those of the base.
  const std::set<std::string>& own_weights() const { return own_; }
  // Throws DataError where weights of the base cannot be read, which only who looks at what is trained can do without.
  void require_base() const;
  const Manifest& manifest() const { return manifest_; }
  const TensorSet& weights() const { return weights_; }
  const TensorSet* states() const { return states_ ? &*states_ : nullptr; }  // null for weights alone
  // Tells which layers of the model share parameters, where any do. Each layer's tensors have names of their own all
  // the same, so that every reader finds the model as it is without sharing.
  const std::optional<models::Sharing>& sharing() const { return sharing_; }
  // The name of the tensor that is read under the name of a weight or state: its own, or the one of the layer that
  // keeps it for others.
  std::string origin(const std::string& tensor) const;
  uint64_t table_bytes() const;  // of both
  // Elements [begin, begin + out.size()) of a weight or, by state_name(), of a state. Thread safe.
  void read(const std::string& tensor, int64_t begin, std::span<float> out) const;
  // Reads every value, a part of a tensor at a time. Throws DataError for the first that is NaN or infinite.
  void require_finite() const;

 private:
  std::filesystem::path folder_, base_;
  std::string base_error_;
  std::set<std::string> own_;
  bool plain_ = false;
  Manifest manifest_;
  TensorSet weights_;
  std::optional<TensorSet> states_;
  std::optional<models::Sharing> sharing_;
};

// Opens the checkpoint that PATH means (find_checkpoint). One that its run removes meanwhile gives way to the newest
// then. Throws DataError.
Reader open_checkpoint(const std::filesystem::path& path);

}  // namespace zrt::runtime::checkpoint
