// Runs op after op: live bytes are counted, and on the CPU dead buffers poisoned.
#include <sanitizer/asan_interface.h>

#include <chrono>
#include <numeric>

#include "core/parallel.h"
#include "runtime/engine/executor_impl.h"

namespace zrt::runtime {

void Executor::poison(const Buffer& buffer, bool dead) const {
  if (buffer.tier == Tier::nvme || arenas_[static_cast<size_t>(buffer.tier)]->on_gpu()) return;
  if (dead) {
    ASAN_POISON_MEMORY_REGION(address(buffer), buffer.extent());
  } else {
    ASAN_UNPOISON_MEMORY_REGION(address(buffer), buffer.slots * buffer.stride());
  }
}

void Executor::run_serial(const Program& program) {
  if (!on_gpu()) core::set_threads(options_.threads);
  prepare(program);
  // Dead buffers are poisoned until the run ends: hosts read results and scan the arena afterwards.
  struct Unpoison {
    const core::Arenas& arenas;
    ~Unpoison() {
      for (const core::Arena* arena : arenas) {
        if (arena && !arena->on_gpu()) ASAN_UNPOISON_MEMORY_REGION(arena->data(), arena->bytes());
      }
    }
  } const unpoison{arenas_};
  for (const Buffer& buffer : set_.buffers) {
    if (buffer.life == Life::transient) poison(buffer, true);
  }
  size_t position = 0;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t iteration) {
    count_live(program, id, position);
    if (!leaves_out(program.ops[id])) {
      TraceEvent event{&program, id, iteration, runs_, rank_.control->inputs.step, 0, now_seconds(), 0};
      if (on_gpu()) {
        const uint8_t lane = program.ops[id].lane;
        core::Stream& stream = *streams_[streams_[lane]->device() == device_ ? 0 : lane];
        stream.run([&] { execute(program, id, iteration, &event.received_bytes); });
        stream.synchronize();
      } else {
        execute(program, id, iteration, &event.received_bytes);
      }
      event.end_seconds = now_seconds();
      if (tracing_) trace_.push_back(event);
    }
    for (BufferId ended : prepared_[&program]->ended[position]) {
      const Buffer& buffer = set_.buffers[ended];
      if (!is_live_[ended]) continue;  // named twice by one op
      is_live_[ended] = 0;
      live(buffer) -= buffer.bytes * buffer.slots;
      poison(buffer, true);
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
    poison(buffer, false);
  }
  for (size_t t = 0; t < core::tier_count; ++t) {
    const uint64_t total = std::accumulate(live_[t].begin(), live_[t].end(), uint64_t{0});
    if (total > live_peak_[t].total) live_peak_[t] = {program.phase, program.ops[id].name, live_[t], total};
  }
}

}  // namespace zrt::runtime
