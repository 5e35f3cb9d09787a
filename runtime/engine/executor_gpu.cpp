// The executor's part that only ranks on a GPU need: the control block's two copies, batches, and replays.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "runtime/engine/executor_impl.h"
#include "runtime/ops/batch.h"
#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"
#include "runtime/program/expert_loads.h"

namespace zrt::runtime {

void Executor::before_program(const Program& program) {
  // Tasks of a CUDA stream run on this thread; on the host they only make initial values, which threads do not change.
  core::set_threads(options_.host_threads);
  control().broken = {};
  std::byte* device = address(set_.buffers[control_]);
  streams_[0]->run([&] { core::copy_bytes(device, host_control_->data(), sizeof(Control)); });
  // Other lanes start behind it, but for the host's, which cannot see the device's copy.
  const core::Event copied = streams_[0]->record();
  for (size_t lane = 1; lane < streams_.size(); ++lane) {
    if (streams_[lane]->device() == device_) streams_[lane]->wait(copied);
  }
  fill_batches(program);
}

void Executor::after_program(const Program& program) {
  std::byte* device = address(set_.buffers[control_]);
  streams_[0]->run([&] { core::copy_bytes(host_control_->data(), device, sizeof(Control)); });
  streams_[0]->synchronize();
  // A call that was ended let its stream go on.
  for (const comm::Communicator* group : rank_.groups) {
    if (group) group->require_alive();
  }
  const BrokenZone& broken = control().broken;
  if (broken.op != 0) fail_red_zone(program, broken.op - 1, broken.zone);
}

// All batches of a program lie in pinned memory before it starts: its ops copy them.
void Executor::fill_batches(const Program& program) {
  for_each_execution(program, ~0u, [&](OpId id, uint32_t iteration) {
    const Op& op = program.ops[id];
    const OpCall call(rank_, set_, arenas_, op, iteration);
    if (!call.find(Role::staging) || leaves_out(op)) return;
    const Access& staging = *call.find(Role::staging);
    uint64_t rows = 0;
    for (const Role role : {Role::tokens, Role::targets, Role::positions}) {
      if (const Access* one = call.find(role)) rows = call.bytes(*one) / sizeof(int32_t);
    }
    const uint64_t parts = call.bytes(staging) / (rows * sizeof(int32_t));  // 1 to 3
    auto* tokens = reinterpret_cast<int32_t*>(call.address(staging));
    const data::SampleRows batch{tokens, parts > 1 ? tokens + rows : nullptr, parts > 2 ? tokens + 2 * rows : nullptr};
    rank_.batch(op.microbatch.at(iteration), batch);
    check_batch(*rank_.layout->model, batch, static_cast<int64_t>(rows));
  });
}

bool Executor::inspection_due(const Program& program) {
  constexpr uint32_t interval = 64;
  return prepare(program).runs++ % interval == 0;
}

bool Executor::replay(const Program& program) {
  // Collectives between ranks meet on the host each time, delays are drawn anew, and times of ops are taken one by one.
  if (rank_.layout->mesh.world() > 1 || options_.stress_seed != 0 || tracing_ || only_ != Only::everything)
    return false;
  Prepared& prepared = prepare(program);
  const auto any = [&](auto what) {
    return std::any_of(program.ops.begin(), program.ops.end(), [&](const Op& op) { return what(op, spec(op.kind)); });
  };
  if (prepared.mixed || any([](const Op&, const OpSpec& row) { return row.needs_host; })) return false;
  const Control& now = control();
  Parameters parameters;
  parameters.seed = now.inputs.seed;
  const auto takes = [&](Parameter parameter) {
    return any([&](const Op&, const OpSpec& row) { return (row.parameters & parameter) != 0; });
  };
  if (any([&](const Op& op, const OpSpec& row) {
        return row.block && rank_.layout->model->blocks[op.block]->draws_numbers();
      })) {
    parameters.step = now.inputs.step;
  }
  if (takes(takes_position)) parameters.position = now.inputs.position;
  if (takes(takes_loss_scale)) parameters.loss_scale = now.persistent.loss_scale.scale;
  if (takes(takes_loss_scale) && experts_before(*rank_.layout->model) > 0) parameters.counted = now.inputs.counted;
  if (prepared.last != parameters) {
    prepared.last = parameters;
    prepared.recording.reset();
    return false;
  }
  if (inspects_) return false;
  if (prepared.recording) {
    for (const auto& [kind, volume] : prepared.traffic) comm_volume_[kind] += volume;
    moved_ += prepared.moved;
  } else {
    std::vector<core::Stream*> streams;
    for (auto& stream : streams_) {
      if (stream->device() == device_) streams.push_back(stream.get());
    }
    auto before = comm_volume_;
    const Moved moved_before = moved_;
    prepared.recorded = {};
    prepared.recording = core::record(streams, [&] { queue(program, prepared.recorded); });
    for (const auto& [kind, volume] : comm_volume_) prepared.traffic[kind] = volume - before[kind];
    prepared.moved = moved_ - moved_before;
  }
  prepared.recording->replay(*streams_[0]);
  return true;
}

}  // namespace zrt::runtime
