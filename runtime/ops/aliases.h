// Buffers of the NVMe tier that the `load` program fills with the same bytes, because a checkpoint of shared layers has
// them once: the first is written, and the others become aliases of it (offload/block_file.h) until an update changes
// them. Which ones follows from the layout before anything is loaded.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "offload/block_file.h"
#include "runtime/program/layout.h"
#include "runtime/program/program.h"
#include "runtime/program/state_buffers.h"

namespace zrt::runtime {

// Names the tensor that a logical tensor's values come from. Equal names mean equal values.
using Origin = std::function<std::string(const std::string& tensor)>;

struct Alias {
  BufferId of = no_buffer;
  std::vector<offload::ExtentPart> parts;  // whole pieces that are equal
};

class Aliases {
 public:
  // Finds the aliases of a rank whose file has pieces of `piece` bytes. `states`: optimizer states are loaded, too.
  // `layout` and `state` must outlive it.
  Aliases(const ProgramSet& set, const Layout& layout, const StateBuffers& state, int rank, const Origin& origin,
          bool states, uint64_t piece);

  const Alias* find(BufferId resident) const;  // null where all of it is written
  // True if elements [first, first + count) of a buffer of this form are an alias: nobody needs their values.
  bool cover(BufferId resident, core::Form form, int64_t first, int64_t count) const;
  const StateBuffers& state() const { return state_; }

 private:
  const StateBuffers& state_;
  std::map<BufferId, Alias> found_;
};

}  // namespace zrt::runtime
