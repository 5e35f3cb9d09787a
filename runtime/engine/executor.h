// Runs programs on one rank: each lane is a stream, each wait an event. Counts live bytes and watches red zones.
//
// On a GPU the host only queues work and waits at the end of a program. The control block lies on the device; the host
// has a copy, which goes there before a program and comes back behind it. Lanes `io` and `host` are threads of the
// host, whose ops touch memory of the host alone. A program without ops on those, run again with the same values in the
// parameters of its kernels, is recorded and replayed from then on.
#pragma once
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/recording.h"
#include "core/stream.h"
#include "runtime/ops/rank.h"
#include "runtime/program/control.h"
#include "runtime/program/moved.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

struct ExecutorOptions {
  int threads = 1;         // of the compute lane
  bool serialize = false;  // run op after op on the calling thread, counting live bytes and poisoning dead buffers
  // Not 0: ops start late at random, up to a millisecond, so that lanes and ranks meet in orders that are rare
  // otherwise. Nothing may change but the time. The delays follow from the seed, the rank, the op, its turn and the
  // number of the run.
  uint64_t stress_seed = 0;
  int host_threads = 0;  // of a GPU's rank on the host; 0 means its share of the cores
};

// By how much the `run`-th run of a rank's executor (from 1) delays an op: half of the ops start late, by a time whose
// logarithm is uniform. Zero for a seed of 0.
std::chrono::microseconds stress_delay(uint64_t seed, uint32_t run, int rank, uint32_t lane, OpId id,
                                       uint32_t iteration);

// For measurements: the communication of a program alone, or everything else. What is left out counts as done: buffers
// hold what lay there before, what ranks would tell each other for a decision is zero, and numbers mean nothing.
enum class Only : uint8_t { everything, compute, communication };

struct TraceEvent {
  const Program* program;
  OpId op;
  uint32_t iteration;
  uint32_t run;                       // of the executor: which call of run()
  uint32_t step;                      // from 0
  uint64_t received_bytes;            // from other ranks; of ops on comm lanes
  double start_seconds, end_seconds;  // of the machine's steady clock
};

// One kind of op received this from other ranks; the last two count what came through the outer level of groups.
struct CommVolume {
  uint64_t calls = 0, elements = 0, bytes = 0;
  uint64_t elements_between = 0, bytes_between = 0;
  CommVolume& operator+=(const CommVolume& other);
  CommVolume operator-(const CommVolume& other) const;
};

struct LivePeak {
  std::string phase, op;
  core::CategoryBytes categories{};
  uint64_t total = 0;
};

class Executor {
 public:
  // The rank's callbacks and communicator, the set and the arenas must outlive the executor.
  Executor(Rank rank, const ProgramSet& set, const core::Arenas& arenas, ExecutorOptions options);
  ~Executor();

  // Runs one program to its end. Red zones are painted and checked in every run, on a GPU in the first one of a program
  // and every 64th from there on: runs do the same to the same buffers, and the kernels that look take time. The first
  // error of any lane aborts the rank's groups and is thrown; ops that have not started by then never run, because what
  // they would read was not written; a GPU still does what its streams were given, and nobody sees it.
  void run(const Program& program, Only only = Only::everything);

  Control& control();  // between programs; on a GPU the host's copy
  // Says how long in the last run this rank's compute lane, and behind its last op the host lane, stood still for comm
  // lanes, to its very end: communication that outlasts the last compute op counts. A collective that waits for a
  // slower rank is communication. Serial runs do not measure it.
  double exposed_comm_seconds() const { return exposed_comm_seconds_; }
  double exposed_io_seconds() const { return exposed_io_seconds_; }  // the same for to_device, to_host and io lanes
  const std::map<OpKind, CommVolume>& comm_volume() const { return comm_volume_; }  // between programs
  const Moved& moved_bytes() const { return moved_; }                               // between programs
  // The peak of live bytes, which only serialized runs count.
  const LivePeak& live_peak(core::Tier tier = core::Tier::device) const {
    return live_peak_[static_cast<size_t>(tier)];
  }
  // Turns tracing of the runs to come on or off; call it between programs. Turning it off keeps what there is.
  void set_tracing(bool on) { tracing_ = on; }
  const std::vector<TraceEvent>& trace() const { return trace_; }  // in the order of their ends
  void clear_trace() { trace_ = {}; }
  // Contents of a buffer between programs, for tests and hosts that read results. Throws when there is no such buffer.
  std::vector<std::byte> read(std::string_view name, uint32_t slot = 0);
  std::byte* buffer(std::string_view name, uint32_t slot = 0);  // its address, on a GPU in its memory

 private:
  struct Prepared;  // per program: which ops are waited for, where lives end
  struct Queued;    // what was queued for one run: the events whose times are asked for behind it
  bool on_gpu() const { return device_ == core::DeviceKind::cuda; }
  core::DeviceKind device_of(const Lane& lane) const;
  int threads_of(const Lane& lane) const;
  bool leaves_out(const Op& op) const;
  Prepared& prepare(const Program& program);
  void run_lanes(const Program& program);
  void queue(const Program& program, Queued& queued);
  std::exception_ptr wait_for_lanes();  // returns their first error
  void account(const Program& program, const Queued& queued);
  [[noreturn]] void fail_red_zone(const Program& program, OpId id, uint32_t zone) const;
  void run_serial(const Program& program);
  void execute(const Program& program, OpId id, uint32_t iteration, uint64_t* received);
  // Returns the bytes received between the two.
  uint64_t count_traffic(const Op& op, const comm::Counters& before, const comm::Counters& after);
  void abort(const std::string& reason);
  std::byte* address(const Buffer& buffer) const;
  void poison(const Buffer& buffer, bool dead) const;
  uint64_t& live(const Buffer& buffer);
  void count_live(const Program& program, OpId id, size_t position);
  // Ranks on a GPU alone need these (executor_gpu.cpp).
  void before_program(const Program& program);
  void after_program(const Program& program);
  void fill_batches(const Program& program);
  bool inspection_due(const Program& program);
  bool replay(const Program& program);  // queued alone: after_program() waits for it

  Rank rank_;
  const ProgramSet& set_;
  core::Arenas arenas_;
  ExecutorOptions options_;
  core::DeviceKind device_;
  BufferId control_;
  std::unique_ptr<core::Arena> host_control_;           // of a GPU's rank
  std::vector<std::unique_ptr<core::Stream>> streams_;  // one per lane; of a serial run on the CPU none
  std::map<const Program*, std::unique_ptr<Prepared>> prepared_;
  std::mutex comm_volume_mutex_;  // comm lanes count side by side
  std::map<OpKind, CommVolume> comm_volume_;
  Moved moved_;                   // under the same mutex
  Only only_ = Only::everything;  // of the last run
  uint32_t runs_ = 0;
  double exposed_comm_seconds_ = 0, exposed_io_seconds_ = 0;
  std::atomic<bool> failed_ = false;  // an op of this run threw
  std::array<core::CategoryBytes, core::tier_count> live_{};
  std::vector<uint8_t> is_live_;
  std::array<LivePeak, core::tier_count> live_peak_;
  std::vector<TraceEvent> trace_;
  bool tracing_ = false;
  bool inspects_ = true;  // the run at hand paints and checks red zones
};

}  // namespace zrt::runtime
