#include "runtime/engine/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/error.h"
#include "core/philox.h"
#include "runtime/engine/executor_impl.h"
#include "runtime/engine/red_zones.h"
#include "runtime/ops/call.h"
#include "runtime/ops/control_ops.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {

CommVolume& CommVolume::operator+=(const CommVolume& other) {
  calls += other.calls, elements += other.elements, bytes += other.bytes;
  elements_between += other.elements_between, bytes_between += other.bytes_between;
  return *this;
}
CommVolume CommVolume::operator-(const CommVolume& other) const {
  return {calls - other.calls, elements - other.elements, bytes - other.bytes,
          elements_between - other.elements_between, bytes_between - other.bytes_between};
}

Executor::Executor(Rank rank, const ProgramSet& set, const core::Arenas& arenas, ExecutorOptions options)
    : rank_(std::move(rank)),
      set_(set),
      arenas_(arenas),
      options_(options),
      device_(rank_.layout->device),
      control_(no_buffer) {
  for (BufferId b = 0; b < set.buffers.size(); ++b) {
    if (set.buffers[b].name == "control") control_ = b;
  }
  if (on_gpu()) host_control_ = std::make_unique<core::Arena>(core::Tier::host, sizeof(Control), device_);
  rank_.control = &control();
  is_live_.resize(set.buffers.size());
  for (const Buffer& buffer : set.buffers) {
    if (buffer.life != Life::transient) live(buffer) += buffer.bytes * buffer.slots;
  }
  if (options.serialize && !on_gpu()) return;
  for (const Lane& lane : set.lanes) {
    const std::string name = fmt::format("{}/{}", rank_.number, lane.name());
    streams_.push_back(core::make_stream(device_of(lane), name, threads_of(lane)));
  }
}

Executor::~Executor() = default;

core::DeviceKind Executor::device_of(const Lane& lane) const {
  return lane.kind == LaneKind::io || lane.kind == LaneKind::host ? core::DeviceKind::cpu : device_;
}

int Executor::threads_of(const Lane& lane) const {
  if (lane.kind == LaneKind::host) return on_gpu() ? options_.host_threads : options_.threads;
  return lane.kind == LaneKind::compute ? options_.threads : 1;
}

Control& Executor::control() {
  if (host_control_) return *reinterpret_cast<Control*>(host_control_->data());
  return *reinterpret_cast<Control*>(address(set_.buffers.at(control_)));
}

std::byte* Executor::address(const Buffer& buffer) const {
  return arenas_[static_cast<size_t>(buffer.tier)]->data() + buffer.offset;
}

uint64_t& Executor::live(const Buffer& buffer) {
  return live_[static_cast<size_t>(buffer.tier)][static_cast<size_t>(buffer.category)];
}

std::byte* Executor::buffer(std::string_view name, uint32_t slot) {
  for (const Buffer& buffer : set_.buffers) {
    if (buffer.name == name) return address(buffer) + slot * buffer.stride();
  }
  throw core::ProgramError(fmt::format("there is no buffer '{}'", name));
}

std::vector<std::byte> Executor::read(std::string_view name, uint32_t slot) {
  const std::byte* from = buffer(name, slot);
  const auto found =
      std::find_if(set_.buffers.begin(), set_.buffers.end(), [&](const Buffer& b) { return b.name == name; });
  std::vector<std::byte> contents(found->bytes);
  core::read_bytes(contents.data(), from, contents.size(), device_);
  return contents;
}

Executor::Prepared& Executor::prepare(const Program& program) {
  auto& prepared = prepared_[&program];
  if (prepared) return *prepared;
  prepared = std::make_unique<Prepared>();
  prepared->signals.resize(program.ops.size());
  prepared->lanes.resize(set_.lanes.size());
  prepared->lanes[0] = 1;
  for (const Op& op : program.ops) {
    for (OpId other : op.waits) prepared->signals[other] = 1;
    prepared->lanes[op.lane] = 1;
    if (device_of(set_.lanes[op.lane]) != device_) prepared->mixed = true;
  }
  if (!options_.serialize) return *prepared;
  // Backwards through all executions: a buffer ends where its next use defines it anew, or never comes.
  std::vector<OpId> executions;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t) { executions.push_back(id); });
  prepared->ended.resize(executions.size());
  std::vector<uint8_t> needed_later(set_.buffers.size());
  for (size_t i = executions.size(); i-- > 0;) {
    const Op& op = program.ops[executions[i]];
    for (const Access& access : op.accesses) {
      const Buffer& buffer = set_.buffers[access.buffer];
      if (buffer.life == Life::transient && !needed_later[access.buffer]) prepared->ended[i].push_back(access.buffer);
    }
    for (const Access& access : op.accesses) {
      needed_later[access.buffer] = access.use != Use::write || set_.buffers[access.buffer].slots > 1;
    }
  }
  return *prepared;
}

bool Executor::leaves_out(const Op& op) const {
  if (only_ == Only::everything) return false;
  const bool communicates = set_.lanes[op.lane].kind == LaneKind::comm;
  const bool tells = std::any_of(op.accesses.begin(), op.accesses.end(),
                                 [](const Access& access) { return access.role == Role::shares; });
  return only_ == Only::communication ? !communicates : communicates && !tells;
}

void Executor::run(const Program& program, Only only) {
  only_ = only;
  exposed_comm_seconds_ = exposed_io_seconds_ = 0;
  failed_ = false;
  ++runs_;
  if (program.phase != "load") rank_.aliases.reset();  // from now on buffers differ
  const bool makes_states = program.phase == "init" || program.phase == "load";
  if (!makes_states && control().fault == Fault::updated_with_bad_gradient) throw_fault(rank_, control());
  if (program.phase == "step") prepare_step(rank_, control());
  try {
    if (on_gpu()) before_program(program);
    inspects_ = !on_gpu() || inspection_due(program);
    const bool replayed = on_gpu() && !options_.serialize && replay(program);
    if (options_.serialize) {
      run_serial(program);
    } else if (!replayed) {
      run_lanes(program);
    }
    if (on_gpu()) after_program(program);
    if (replayed) account(program, prepare(program).recorded);
  } catch (const std::exception& error) {
    // Errors of ops have ended the groups already; on a GPU batches and what lies between ops can fail, too.
    if (on_gpu()) abort(fmt::format("rank {} failed in phase '{}': {}", rank_.number, program.phase, error.what()));
    throw;
  }
  if (program.phase == "step") throw_fault(rank_, control());
}

void Executor::run_lanes(const Program& program) {
  Queued queued;
  try {
    queue(program, queued);
  } catch (const std::exception& error) {
    // Lanes that are threads still run what was queued, which refers to `queued`.
    failed_ = true;
    abort(fmt::format("rank {} failed to queue phase '{}': {}", rank_.number, program.phase, error.what()));
    wait_for_lanes();
    throw;
  }
  if (const std::exception_ptr error = wait_for_lanes()) std::rethrow_exception(error);
  account(program, queued);
}

void Executor::queue(const Program& program, Queued& queued) {
  const Prepared& prepared = prepare(program);
  core::Stream& compute = *streams_[0];
  if (prepared.mixed) {
    queued.begin = core::make_anchor(compute);
  } else {
    compute.run([&queued] { queued.begin.seconds = now_seconds(); });
    queued.begin.event = compute.record_time();
  }
  std::vector<core::Event> latest(program.ops.size());
  for_each_execution(program, ~0u, [&](OpId id, uint32_t iteration) {
    const Op& op = program.ops[id];
    if (leaves_out(op)) return;
    core::Stream& stream = *streams_[op.lane];
    for (OpId other : op.waits) {
      if (!latest[other].state()) continue;  // not of this run
      const LaneKind kind = set_.lanes[op.lane].kind, awaited = set_.lanes[program.ops[other].lane].kind;
      if (!computing(kind) || computing(awaited)) {
        stream.wait(latest[other]);
        continue;
      }
      core::Event before = stream.record_time();
      stream.wait(latest[other]);
      queued.waits.push_back({std::move(before), stream.record_time(), awaited == LaneKind::comm, kind});
    }
    uint64_t* received = nullptr;
    if (tracing_) {
      queued.traced.push_back({id, iteration, stream.record_time(), {}, 0});
      received = &queued.traced.back().received;
    }
    stream.run([this, &program, id, iteration, received] { execute(program, id, iteration, received); });
    if (tracing_) queued.traced.back().end = stream.record_time();
    if (prepared.signals[id]) latest[id] = stream.record();
  });
  for (size_t lane = 0; lane < streams_.size(); ++lane) {
    queued.ends.push_back(prepared.lanes[lane] ? streams_[lane]->record_time() : core::Event());
  }
}

std::exception_ptr Executor::wait_for_lanes() {
  // An error of one lane ends the group, so that a CommError of another is often its echo.
  std::exception_ptr cause, echo;
  for (auto& stream : streams_) {
    try {
      stream->synchronize();
    } catch (const core::CommError&) {
      if (!echo) echo = std::current_exception();
    } catch (...) {
      if (!cause) cause = std::current_exception();
    }
  }
  return cause ? cause : echo;
}

void Executor::account(const Program& program, const Queued& queued) {
  const double computed = queued.ends[0].seconds(queued.begin);
  for (const Queued::Wait& wait : queued.waits) {
    // While the compute lane works, nothing is lost where the host waits.
    const double before = wait.before.seconds(queued.begin);
    const double since = wait.lane == LaneKind::compute ? before : std::max(before, computed);
    (wait.comm ? exposed_comm_seconds_ : exposed_io_seconds_) +=
        std::max(0.0, wait.after.seconds(queued.begin) - since);
  }
  // No computation hides what other lanes do after the last compute op, either.
  double compute = 0, comm = 0, io = 0;
  for (size_t lane = 0; lane < queued.ends.size(); ++lane) {
    if (!queued.ends[lane].state()) continue;
    const LaneKind kind = set_.lanes[lane].kind;
    double& last = computing(kind) ? compute : kind == LaneKind::comm ? comm : io;
    last = std::max(last, queued.ends[lane].seconds(queued.begin) - queued.begin.seconds);
  }
  exposed_comm_seconds_ += std::max(0.0, comm - compute);
  exposed_io_seconds_ += std::max(0.0, io - std::max(compute, comm));
  if (queued.traced.empty()) return;
  const auto from = static_cast<std::ptrdiff_t>(trace_.size());
  for (const Queued::Traced& op : queued.traced) {
    trace_.push_back({&program, op.op, op.iteration, runs_, rank_.control->inputs.step, op.received,
                      op.start.seconds(queued.begin), op.end.seconds(queued.begin)});
  }
  std::stable_sort(trace_.begin() + from, trace_.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.end_seconds < b.end_seconds; });
}

uint64_t Executor::count_traffic(const Op& op, const comm::Counters& before, const comm::Counters& after) {
  const std::lock_guard lock(comm_volume_mutex_);
  CommVolume& volume = comm_volume_[op.kind];
  uint64_t received = 0;
  for (size_t k = 0; k < comm::collective_kind_count; ++k) {
    const uint64_t elements = after.elements[k] - before.elements[k], bytes = after.bytes[k] - before.bytes[k];
    volume.calls += after.calls[k] - before.calls[k];
    volume.elements += elements;
    volume.bytes += bytes;
    received += bytes;
    if (set_.group(op).axes != outer_axes) continue;
    volume.elements_between += elements;
    volume.bytes_between += bytes;
  }
  return received;
}

void Executor::abort(const std::string& reason) {
  for (comm::Communicator* group : rank_.groups) {
    if (group) group->abort(reason);
  }
}

std::chrono::microseconds stress_delay(uint64_t seed, uint32_t run, int rank, uint32_t lane, OpId id,
                                       uint32_t iteration) {
  const core::RngKey key{seed, run, static_cast<uint32_t>(rank) << 8 | lane};
  const uint32_t word = core::random_word(key, uint64_t{id} << 32 | iteration);
  return std::chrono::microseconds(seed == 0 || word % 2 == 0 ? 0
                                                              : static_cast<int>(std::exp2(10 * core::uniform(word))));
}

void Executor::execute(const Program& program, OpId id, uint32_t iteration, uint64_t* received) {
  if (failed_) return;
  const Op& op = program.ops[id];
  if (options_.stress_seed != 0) {
    std::this_thread::sleep_for(stress_delay(options_.stress_seed, runs_, rank_.number, op.lane, id, iteration));
  }
  const OpCall call(rank_, set_, arenas_, op, iteration);
  const bool communicates = set_.lanes[op.lane].kind == LaneKind::comm;
  const bool to_file = op.kind == OpKind::evict && moved(set_, op).written > 0;
  const uint64_t in_file = to_file ? rank_.file->bytes_written() : 0;
  RedZones written, all;
  for (const Access& access : op.accesses) {
    if (!inspects_) break;  // of all lanes alike: one checks what another has painted
    const Buffer& buffer = set_.buffers[access.buffer];
    if (buffer.tier == Tier::nvme) continue;
    std::byte* zone = call.address(access) + buffer.padded();
    if (access.use == Use::write) written.push_back(zone);
    if (access.use != Use::read) all.push_back(zone);
  }
  try {
    if (inspects_) paint_red_zones(written);
    const comm::Counters before = communicates ? call.comm().counters() : comm::Counters{};
    if (only_ == Only::compute && communicates) {
      for (size_t n = 0; const Access* shares = call.find(Role::shares, n); ++n) {
        core::fill_bytes(call.address(*shares), 0, call.bytes(*shares));
      }
    } else {
      spec(op.kind).run(call);
    }
    if (transfers(op.kind)) {
      const std::lock_guard lock(comm_volume_mutex_);
      moved_ += moved(set_, op);
      // Aliases are not written.
      if (to_file) moved_.written += rank_.file->bytes_written() - in_file - moved(set_, op).written;
    }
    if (communicates) {
      const uint64_t bytes = count_traffic(op, before, call.comm().counters());
      if (received) *received = bytes;
    }
    if (!inspects_) return;
    BrokenZone broken;
    const bool by_gpu = core::place().device == core::DeviceKind::cuda;
    check_red_zones(all, id, by_gpu ? &reinterpret_cast<Control*>(address(set_.buffers[control_]))->broken : &broken);
    if (broken.op != 0) fail_red_zone(program, id, broken.zone);
  } catch (const std::exception& error) {
    failed_ = true;
    abort(fmt::format("rank {} failed in '{}': {}", rank_.number, op.name, error.what()));
    throw;
  } catch (...) {
    failed_ = true;
    abort(fmt::format("rank {} failed in '{}'", rank_.number, op.name));
    throw;
  }
}

// `zone` counts the buffers that the op writes.
void Executor::fail_red_zone(const Program& program, OpId id, uint32_t zone) const {
  const Op& op = program.ops[id];
  for (const Access& access : op.accesses) {
    const bool has_zone = access.use != Use::read && set_.buffers[access.buffer].tier != Tier::nvme;
    if (!has_zone || zone-- != 0) continue;
    throw core::ProgramError(fmt::format("rank {}: op '{}' of phase '{}' wrote past the end of buffer '{}' ({} bytes)",
                                         rank_.number, op.name, program.phase, set_.buffers[access.buffer].name,
                                         set_.buffers[access.buffer].bytes));
  }
  throw core::ProgramError(fmt::format("rank {}: op '{}' wrote past the end of a buffer", rank_.number, op.name));
}

}  // namespace zrt::runtime
