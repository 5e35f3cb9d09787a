// Places the messages of a pipeline's stage, those it sends and those it receives, among the works of its schedule.
//
// The works and messages of all stages are put into one order; each stage does what concerns it in that order. A GPU
// that runs all it is given in one queue, in order, can therefore not wait for another that waits for it: the first of
// all that are not done can be done. Placed by the works alone, messages have no such order: under 1F1B a stage would
// send an output before it receives a gradient, and its neighbour send that gradient before it receives the output.
//
// The one order is that of a clock by which every work takes one unit and messages take nothing. A message comes when
// it has been made and its slot on the other side is free.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/program/order.h"

namespace zrt::runtime {

// A chunk has these slots for what it hands on in one direction, and for the gradients of its outputs that come back.
// `chunk` is one of the stage's. Between the last stage and the first gradients come earlier the more microbatches go
// through a chunk in a row beyond one for each stage.
uint32_t handed_slots(const Schedule& schedule);
uint32_t returned_slots(const Schedule& schedule, int32_t stage, int32_t chunk);

// order(), with the messages that the stage sends and receives. Linear in the works of all stages for the first stage
// of a schedule that is asked for, in those of the stage for others. Throws core::ProgramError where the works of the
// stages wait for each other for ever, which those of a legal schedule do not.
std::vector<Work> link_order(const Schedule& schedule, int32_t stage);

}  // namespace zrt::runtime
