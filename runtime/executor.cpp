#include "runtime/executor.h"

#include <fmt/format.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "runtime/control_ops.h"
#include "runtime/ops.h"

namespace zrt::runtime {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct Executor::Plan {
  std::vector<uint8_t> signals;              // by op: another lane waits for it
  std::vector<std::vector<BufferId>> ended;  // by execution of a serial run: transient buffers dead after it
};

Executor::Executor(Rank rank, const ProgramSet& set, const core::Arenas& arenas, ExecutorOptions options)
    : rank_(std::move(rank)), set_(set), arenas_(arenas), options_(options), control_(no_buffer) {
  for (BufferId b = 0; b < set.buffers.size(); ++b) {
    if (set.buffers[b].name == "control") control_ = b;
  }
  rank_.control = &control();
  is_live_.resize(set.buffers.size());
  for (const Buffer& buffer : set.buffers) {
    if (buffer.life != Life::transient) live(buffer) += buffer.bytes * buffer.slots;
  }
  if (options.serialize) return;
  for (const Lane& lane : set.lanes) {
    const int threads = lane.kind == LaneKind::compute ? options.threads : 1;
    streams_.push_back(
        core::make_stream(core::DeviceKind::cpu, fmt::format("{}/{}", rank_.number, lane.name()), threads));
  }
}

Executor::~Executor() = default;

Control& Executor::control() {
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

Executor::Plan& Executor::plan(const Program& program) {
  auto& plan = plans_[&program];
  if (plan) return *plan;
  plan = std::make_unique<Plan>();
  plan->signals.resize(program.ops.size());
  for (const Op& op : program.ops) {
    for (OpId other : op.waits) plan->signals[other] = 1;
  }
  if (!options_.serialize) return *plan;
  // Backwards through all executions: a buffer ends where its next use defines it anew, or never comes.
  std::vector<OpId> executions;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t) { executions.push_back(id); });
  plan->ended.resize(executions.size());
  std::vector<uint8_t> needed_later(set_.buffers.size());
  for (size_t i = executions.size(); i-- > 0;) {
    const Op& op = program.ops[executions[i]];
    for (const Access& access : op.accesses) {
      const Buffer& buffer = set_.buffers[access.buffer];
      if (buffer.life == Life::transient && !needed_later[access.buffer]) plan->ended[i].push_back(access.buffer);
    }
    for (const Access& access : op.accesses) {
      needed_later[access.buffer] = access.use != Use::write || set_.buffers[access.buffer].slots > 1;
    }
  }
  return *plan;
}

bool Executor::leaves_out(const Op& op) const {
  if (only_ == Only::everything) return false;
  const bool communicates = set_.lanes[op.lane].kind == LaneKind::comm;
  return only_ == Only::communication ? !communicates : communicates && op.kind != OpKind::share_control;
}

void Executor::run(const Program& program, Only only) {
  only_ = only;
  exposed_comm_seconds_ = exposed_io_seconds_ = 0;
  failed_ = false;
  ++runs_;
  if (program.phase == "step") prepare_step(rank_, control());
  if (options_.serialize) {
    run_serial(program);
  } else {
    run_lanes(program);
  }
  throw_fault(rank_, control());
}

void Executor::run_lanes(const Program& program) {
  const Plan& plan = this->plan(program);
  std::vector<core::Event> latest(program.ops.size());
  for_each_execution(program, ~0u, [&](OpId id, uint32_t iteration) {
    const Op& op = program.ops[id];
    if (leaves_out(op)) return;
    core::Stream& stream = *streams_[op.lane];
    for (OpId other : op.waits) {
      if (latest[other].done()) continue;
      if (set_.lanes[op.lane].kind != LaneKind::compute) {
        stream.wait(latest[other]);
        continue;
      }
      double& exposed =
          set_.lanes[program.ops[other].lane].kind == LaneKind::comm ? exposed_comm_seconds_ : exposed_io_seconds_;
      stream.run([event = latest[other], &exposed] {
        if (event.done()) return;
        const double start = now_seconds();
        event.wait();
        exposed += now_seconds() - start;
      });
    }
    stream.run([this, &program, id, iteration] { execute(program, id, iteration); });
    if (plan.signals[id]) latest[id] = stream.record();
  });
  std::vector<double> finish_seconds(streams_.size());
  for (size_t lane = 0; lane < streams_.size(); ++lane) {
    streams_[lane]->run([&finish = finish_seconds[lane]] { finish = now_seconds(); });
  }
  std::exception_ptr first;
  for (auto& stream : streams_) {
    try {
      stream->synchronize();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  add_tail(finish_seconds);
}

// What other lanes do after the last compute op, no computation hides either.
void Executor::add_tail(const std::vector<double>& finish_seconds) {
  double compute = 0, comm = 0, io = 0;
  for (size_t lane = 0; lane < finish_seconds.size(); ++lane) {
    const LaneKind kind = set_.lanes[lane].kind;
    double& last = kind == LaneKind::compute ? compute : kind == LaneKind::comm ? comm : io;
    last = std::max(last, finish_seconds[lane]);
  }
  exposed_comm_seconds_ += std::max(0.0, comm - compute);
  exposed_io_seconds_ += std::max(0.0, io - std::max(compute, comm));
}

void Executor::run_serial(const Program& program) {
  core::set_threads(options_.threads);
  plan(program);
  // Dead buffers are poisoned until the run ends: hosts read results and scan the arena afterwards.
  struct Unpoison {
    const core::Arenas& arenas;
    ~Unpoison() {
      for (const core::Arena* arena : arenas) {
        if (arena) ASAN_UNPOISON_MEMORY_REGION(arena->data(), arena->bytes());
      }
    }
  } const unpoison{arenas_};
  for (const Buffer& buffer : set_.buffers) {
    if (buffer.life == Life::transient) ASAN_POISON_MEMORY_REGION(address(buffer), buffer.extent());
  }
  size_t position = 0;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t iteration) {
    count_live(program, id, position);
    if (!leaves_out(program.ops[id])) execute(program, id, iteration);
    for (BufferId ended : plans_[&program]->ended[position]) {
      const Buffer& buffer = set_.buffers[ended];
      if (!is_live_[ended]) continue;  // named twice by one op
      is_live_[ended] = 0;
      live(buffer) -= buffer.bytes * buffer.slots;
      ASAN_POISON_MEMORY_REGION(address(buffer), buffer.extent());
    }
    ++position;
  });
}

void Executor::count_live(const Program& program, OpId id, size_t) {
  for (const Access& access : program.ops[id].accesses) {
    const Buffer& buffer = set_.buffers[access.buffer];
    if (buffer.life != Life::transient || is_live_[access.buffer]) continue;
    is_live_[access.buffer] = 1;
    live(buffer) += buffer.bytes * buffer.slots;
    ASAN_UNPOISON_MEMORY_REGION(address(buffer), buffer.slots * buffer.stride());
  }
  for (size_t t = 0; t < core::tier_count; ++t) {
    const uint64_t total = std::accumulate(live_[t].begin(), live_[t].end(), uint64_t{0});
    if (total > live_peak_[t].total) live_peak_[t] = {program.phase, program.ops[id].name, live_[t], total};
  }
}

uint64_t Executor::count_traffic(const Op& op, const comm::Counters& before, const comm::Counters& after) {
  const std::lock_guard lock(comm_volume_mutex_);
  CommVolume& volume = comm_volume_[op.kind];
  uint64_t received = 0;
  for (size_t k = 0; k < comm::op_kind_count; ++k) {
    const uint64_t elements = after.elements[k] - before.elements[k], bytes = after.bytes[k] - before.bytes[k];
    volume.calls += after.calls[k] - before.calls[k];
    volume.elements += elements;
    volume.bytes += bytes;
    received += bytes;
    if (op.span != Span::outer) continue;
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

// Half of the ops start late, by a time whose logarithm is uniform.
void Executor::delay(const Op& op, OpId id, uint32_t iteration) const {
  const core::RngKey key{options_.stress_seed, runs_, static_cast<uint32_t>(rank_.number) << 8 | op.lane};
  const uint32_t word = core::random_word(key, uint64_t{id} << 32 | iteration);
  if (word % 2 == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(std::exp2(10 * core::uniform(word)))));
}

void Executor::execute(const Program& program, OpId id, uint32_t iteration) {
  if (failed_) return;
  const Op& op = program.ops[id];
  if (options_.stress_seed != 0) delay(op, id, iteration);
  const OpCall call(rank_, set_, arenas_, op, iteration);
  const double start = tracing_ ? now_seconds() : 0;
  uint64_t received = 0;
  const bool communicates = set_.lanes[op.lane].kind == LaneKind::comm;
  auto red_zone = [&](const Access& access) { return call.address(access) + set_.buffers[access.buffer].bytes; };
  try {
    for (const Access& access : op.accesses) {
      if (access.use == Use::write) core::paint_red_zone(red_zone(access));
    }
    const comm::Counters before = communicates ? call.comm().counters() : comm::Counters{};
    if (only_ == Only::compute && communicates) {
      for (size_t n = 0; const Access* shares = call.find(Role::shares, n); ++n) {
        std::memset(call.address(*shares), 0, call.bytes(*shares));
      }
    } else {
      run_op(call);
    }
    if (communicates) received = count_traffic(op, before, call.comm().counters());
    for (const Access& access : op.accesses) {
      if (access.use == Use::read || core::red_zone_intact(red_zone(access))) continue;
      throw core::ProgramError(
          fmt::format("rank {}: op '{}' of phase '{}' wrote past the end of buffer '{}' ({} bytes)", rank_.number,
                      op.name, program.phase, set_.buffers[access.buffer].name, set_.buffers[access.buffer].bytes));
    }
  } catch (const std::exception& error) {
    failed_ = true;
    abort(fmt::format("rank {} failed in '{}': {}", rank_.number, op.name, error.what()));
    throw;
  } catch (...) {
    failed_ = true;
    abort(fmt::format("rank {} failed in '{}'", rank_.number, op.name));
    throw;
  }
  if (!tracing_) return;
  const TraceEvent event{&program, id, iteration, runs_, rank_.control->inputs.step, received, start, now_seconds()};
  const std::lock_guard lock(trace_mutex_);
  trace_.push_back(event);
}

}  // namespace zrt::runtime
