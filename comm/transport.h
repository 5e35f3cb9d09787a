// A transport says how the ranks of a run find each other, and which of them live in this process: all of them as
// threads (`thread`), or one per process (`mpi`, `socket`). Everything above asks only for communicators and arenas and
// is the same for both.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/partition.h"
#include "core/arena.h"

namespace zrt::comm {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;  // "thread", "mpi", "socket"; "nccl" where that connects all GPUs

  virtual int world() const = 0;        // ranks of the run
  virtual int first_local() const = 0;  // ranks first_local() … first_local() + local_count() - 1 live in this process
  virtual int local_count() const = 0;
  virtual int host_count() const = 0;                    // ranks on this machine, those of other processes included
  virtual int host_place() const { return 0; }           // of first_local() among them, from 0
  virtual int host_of(int /*rank*/) const { return 0; }  // a number that the ranks of one machine share
  // True where rank 0 lives here: its process alone prints and writes the files of which a run has one.
  bool leads() const { return first_local() == 0; }

  // The communicators of the local ranks, in order, each in its own group of the partition; rank() and size() count
  // within it. Groups work at the same time; what ends one of them ends the others of the partition on this machine,
  // and elsewhere those that a failing rank's other groups reach. Collective over processes, which must make their
  // groups in the same order, on one thread. Communicators must not outlive the transport. Throws CommError when the
  // partition leaves a rank out, names one twice, or differs between processes.
  virtual std::vector<std::unique_ptr<Communicator>> make_groups(const std::string& name, const Partition& partition,
                                                                 std::chrono::milliseconds timeout) = 0;
  // All ranks in one group.
  std::vector<std::unique_ptr<Communicator>> make_group(const std::string& name, std::chrono::milliseconds timeout) {
    return make_groups(name, one_group(world()), timeout);
  }

  // Memory of a local rank that peers on the same machine read in place. Buffers elsewhere may be passed to collectives
  // too, but may have to be copied more often. `device` is where the rank's kernels run. Not collective; any thread may
  // call it. Throws MemoryError; ConfigError for a device on which the transport cannot connect its ranks.
  virtual std::unique_ptr<core::Arena> make_arena(int rank, core::Tier tier, uint64_t bytes,
                                                  core::DeviceKind device = core::DeviceKind::cpu) = 0;

  // Ranks on GPUs of one host read each other's memory in place, unless all groups of GPUs take NCCL.
  virtual bool reads_gpus_of_peers() const { return true; }
  // Lets NCCL connect GPUs inside hosts, too, from now on. All processes call it before groups are made. Throws
  // ConfigError for several ranks in a process, and where NCCL or a GPU is missing.
  virtual void connect_gpus_by_nccl() = 0;
  // True for ranks on GPUs that NCCL connects.
  virtual bool takes_nccl(const std::vector<int>& /*ranks*/) const { return false; }
  // Says who adds up in groups that NCCL connects and that are made from now on: with `fast` NCCL does, in its own
  // order, which moves less between hosts; else each rank does. All processes say the same.
  virtual void let_nccl_sum(bool /*fast*/) {}
  // A line for people that says how groups of ranks on GPUs exchange; "" where it goes without saying.
  virtual std::string gpu_ways() const { return ""; }
  // Throws ConfigError where ranks on `device` cannot be used, or cannot be connected.
  virtual void require_device(core::DeviceKind device) const { core::require_device(device); }

  // Every process's text, ordered by their first ranks. Collective over processes, one at a time. Throws CommError when
  // a process does not come within `timeout`.
  virtual std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) = 0;

  // The last calls of the local ranks in all groups, a line each; for a process that is about to end. Any thread may
  // call it. "" where ranks are threads.
  virtual std::string last_calls() const { return ""; }

  // Ends a run of several processes because of `error`: one of them, if possible that of the root cause, calls `print`
  // and ends all with exit code `code`. It does not return then. In a run of one process it does nothing.
  virtual void fail(const std::exception& error, const std::function<void()>& print, int code) = 0;
};

// All ranks are threads of this process, 1,024 at most: UsageError.
std::unique_ptr<Transport> make_thread_transport(int world);

// One rank per process, started by mpirun or srun. At most one in a process's life; its end is a rendezvous of all
// processes. Throws CommError; UsageError in a build without MPI and when MPI knows another number of processes than
// the `announced` one of the `launcher`.
std::unique_ptr<Transport> make_mpi_transport(const std::string& launcher, int announced);

// The place where processes that a launcher started meet: rank 0 listens at `port` of `address` or, unless
// `exact_port`, at one of the 15 behind it. `listener` is a socket of rank 0 that does so already, or -1. `key` tells
// runs apart.
struct SocketPlace {
  int rank = 0, world = 1;
  std::string address, key;
  int port = 0, listener = -1;
  bool exact_port = false;
};
// One rank per process, on one machine, started by zrt ranks or torchrun. At most one in a process's life. Throws
// CommError.
std::unique_ptr<Transport> make_socket_transport(const SocketPlace& place);

// Throws ConfigError, in every process, when `text` (of any length; its hash is compared) is not the same everywhere.
void require_equal(Transport& transport, std::string_view what, const std::string& text,
                   std::chrono::milliseconds timeout);

}  // namespace zrt::comm
