#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "models/data/gpt_dataset.h"
#include "models/data/sampler.h"
#include "runtime/trainer.h"

namespace zrt::runtime {

EvalData open_eval_data(const std::string& prefix, const ModelConfig& model) {
  models::data::GptDatasetOptions options;
  options.prefix = prefix;
  options.sequence = model.sequence;
  options.vocabulary = model.vocab;
  options.order = models::data::Order::sequential;
  return {std::make_shared<models::data::GptDataset>(options), models::data::read_meta(prefix)};
}

Evaluation evaluate(Session& session, const EvalData& data, BatchFiller& filler, int64_t limit) {
  const Layout& layout = session.layout();
  const int64_t samples = data.source->size(), rows = layout.micro_batch, ranks = layout.dp;
  int64_t batches = models::data::eval_batches(samples, rows, ranks);
  if (limit > 0) batches = std::min(batches, limit);
  int64_t batch = 0;
  filler = [&](int rank, uint32_t, int32_t* tokens, int32_t* targets) {
    const auto part = models::data::eval_batch(samples, rows, ranks, batch, rank);
    for (int64_t row = 0; row < rows; ++row) {
      int32_t* x = tokens + row * layout.sequence;
      int32_t* y = targets + row * layout.sequence;
      if (row < part.count) {
        data.source->read(part.first + row, x, y);
      } else {
        std::fill_n(x, layout.sequence, 0);
        std::fill_n(y, layout.sequence, models::not_counted);
      }
    }
  };
  Evaluation result;
  double sum = 0;
  for (batch = 0; batch < batches; ++batch) {
    session.run("eval", session.executor(0).control().inputs);
    const Control& control = session.executor(0).control();
    sum += control.mean_loss * static_cast<double>(control.mean_tokens);
    result.tokens += control.mean_tokens;
  }
  filler = nullptr;
  result.loss = sum / static_cast<double>(result.tokens);
  if (data.meta && data.meta->bytes > 0) {
    const double tokens_per_byte = static_cast<double>(data.meta->tokens) / static_cast<double>(data.meta->bytes);
    result.bits_per_byte = result.loss / std::log(2.0) * tokens_per_byte;
    result.unigram_entropy = data.meta->unigram_entropy;
  }
  return result;
}

}  // namespace zrt::runtime
