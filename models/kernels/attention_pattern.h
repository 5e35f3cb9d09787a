// The keys that a query attends to: all, all up to its own position, or of these the ones in blocks that a pattern
// keeps. What is not kept is neither computed nor stored.
//
// fixed (Child et al., "Generating Long Sequences with Sparse Transformers", 2019, as DeepSpeed lays it out): the
// sequence is cut into windows of `local` blocks; a query attends to its own window, and of every other one to `global`
// blocks that stand for it. Heads take these in turn from the window's end: of 8 blocks with 8 choices, head h takes
// block 7 - (h mod 8).
// sliding (Beltagy et al., "Longformer", 2020): a query attends to `local` / 2 blocks before its own, to its own, to as
// many behind where attention is not causal, and to the first `global` blocks of the sequence.
// A window (Mistral, Gemma) is a sliding pattern without global blocks that is cut to the position: of the blocks that
// it keeps a query sees the last `window` positions up to its own.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace zrt::models {

// Division by a number that is found once: exact for dividends below 2^16 and divisors up to it.
struct ShortDivision {
  uint32_t factor = 0;
  ZRT_HD static ShortDivision by(int divisor) { return {0xffffffffu / static_cast<uint32_t>(divisor) + 1}; }
  ZRT_HD int of(int x) const {
    if (factor == 0) return x;  // by 1
    return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(x)) * factor >> 32);
  }
};

// The pattern of one head over a sequence of so many blocks, 2^16 at most, made ready to be asked often.
struct HeadPattern;

struct AttentionPattern {
  enum class Kind : uint8_t { dense, fixed, sliding };
  Kind kind = Kind::dense;
  bool causal = true;
  // True where queries of the global blocks attend to all keys, too. Only where attention is not causal.
  bool horizontal = false;
  int block = 16;   // positions
  int local = 4;    // blocks
  int global = 1;   // blocks
  int choices = 1;  // of global blocks; at most local / global, and 1 of sliding
  int window = 0;   // positions, of a causal sliding pattern; 0: whole blocks

  // The pattern of so many positions, the query's own among them; of all T where these are not more.
  static AttentionPattern of_window(int64_t positions, int64_t T);

  bool operator==(const AttentionPattern&) const = default;
  ZRT_HD bool sparse() const { return kind != Kind::dense; }
  // The first position that a query of a window sees.
  ZRT_HD int first_key(int query) const { return window == 0 || query < window ? 0 : query + 1 - window; }
  // The most keys that a query of T positions sees.
  int64_t most_keys(int64_t T) const { return window > 0 && window < T ? window : T; }
  ZRT_HD int blocks(int64_t T) const { return static_cast<int>((T + block - 1) / block); }
  ZRT_HD HeadPattern of(int64_t head, int blocks) const;

  // Blocks of scores that a head of T positions keeps.
  int64_t kept(int64_t T, int64_t head) const;
  // The share of the scores of dense attention, causal or not, that is kept, over all heads alike.
  double share(int64_t T) const;
};

struct HeadPattern {
  AttentionPattern::Kind kind;
  bool causal, horizontal;
  int local, global;
  // fixed: blocks of windows that the end of the sequence does not cut off; place in a window of the first global
  // block; of the window that is cut off the first one, -1 without one.
  int whole, begin, last;
  ShortDivision by_local;

  // True where a query's block attends to a key's. In causal attention, keys of such a block that lie behind the query
  // are not seen.
  ZRT_HD bool keeps(int query, int key) const {
    if (causal && key > query) return false;
    if (kind == AttentionPattern::Kind::dense) return true;
    if (kind == AttentionPattern::Kind::fixed) {
      if (by_local.of(query) == by_local.of(key)) return true;
    } else {
      if ((query > key ? query - key : key - query) <= local / 2) return true;
    }
    return stands(key) || (horizontal && stands(query));
  }
  // True where a block is global.
  ZRT_HD bool stands(int at) const {
    if (kind == AttentionPattern::Kind::sliding) return at < global;
    if (kind == AttentionPattern::Kind::dense) return false;
    const int place = at - by_local.of(at) * local;
    if (at < whole && place >= begin && place < begin + global) return true;
    return last >= 0 && at >= last && at < last + global;
  }
};

ZRT_HD inline HeadPattern AttentionPattern::of(int64_t head, int blocks) const {
  HeadPattern p{kind, causal, horizontal, local, global, 0, 0, -1, {}};
  if (kind != Kind::fixed) return p;
  p.by_local = ShortDivision::by(local);
  p.whole = p.by_local.of(blocks) * local;
  p.begin = local - (1 + static_cast<int>(static_cast<uint32_t>(head) % static_cast<uint32_t>(choices))) * global;
  if (p.whole < blocks) p.last = blocks - global < p.whole + p.begin ? blocks - global : p.whole + p.begin;
  if (p.whole < blocks && p.last < 0) p.last = 0;
  return p;
}

}  // namespace zrt::models
