// The buffers of a program: memory of a rank, by tier.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/ledger.h"

namespace zrt::runtime {

using BufferId = uint32_t;
inline constexpr BufferId no_buffer = ~0u;
inline constexpr uint64_t io_alignment = 4096;  // of what a file is read into or written from

enum class Life : uint8_t {
  transient,  // defined and dropped inside a turn of a program
  reserved,   // holds its bytes in every phase, contents only inside one run of a program
  carried,    // state: contents survive from program to program
};

struct Buffer {
  std::string name;
  core::Category category = core::Category::workspace;
  Life life = Life::transient;
  uint64_t bytes = 0;   // of one slot
  uint32_t slots = 1;   // one per microbatch where several are alive
  uint64_t offset = 0;  // in the tier's arena; set by memory assignment
  core::Tier tier = core::Tier::device;
  bool whole_blocks = false;  // exchanged with a file, which takes blocks of io_alignment alone
  // Chunks of a stage may share a buffer: this holds the slot of each chunk × microbatches + microbatch.
  std::vector<uint32_t> slot_table{};
  uint64_t padded() const;     // `bytes`, of whole blocks where it has to be; red zones lie behind
  uint64_t alignment() const;  // of the offset
  uint64_t stride() const;     // from slot to slot, red zone included
  uint64_t extent() const { return (slots - 1) * stride() + padded(); }  // without the last red zone
};

}  // namespace zrt::runtime
