// The control block: everything a step decides, in the device tier, so that no op needs the host inside a step.
#pragma once
#include <cstdint>
#include <string>

#include "models/router_tally.h"
#include "optimizer/exact_sum.h"
#include "optimizer/loss_scale.h"
#include "optimizer/optimizer.h"

namespace zrt::runtime {

// The requests that somebody may make of a run while it runs; bits. A rank that is asked tells the others with the
// step's decision, so that all act after the same step.
enum Request : uint32_t { save_requested = 1, stop_requested = 2 };

// The host writes these between programs; they are constant while one runs.
struct StepInputs {
  uint64_t seed = 0;
  uint32_t step = 0;     // skipped ones count: batches and dropout go on
  int64_t position = 0;  // decode: of the new token
  optimizer::Rates rates;
  uint32_t requests = 0;  // of this rank
  // Targets of the step that enter the loss, of all ranks and microbatches; -1: as many as its samples have. A step
  // without one changes nothing.
  int64_t counted = -1;
};

// All that must survive a restart beside the units' states. `visit_fields` is its list of fields, for checkpoints:
// visit(name, value&) with values of uint64_t, int64_t and double (which must keep every bit). `members` of the
// optimizer have fields.
struct Persistent {
  optimizer::Progress progress[optimizer::most_members];  // by Optimizer::member_of
  optimizer::LossScale loss_scale;                        // of the next backward
};
template <class P, class Visit>
void visit_fields(P& persistent, uint32_t members, Visit visit) {
  for (uint32_t m = 0; m < members; ++m) {
    const std::string number = m == 0 ? "" : std::string("_").append(std::to_string(m));
    visit(std::string("updates").append(number), persistent.progress[m].updates);
    visit(std::string("beta1_power").append(number), persistent.progress[m].beta1_power);
    visit(std::string("beta2_power").append(number), persistent.progress[m].beta2_power);
  }
  visit("loss_scale", persistent.loss_scale.scale);
  visit("loss_scale_hysteresis", persistent.loss_scale.hysteresis);
  visit("loss_scale_iteration", persistent.loss_scale.iteration);
  visit("loss_scale_last_overflow", persistent.loss_scale.last_overflow);
}

// The optimizer's decision if the step is taken. The host makes it in front of a step, because it depends on the
// progress alone and takes functions that devices compute differently.
struct NextStep {
  optimizer::Progress progress[optimizer::most_members];
  optimizer::Decision decision[optimizer::most_members];
};

// The reason why a run cannot go on; the executor throws it when a program has ended (throw_fault).
enum class Fault : uint32_t { none, loss_scale_at_minimum, updated_with_bad_gradient };

// The first of the red zones (engine/red_zones.h) that was found damaged; here, so that a GPU can write it.
struct BrokenZone {
  uint32_t op = 0;    // its number in the program + 1; 0: none
  uint32_t zone = 0;  // among those of the op
};

struct Control {
  StepInputs inputs;
  NextStep next;

  double call_loss = 0;  // nats; of the microbatch at hand
  // These are summed over the step on this rank.
  double loss_sum = 0;  // nats
  uint64_t loss_tokens = 0;
  optimizer::ExactSum norm;  // squares of this rank's gradient shards
  models::RouterTally router;

  // All ranks decide these alike.
  uint32_t requests = 0;                                  // of any rank
  double mean_loss = 0;                                   // nats per token of the global batch
  uint64_t mean_tokens = 0;                               // tokens it is the mean of
  models::RouterTally all_routers;                        // of all ranks
  double loss_scale = 1;                                  // of this step
  double grad_norm = 0;                                   // before clipping, without the loss scale
  optimizer::Decision decision[optimizer::most_members];  // by Optimizer::member_of
  uint32_t updates_wait = 0;                              // 1: the updates that a step decided have not been made
  Fault fault = Fault::none;

  Persistent persistent;

  BrokenZone broken;  // of this run of a program, on a GPU
};

// The values that a rank tells the others before a decision.
struct ControlShare {
  double loss_sum = 0;
  uint64_t loss_tokens = 0;
  optimizer::ExactSum norm;
  uint32_t requests = 0;
  models::RouterTally router;
};

}  // namespace zrt::runtime
