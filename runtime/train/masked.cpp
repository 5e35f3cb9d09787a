#include "runtime/train/masked.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "core/error.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/indexed_format.h"
#include "runtime/data/masked_dataset.h"

namespace zrt::runtime {

int64_t text_sequence(const models::Model& model) {
  return model.masking ? model.masking->text(model.sequence) : model.sequence;
}

std::shared_ptr<const data::SampleSource> masked(std::shared_ptr<const data::SampleSource> text,
                                                 const models::Model& model, const std::vector<std::string>& prefixes,
                                                 uint64_t seed) {
  if (!model.masking) return text;
  for (const std::string& prefix : prefixes) {
    std::error_code failed;
    if (!std::filesystem::exists(data::idx_path(data::counts_prefix(prefix)), failed)) continue;
    throw core::ConfigError(
        fmt::format("{}: it says which tokens count, but a model that names hidden tokens learns from those it hides. "
                    "Take a dataset of text, or remove both files of the counts.",
                    data::idx_path(data::counts_prefix(prefix))));
  }
  const auto made_by = data::common_tokenizer(prefixes, model.vocab);
  if (made_by && !made_by->unnamed.empty() && model.masking->whole_words) {
    throw core::ConfigError(fmt::format(
        "model.whole_words is true, but there is no {}, which would say which tokens make words. Build that dataset "
        "with `zrt data build`, or set model.whole_words to false.",
        data::meta_path(made_by->unnamed)));
  }
  const std::unique_ptr<data::Tokenizer> tokenizer = made_by ? data::open_tokenizer(*made_by) : nullptr;
  data::MaskedOptions options{*model.masking, data::word_parts(*model.masking, tokenizer.get(), model.vocab), seed};
  if (tokenizer) options.text = tokenizer->vocab_size(), options.end = tokenizer->eod();
  return std::make_shared<data::MaskedDataset>(std::move(text), model.sequence, std::move(options));
}

}  // namespace zrt::runtime
