// Software whose runs are predicted, where it is not zrt: named in the cluster's file.
#pragma once

namespace zrt::runtime {

// A trainer's way to do what zrt's programs ask for; by default zrt's own.
struct Software {
  // Attention writes its scores to memory, of 2 bytes each: what passes over them read and write, per score.
  double score_bytes_forward = 0, score_bytes_backward = 0;
  bool whole_recompute = false;  // full recomputation makes the output of a layer, too
  bool blocking_exchanges = false, blocking_gathers = false, blocking_reductions = false;  // nothing computes meanwhile
  bool call_per_tensor = false;    // gathers and reductions of weights
  double between_hosts_share = 1;  // of the link's bandwidth, in gathers and reductions of weights
};

}  // namespace zrt::runtime
