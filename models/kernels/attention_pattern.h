// Which keys a query attends to: all, all up to its own position, or of these the ones in blocks that a pattern keeps.
// What is not kept is neither computed nor stored.
//
// fixed (Child et al., "Generating Long Sequences with Sparse Transformers", 2019, as DeepSpeed lays it out): the
// sequence is cut into windows of `local` blocks; a query attends to its own window, and of every other one to `global`
// blocks that stand for it. Heads take these in turn from the window's end: of 8 blocks with 8 choices, head h takes
// block 7 - (h mod 8).
// sliding (Beltagy et al., "Longformer", 2020): a query attends to `local` / 2 blocks before its own, to its own, to as
// many behind where attention is not causal, and to the first `global` blocks of the sequence.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace zrt::models {

struct AttentionPattern {
  enum class Kind : uint8_t { dense, fixed, sliding };
  Kind kind = Kind::dense;
  bool causal = true;
  // Of the global blocks: that their queries attend to all keys, too. Only where attention is not causal.
  bool horizontal = false;
  int block = 16;   // positions
  int local = 4;    // blocks
  int global = 1;   // blocks
  int choices = 1;  // of global blocks; at most local / global, and 1 of sliding

  bool operator==(const AttentionPattern&) const = default;
  bool sparse() const { return kind != Kind::dense; }

  // Whether a query's block attends to a key's, of a sequence of so many blocks. Of blocks that are kept in causal
  // attention, keys behind the query are not seen.
  ZRT_HD bool keeps(int64_t head, int query, int key, int blocks) const {
    if (causal && key > query) return false;
    if (kind == Kind::dense) return true;
    if (kind == Kind::fixed && query / local == key / local) return true;
    if (kind == Kind::sliding && (query > key ? query - key : key - query) <= local / 2) return true;
    return stands(head, key, blocks) || (horizontal && stands(head, query, blocks));
  }
  // Whether a block is global.
  ZRT_HD bool stands(int64_t head, int at, int blocks) const {
    if (kind != Kind::fixed) return kind == Kind::sliding && at < global;
    const int whole = blocks / local * local;  // blocks of windows that the end of the sequence does not cut off
    const int begin = local - (1 + static_cast<int>(head % choices)) * global, place = at % local;
    if (at < whole && place >= begin && place < begin + global) return true;
    if (whole == blocks) return false;
    const int last = blocks - global < whole + begin ? blocks - global : whole + begin;
    return at >= last && at < last + global;
  }
  ZRT_HD int blocks(int64_t T) const { return static_cast<int>((T + block - 1) / block); }

  // Blocks of scores that a head of T positions keeps.
  int64_t kept(int64_t T, int64_t head) const;
  // Of the scores of dense attention, causal or not, the share that is kept, over all heads alike.
  double share(int64_t T) const;
};

}  // namespace zrt::models
