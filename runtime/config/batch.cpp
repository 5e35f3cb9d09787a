#include "runtime/config/batch.h"

#include <string>

#include "core/error.h"

namespace zrt::runtime {
namespace {

struct Triple {
  std::optional<int64_t> train, micro, accumulation;
  int64_t ranks;
};

std::string shown(const char* key, std::optional<int64_t> given, std::optional<int64_t> result) {
  std::string text = std::string(key) + " = ";
  if (given) return text + std::to_string(*given);
  return result ? text + std::to_string(*result) + " (inferred)" : text + "not given";
}

[[noreturn]] void fail(const Triple& given, const Triple& result, const std::string& what) {
  throw core::ConfigError(shown("train_batch_size", given.train, result.train) + ", " +
                          shown("train_micro_batch_size_per_gpu", given.micro, result.micro) + ", " +
                          shown("gradient_accumulation_steps", given.accumulation, result.accumulation) + ", " +
                          std::to_string(given.ranks) + " data-parallel rank" + (given.ranks == 1 ? ": " : "s: ") +
                          what);
}

// Two numbers make the third: `each` samples go through all ranks at a time, and the batch is so many times that.
void require_multiple(const Triple& given) {
  const char* const factor = given.micro          ? "train_micro_batch_size_per_gpu x "
                             : given.accumulation ? "gradient_accumulation_steps x "
                                                  : "";
  const int64_t number = given.micro ? *given.micro : given.accumulation.value_or(1);
  int64_t each = 0;
  if (__builtin_mul_overflow(number, given.ranks, &each)) {
    fail(given, given, "the product does not fit 64 bits; use smaller numbers.");
  }
  const int64_t below = *given.train / each * each;
  if (below == *given.train) return;
  const std::string nearest = below == 0
                                  ? "The smallest one is " + std::to_string(each)
                                  : "The nearest are " + std::to_string(below) + " and " + std::to_string(below + each);
  fail(given, given,
       "train_batch_size must be a multiple of " + std::string(factor) + "data-parallel ranks, here " +
           std::to_string(each) + ". " + nearest + "; or change another of the numbers.");
}

// No value when the product does not fit.
std::optional<int64_t> product(const Triple& t) {
  int64_t samples = 0;
  if (__builtin_mul_overflow(*t.micro, *t.accumulation, &samples) ||
      __builtin_mul_overflow(samples, t.ranks, &samples)) {
    return std::nullopt;
  }
  return samples;
}

}  // namespace

BatchConfig resolve_batch(std::optional<int64_t> train, std::optional<int64_t> micro,
                          std::optional<int64_t> accumulation, int64_t data_ranks) {
  const Triple given{train, micro, accumulation, data_ranks};
  Triple result = given;
  for (const auto& number : {train, micro, accumulation}) {
    if (number && *number < 1) fail(given, given, "each number must be at least 1.");
  }
  if (train && !(micro && accumulation)) require_multiple(given);
  if (!train && !micro) result.micro = 1;
  if (!accumulation) result.accumulation = train && micro ? *train / *micro / data_ranks : 1;
  if (!result.micro) result.micro = *train / data_ranks / *result.accumulation;
  const std::optional<int64_t> samples = product(result);
  if (!samples) fail(given, result, "the product does not fit 64 bits; use smaller numbers.");
  if (!train) result.train = samples;
  if (*result.train != *samples) {
    fail(given, result,
         "the train batch must be micro batch x accumulation steps x ranks, here " + std::to_string(*result.micro) +
             " x " + std::to_string(*result.accumulation) + " x " + std::to_string(data_ranks) + " = " +
             std::to_string(*samples) + ". Change one of the numbers, or leave one out to have it inferred.");
  }
  return {*result.train, *result.micro, *result.accumulation};
}

}  // namespace zrt::runtime
