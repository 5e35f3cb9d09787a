#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/open_samples.h"
#include "runtime/data/sampler.h"
#include "runtime/train/masked.h"
#include "runtime/train/trainer.h"

namespace zrt::runtime {

namespace {

// A loss over no token is none.
void require_counted(const EvalSet& set) {
  for (int64_t sample = 0; sample < set.source->size(); ++sample) {
    if (set.source->counted(sample) > 0) return;
  }
  throw core::DataError(fmt::format(
      "{}: none of its tokens counts, so there is no held-out loss. Name data of which some do, such as conversations "
      "with answers.",
      set.prefix));
}

}  // namespace

EvalData open_eval_data(const std::vector<DataSource>& sources, data::DocumentUse documents,
                        const models::Model& model) {
  EvalData sets;
  std::vector<std::string> prefixes;
  prefixes.reserve(sources.size());
  for (const DataSource& from : sources) prefixes.push_back(from.prefix);
  const bool padded = documents != data::DocumentUse::joined;
  const auto made_by = padded ? data::common_tokenizer(prefixes, model.vocab) : std::nullopt;
  const int32_t padding = made_by ? data::open_tokenizer(*made_by)->eod() : 0;
  for (const DataSource& from : sources) {
    data::GptDatasetOptions options;
    options.prefix = from.prefix;
    options.sequence = text_sequence(model);
    options.vocabulary = model.vocab;
    options.order = data::Order::sequential;
    options.split = from.split, options.part = from.part;
    options.documents = documents, options.padding = padding;
    EvalSet set{masked(data::open_samples(options), model, prefixes, 0), data::read_meta(from.prefix), from.prefix,
                from.language};
    require_counted(set);
    const std::string said = set.meta ? set.meta->language : "";
    if (set.language.empty()) set.language = said;
    if (!said.empty() && set.language != said) {
      throw core::ConfigError(fmt::format("data.validation names language '{}' for dataset {}, which says '{}'",
                                          set.language, from.prefix, said));
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

namespace {

constexpr double nats_per_bit = 0.69314718055994530942;

Evaluation evaluate_set(Session& session, const EvalSet& data, BatchFiller& filler, int64_t limit,
                        const std::function<bool()>& stop) {
  const Layout& layout = session.stages().front().layout;
  const int64_t samples = data.source->size(), rows = layout.micro_batch, ranks = layout.mesh.data();
  int64_t batches = data::eval_batches(samples, rows, ranks);
  if (limit > 0) batches = std::min(batches, limit);
  int64_t batch = 0;
  filler = [&](int rank, uint32_t, const data::SampleRows& to) {
    const auto part = data::eval_batch(samples, rows, ranks, batch, layout.mesh.place(data_axes, rank));
    for (int64_t row = 0; row < rows; ++row) {
      const data::SampleRows sample = to.from(row * layout.sequence);
      if (row < part.count) {
        data.source->read(part.first + row, sample);
      } else {
        std::fill_n(sample.tokens, layout.sequence, 0);
        std::fill_n(sample.targets, layout.sequence, models::not_counted);
        if (sample.positions != nullptr) std::fill_n(sample.positions, layout.sequence, 0);
      }
    }
  };
  Evaluation result;
  result.prefix = data.prefix;
  result.language = data.language;
  double sum = 0;
  for (batch = 0; batch < batches; ++batch) {
    result.cut_short = stop && stop();
    if (result.cut_short) break;
    session.run("eval", session.executor(0).control().inputs);
    const Control& control = session.executor(0).control();
    sum += control.mean_loss * static_cast<double>(control.mean_tokens);
    result.tokens += control.mean_tokens;
  }
  filler = nullptr;
  result.loss = sum / static_cast<double>(result.tokens);
  if (std::isnan(result.loss)) result.loss = NAN;  // its sign means nothing, and would be printed
  // Hidden tokens, and some of a conversation's, say nothing of how long a text's code would be.
  if (data.meta && data.meta->bytes > 0 && !layout.model->masking && !data.meta->counted_tokens) {
    const double tokens_per_byte = static_cast<double>(data.meta->tokens) / static_cast<double>(data.meta->bytes);
    result.bits_per_byte = result.loss / nats_per_bit * tokens_per_byte;
    result.bytes = std::llround(static_cast<double>(result.tokens) / tokens_per_byte);
    result.unigram_entropy = data.meta->unigram_entropy;
  }
  return result;
}

}  // namespace

Evaluation evaluate(Session& session, const EvalData& data, BatchFiller& filler, int64_t limit,
                    const std::function<bool()>& stop) {
  Evaluation total;
  double nats = 0, bits = 0;
  int64_t bytes = 0;
  bool all_have_bytes = true;
  for (const EvalSet& set : data) {
    const Evaluation one = evaluate_set(session, set, filler, limit, stop);
    if (one.cut_short) return one;
    nats += one.loss * static_cast<double>(one.tokens);
    total.tokens += one.tokens;
    all_have_bytes = all_have_bytes && one.bytes.has_value();
    bits += one.bits_per_byte.value_or(0) * static_cast<double>(one.bytes.value_or(0));
    bytes += one.bytes.value_or(0);
    total.sets.push_back(one);
  }
  if (data.size() == 1) {
    Evaluation only = total.sets.front();
    only.sets = std::move(total.sets);
    return only;
  }
  total.loss = nats / static_cast<double>(total.tokens);
  if (all_have_bytes) {
    total.bytes = bytes;
    total.bits_per_byte = bits / static_cast<double>(bytes);
  }
  return total;
}

}  // namespace zrt::runtime
