// Says how a configuration spreads a model over the stages of a pipeline and in which order these work.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace zrt::runtime {

enum class ScheduleKind : uint8_t { gpipe, one_f_one_b, interleaved, zb_h1 };
std::string_view schedule_name(ScheduleKind kind);  // as in parallel.schedule: "gpipe", "1f1b", "interleaved", "zb-h1"

struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int32_t stages = 1;
  int32_t microbatches = 1;
  // Interleaved only: chunks of a stage, and how many microbatches in a row go through a chunk before the next one.
  int32_t chunks = 1;
  int32_t group = 1;
  bool operator==(const Schedule&) const = default;
};

// Throws ConfigError for numbers below 1, for chunks without interleaving, and for groups of an interleaved schedule
// that leave a stage waiting: stages ≤ group ≤ microbatches, and a last group that is short has at least `stages`.
void check_schedule(const Schedule& schedule);

// A model is cut into chunks by this: as many blocks each, embedding and head included; as many parameters; as much
// time of a step, by the cost model; or so many blocks as a list says, chunk by chunk.
struct Partition {
  enum class By : uint8_t { blocks, parameters, time, list };
  By by = By::time;
  std::vector<int64_t> counts;  // of a list
};

// Says how long a stage keeps weights that it has gathered for a block (ZeRO stage 3).
enum class GatheredFor : uint8_t {
  use,   // one forward or backward of a microbatch
  run,   // all forwards in a row, not counting backwards between them, of one chunk; the same of backwards
  step,  // the whole step
};
std::string_view gathered_for_name(GatheredFor longer);  // as in parallel.gathered_for

}  // namespace zrt::runtime
