// sparse_attention, in DeepSpeed's words, to the pattern of a model's layers.
#include <algorithm>

#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

using models::AttentionPattern;
using models::SparseLayers;

constexpr int most_leading = 1 << 15;

std::string path_of(const char* key) {
  return std::string("sparse_attention.") + key;
}

int whole(const Values& values, const char* key) {
  return static_cast<int>(values.integer(path_of(key)));
}

// Keys that another mode reads.
void refuse_keys_beside(const Values& values, const std::string& mode, std::initializer_list<const char*> read) {
  for (const char* key : {"block", "different_layout_per_head", "num_local_blocks", "num_global_blocks", "attention",
                          "horizontal_global_attention", "num_different_global_patterns", "global_block_indices",
                          "global_block_end_indices", "num_sliding_window_blocks", "layers"}) {
    const Value& value = values.at(path_of(key));
    const bool asked = values.given(value.path) && value.value != nlohmann::json::parse(value.key->fallback);
    if (!asked ||
        std::find_if(read.begin(), read.end(), [&](const std::string& one) { return one == key; }) != read.end())
      continue;
    values.check([&] {
      refuse(value, "has no effect with sparse_attention.mode = \"" + mode + "\". Remove it, or choose another mode.");
    });
  }
}

void build_fixed(const Values& values, AttentionPattern& pattern) {
  pattern.kind = AttentionPattern::Kind::fixed;
  pattern.local = whole(values, "num_local_blocks");
  pattern.global = whole(values, "num_global_blocks");
  pattern.choices = whole(values, "num_different_global_patterns");
  pattern.horizontal = values.flag(path_of("horizontal_global_attention"));
  const int most = pattern.local / pattern.global;
  values.check([&] {
    if (pattern.local % pattern.global == 0) return;
    refuse(values.at(path_of("num_global_blocks")),
           "does not divide sparse_attention.num_local_blocks = " + std::to_string(pattern.local) +
               ": the blocks that stand for a window are taken from its end in whole steps. Try 1.");
  });
  values.check([&] {
    const Value& choices = values.at(path_of("num_different_global_patterns"));
    if (pattern.local % pattern.global == 0 && pattern.choices > most) {
      refuse(choices, "asks for more than a window of " + std::to_string(pattern.local) + " blocks has, " +
                          std::to_string(pattern.global) + " at a time: legal are 1 to " + std::to_string(most) + ".");
    }
    if (pattern.choices > 1 && !values.flag(path_of("different_layout_per_head"))) {
      refuse(choices,
             "gives heads different blocks, which needs sparse_attention.different_layout_per_head = true, as in "
             "DeepSpeed. Set that, or 1 here.");
    }
  });
  values.check([&] {
    if (!pattern.horizontal || !pattern.causal) return;
    refuse(values.at(path_of("horizontal_global_attention")),
           "lets queries attend to keys behind them, which sparse_attention.attention = \"unidirectional\" rules out. "
           "Set false.");
  });
}

// The first blocks of the sequence: [0, 1, 2], or [0] that ends at [3].
int leading_blocks(const Values& values) {
  const Value &begins = values.at(path_of("global_block_indices")),
              &ends = values.at(path_of("global_block_end_indices"));
  const nlohmann::json &from = begins.value, &to = ends.value;
  if (!to.is_null()) {
    if (from == nlohmann::json::array({0}) && to.size() == 1 && to[0].is_number_integer() && to[0] >= 1 &&
        to[0] <= most_leading) {
      return to[0].get<int>();
    }
    refuse(ends,
           "is legal beside global_block_indices = [0] alone, as one number from 1 to 32768: only blocks at the "
           "sequence's beginning can be global. Try [1].");
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == static_cast<int64_t>(i)) continue;
    refuse(begins,
           "must count up from 0, like [0, 1]: only blocks at the sequence's beginning can be global; [] is none.");
  }
  return static_cast<int>(from.size());
}

void build_sliding(const Values& values, bool longformer, AttentionPattern& pattern) {
  pattern.kind = AttentionPattern::Kind::sliding;
  pattern.local = whole(values, "num_sliding_window_blocks");
  pattern.global = 0;
  if (!longformer) return;
  values.check([&] { pattern.global = leading_blocks(values); });
  pattern.horizontal = !pattern.causal;
}

}  // namespace

models::SparseLayers build_attention(Values& values, bool causal, int64_t sequence) {
  SparseLayers sparse;
  sparse.pattern.causal = causal;
  const bool asked = std::any_of(values.all().begin(), values.all().end(), [&](const Value& value) {
    return value.path.rfind("sparse_attention.", 0) == 0 && values.given(value.path);
  });
  if (!asked) return sparse;
  AttentionPattern& pattern = sparse.pattern;
  const std::string mode = values.choice(path_of("mode")), which = values.choice(path_of("layers"));
  if (mode == "dense") {
    refuse_keys_beside(values, mode, {});
    return sparse;
  }
  sparse.layers = which == "even"  ? SparseLayers::Which::even
                  : which == "odd" ? SparseLayers::Which::odd
                                   : SparseLayers::Which::all;
  pattern.block = whole(values, "block");
  values.check([&] {
    constexpr int64_t most_of_sequence = 1 << 13;
    if (sequence / pattern.block < most_of_sequence) return;
    refuse(values.at(path_of("block")), "cuts model.sequence = " + std::to_string(sequence) + " into more than " +
                                            std::to_string(most_of_sequence) + " blocks. Try " +
                                            std::to_string(sequence / most_of_sequence + 1) + " or more.");
  });
  values.check([&] {
    const char* way = causal ? "unidirectional" : "bidirectional";
    if (!values.given(path_of("attention"))) values.infer(path_of("attention"), way);
    if (values.choice(path_of("attention")) == way) return;
    refuse(
        values.at(path_of("attention")),
        std::string(causal ? "lets queries attend to keys behind them, but this type of model predicts the next token"
                           : "hides the keys behind a query, but this type of model reads in both directions") +
            ". Set \"" + way + "\".");
  });
  if (mode == "fixed") {
    refuse_keys_beside(values, mode,
                       {"block", "different_layout_per_head", "num_local_blocks", "num_global_blocks", "attention",
                        "horizontal_global_attention", "num_different_global_patterns", "layers"});
    build_fixed(values, pattern);
  } else if (mode == "bslongformer") {
    refuse_keys_beside(values, mode,
                       {"block", "different_layout_per_head", "attention", "global_block_indices",
                        "global_block_end_indices", "num_sliding_window_blocks", "layers"});
    build_sliding(values, true, pattern);
  } else {
    refuse_keys_beside(values, mode,
                       {"block", "different_layout_per_head", "attention", "num_sliding_window_blocks", "layers"});
    build_sliding(values, false, pattern);
  }
  return sparse;
}

}  // namespace zrt::runtime::configuration
