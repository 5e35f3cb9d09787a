// Cuts a piece at the parts that a pattern matched: these are removed, a piece each, or joined with their neighbours.
#pragma once
#include <string_view>

#include "runtime/data/tokenizer_json/pre_tokenizer.h"

namespace zrt::runtime::data::tokenizer_json {

enum class Behavior : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };
// Reads key `behavior`.
Behavior read_behavior(Fields& fields, const char* otherwise);

// Takes the parts of a piece from left to right and hands on pieces.
class Cutter {
 public:
  Cutter(Piece piece, Behavior behavior, PieceSink next) : piece_(piece), behavior_(behavior), next_(next) {}

  void part(size_t begin, size_t end, bool matched) {
    if (behavior_ == Behavior::isolated) return emit(begin, end);
    if (behavior_ == Behavior::removed) {
      if (!matched) emit(begin, end);
      return;
    }
    const bool joins = held_ && (behavior_ == Behavior::contiguous             ? matched == matched_
                                 : behavior_ == Behavior::merged_with_previous ? matched && !matched_
                                                                               : !matched && matched_);
    if (!joins) {
      if (held_) emit(begin_, end_);
      begin_ = begin;
    }
    end_ = end;
    held_ = true;
    matched_ = matched;
  }

  void finish() {
    if (held_) emit(begin_, end_);
  }

 private:
  void emit(size_t begin, size_t end) const {
    next_({piece_.text.substr(begin, end - begin), piece_.first && begin == 0});
  }
  Piece piece_;
  Behavior behavior_;
  PieceSink next_;
  size_t begin_ = 0, end_ = 0;
  bool held_ = false, matched_ = false;
};

}  // namespace zrt::runtime::data::tokenizer_json
