// A stand-in for NCCL: ranks in processes of this machine send each other bytes through memory that they share. What a
// rank is given is queued on its stream, and goes on whenever a peer has come as far.
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/queue.h"
#include "emulator/ring_sum.h"

using namespace zrt::emulator;

namespace {

constexpr size_t ring_bytes = 256 << 10;

// Bytes on their way from one rank to another.
struct Ring {
  std::atomic<uint64_t> written, read;
  std::byte data[ring_bytes];
};

// A meeting lies in shared memory, zeroed, which is a valid state. The rings follow: that from `from` to `to` is number
// from * size + to.
struct Meeting {
  static constexpr int most = 64;  // ranks
  std::atomic<int32_t> joined;
  std::atomic<bool> deaf;  // to aborts
  std::atomic<int32_t> processes[most];
  std::atomic<size_t> places[most];  // hash of a rank's host, as NCCL sees it, and its GPU
  Ring* rings() { return reinterpret_cast<Ring*>(this + 1); }
};

// Work that is queued keeps it.
struct Comm {
  int rank, size;
  Meeting* meeting;
  size_t mapped;
  std::atomic<bool> aborted = false, connected = false;
  std::atomic<bool> works = false;  // as NCCL's own threads do behind a call that does not block
  std::atomic<ncclResult_t> trouble = ncclSuccess;
  int maker = 0, file = -1;  // the process that made the shared memory, and its file there
  ~Comm() { munmap(meeting, mapped); }
  Ring& ring(int from, int to) const { return meeting->rings()[from * size + to]; }
};

using CommPtr = std::shared_ptr<Comm>;

CommPtr& of(ncclComm_t comm) {
  return *reinterpret_cast<CommPtr*>(comm);
}

// One message: eight bytes that hold its size, and its bytes.
struct Transfer {
  Ring* ring;
  bool sends;
  std::byte* data;
  uint64_t bytes, done = 0;
  static constexpr uint64_t head = sizeof(uint64_t);

  bool finished() const { return done == head + bytes; }
  bool can() const {
    const uint64_t held = ring->written.load(std::memory_order_acquire) - ring->read.load(std::memory_order_acquire);
    return sends ? held < ring_bytes : held > 0;
  }
  void advance() {
    uint64_t count = bytes;
    const auto* size = reinterpret_cast<std::byte*>(&count);
    while (!finished() && can()) {
      std::atomic<uint64_t>& own = sends ? ring->written : ring->read;
      const uint64_t at = own.load(std::memory_order_relaxed);
      const uint64_t held =
          sends ? at - ring->read.load(std::memory_order_acquire) : ring->written.load(std::memory_order_acquire) - at;
      const uint64_t part = std::min({done < head ? head - done : head + bytes - done, sends ? ring_bytes - held : held,
                                      ring_bytes - at % ring_bytes});
      std::byte* in_ring = ring->data + at % ring_bytes;
      if (done < head) {
        if (sends) std::memcpy(in_ring, size + done, part);
        if (!sends && std::memcmp(in_ring, size + done, part) != 0) {
          std::fprintf(stderr, "emulator: a rank of NCCL receives %llu bytes where its peer sends another number\n",
                       static_cast<unsigned long long>(bytes));
          std::abort();
        }
      } else {
        std::byte* part_of_data = data + (done - head);
        sends ? std::memcpy(in_ring, part_of_data, part) : std::memcpy(part_of_data, in_ring, part);
      }
      done += part;
      own.store(at + part, std::memory_order_release);
    }
  }
};

// A stream does this for one call of NCCL, or for a group of calls.
struct QueuedCall {
  CommPtr comm;
  std::vector<Transfer> transfers;
  std::function<void()> behind = [] {};
  bool stuck = false;  // by a planted fault
  ncclResult_t trouble = ncclSuccess;

  // Messages of one ring go one after the other.
  template <class Act>
  bool each_front(const Act& act) {
    std::set<Ring*> busy;
    for (Transfer& transfer : transfers) {
      if (transfer.finished() || busy.count(transfer.ring) > 0) continue;
      if (act(transfer)) return true;
      if (!transfer.finished()) busy.insert(transfer.ring);
    }
    return false;
  }
  bool can() {
    if (stuck) comm->trouble = trouble;
    if (stuck || comm->aborted) return comm->aborted;
    const bool done = std::all_of(transfers.begin(), transfers.end(), [](const Transfer& t) { return t.finished(); });
    return done || each_front([](const Transfer& transfer) { return transfer.can(); });
  }
  bool advance() {
    if (stuck || comm->aborted) return comm->aborted;
    each_front([](Transfer& transfer) {
      transfer.advance();
      return false;
    });
    const bool done = std::all_of(transfers.begin(), transfers.end(), [](const Transfer& t) { return t.finished(); });
    if (done) behind();
    return done;
  }
};

thread_local int depth = 0;
thread_local QueuedCall grouped;
thread_local cudaStream_t grouped_on = nullptr;

// ZRT_EMULATED_NCCL="stall RANK CALL FILE" lets a rank of a group, by its call of this number in the process, send and
// receive nothing any more, as where a link is lost; "error …" tells it so once its stream is there, and by "deaf …"
// no abort of the group returns, too. The fault comes once: it makes FILE.
void plant_fault(QueuedCall& queued) {
  static std::atomic<int> calls = 0;
  const char* fault = std::getenv("ZRT_EMULATED_NCCL");
  char kind[16], file[256];
  int rank = 0, call = 0;
  if (!fault || std::sscanf(fault, "%15s %d %d %255s", kind, &rank, &call, file) != 4) return;
  if (queued.comm->rank != rank || ++calls != call) return;
  const int made = open(file, O_CREAT | O_EXCL | O_WRONLY, 0666);
  if (made < 0) return;
  close(made);
  queued.stuck = true;
  if (kind == std::string("error")) queued.trouble = ncclRemoteError;
  if (kind == std::string("deaf")) queued.comm->meeting->deaf = true;
}

ncclResult_t give(cudaStream_t stream, QueuedCall queued) {
  plant_fault(queued);
  const CommPtr comm = queued.comm;
  auto shared = std::make_shared<QueuedCall>(std::move(queued));
  const std::lock_guard lock(gate);
  const cudaError_t code = add_with_peers(
      stream, [shared] { return shared->can(); }, [shared] { return shared->advance(); });
  comm->works = true;
  return code == cudaSuccess ? ncclInProgress : ncclUnhandledCudaError;
}

// Alone, or with the others of a group.
ncclResult_t give_or_group(cudaStream_t stream, QueuedCall queued) {
  if (depth == 0) return give(stream, std::move(queued));
  if (grouped.comm && (grouped.comm != queued.comm || grouped_on != stream)) return ncclInvalidUsage;
  grouped.comm = queued.comm, grouped_on = stream;
  grouped.transfers.insert(grouped.transfers.end(), queued.transfers.begin(), queued.transfers.end());
  grouped.behind = [first = std::move(grouped.behind), then = std::move(queued.behind)] {
    first();
    then();
  };
  return ncclSuccess;
}

Transfer sending(const CommPtr& comm, int to, const void* data, size_t bytes) {
  return {&comm->ring(comm->rank, to), true, static_cast<std::byte*>(const_cast<void*>(data)), bytes};
}
Transfer receiving(const CommPtr& comm, int from, void* data, size_t bytes) {
  return {&comm->ring(from, comm->rank), false, static_cast<std::byte*>(data), bytes};
}

size_t place_of_process() {
  int device = 0;
  cudaGetDevice(&device);
  const char* host = std::getenv("NCCL_HOSTID");
  return std::hash<std::string>()(std::string(host ? host : "") + "/" + std::to_string(device)) | 1;
}

// NCCL refuses that, and its words are these. Threads of one process, which tests use, may share.
bool shares_gpu(const Comm& comm) {
  const Meeting& meeting = *comm.meeting;
  for (int rank = 0; rank < comm.size; ++rank) {
    if (meeting.processes[rank] == getpid() || meeting.places[rank] != meeting.places[comm.rank]) continue;
    std::fprintf(stderr, "emulator: Duplicate GPU detected : rank %d and rank %d\n", comm.rank, rank);
    return true;
  }
  return false;
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const int file = memfd_create("emulated NCCL", 0);
  if (file < 0) return ncclSystemError;
  std::snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", static_cast<int>(getpid()), file);
  return ncclSuccess;
}

// Does not block: whoever asks for errors waits for the others.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (size < 1 || size > Meeting::most || rank < 0 || rank >= size || config->blocking != 0) return ncclInvalidArgument;
  const int file = open(id.internal, O_RDWR);
  const size_t bytes = sizeof(Meeting) + sizeof(Ring) * static_cast<size_t>(size) * static_cast<size_t>(size);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return ncclSystemError;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return ncclSystemError;
  const CommPtr made(new Comm{rank, size, static_cast<Meeting*>(memory), bytes});
  if (std::sscanf(id.internal, "/proc/%d/fd/%d", &made->maker, &made->file) != 2) return ncclInvalidArgument;
  made->meeting->processes[rank] = getpid();
  made->meeting->places[rank] = place_of_process();
  ++made->meeting->joined;
  if (shares_gpu(*made)) return ncclInvalidUsage;
  *comm = reinterpret_cast<ncclComm_t>(new CommPtr(made));
  return ncclInProgress;
}

// Nothing is on its way that a stream does not know of.
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete &of(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  while (of(comm)->meeting->deaf) pause();
  of(comm)->aborted = true;
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  Comm& comm = *of(handle);
  const bool whole = comm.meeting->joined >= comm.size;
  *error = whole && !comm.works.exchange(false) ? comm.trouble.load() : ncclInProgress;
  for (int rank = 0; rank < comm.size; ++rank) {
    const int process = comm.meeting->processes[rank];
    if (process != 0 && kill(process, 0) != 0) *error = ncclRemoteError;
  }
  if (!whole || comm.connected.exchange(true)) return ncclSuccess;
  // The maker's file is needed no more.
  if (comm.maker == getpid()) close(comm.file);
  const std::lock_guard lock(gate);
  run_by_itself();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "a process of the group has ended (emulated)" : "an error of the emulated NCCL";
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  QueuedCall queued = std::exchange(grouped, {});
  return queued.comm ? give(grouped_on, std::move(queued)) : ncclSuccess;
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return give_or_group(stream, {of(comm), {sending(of(comm), peer, data, count)}});
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return give_or_group(stream, {of(comm), {receiving(of(comm), peer, data, count)}});
}

ncclResult_t ncclAllGather(const void* source, void* target, size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  QueuedCall queued{of(comm), {}};
  auto* all = static_cast<std::byte*>(target);
  for (int rank = 0; rank < queued.comm->size; ++rank) {
    if (rank == queued.comm->rank) continue;
    queued.transfers.push_back(sending(queued.comm, rank, source, count));
    queued.transfers.push_back(receiving(queued.comm, rank, all + static_cast<size_t>(rank) * count, count));
  }
  std::byte* own = all + static_cast<size_t>(queued.comm->rank) * count;
  queued.behind = [own, source, count] { std::memmove(own, source, count); };
  return give_or_group(stream, std::move(queued));
}

ncclResult_t ncclBroadcast(const void* source, void* target, size_t count, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  QueuedCall queued{of(comm), {}};
  for (int rank = 0; rank < queued.comm->size && queued.comm->rank == root; ++rank) {
    if (rank != root) queued.transfers.push_back(sending(queued.comm, rank, source, count));
  }
  if (queued.comm->rank != root) queued.transfers.push_back(receiving(queued.comm, root, target, count));
  if (queued.comm->rank == root) queued.behind = [source, target, count] { std::memmove(target, source, count); };
  return give_or_group(stream, std::move(queued));
}

ncclResult_t ncclReduce(const void* source, void* target, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  QueuedCall queued{of(comm), {}};
  const size_t bytes = count * nccl_size(type);
  if (op != ncclSum || type == ncclUint8) return ncclInvalidArgument;
  if (queued.comm->rank != root) {
    queued.transfers.push_back(sending(queued.comm, root, source, bytes));
    return give_or_group(stream, std::move(queued));
  }
  const auto received = std::make_shared<std::vector<std::byte>>(bytes * static_cast<size_t>(queued.comm->size));
  std::vector<const std::byte*> by_rank;
  for (int rank = 0; rank < queued.comm->size; ++rank) {
    std::byte* const place = received->data() + static_cast<size_t>(rank) * bytes;
    by_rank.push_back(rank == root ? static_cast<const std::byte*>(source) : place);
    if (rank != root) queued.transfers.push_back(receiving(queued.comm, rank, place, bytes));
  }
  queued.behind = [=, kept = received] { ring_sum(type, count, by_rank, root, static_cast<std::byte*>(target)); };
  return give_or_group(stream, std::move(queued));
}

// The largest of all ranks' bytes.
ncclResult_t ncclAllReduce(const void* source, void* target, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  QueuedCall queued{of(comm), {}};
  const auto received = std::make_shared<std::vector<std::byte>>(count * static_cast<size_t>(queued.comm->size));
  for (int rank = 0; rank < queued.comm->size; ++rank) {
    if (rank == queued.comm->rank) continue;
    queued.transfers.push_back(sending(queued.comm, rank, source, count));
    queued.transfers.push_back(
        receiving(queued.comm, rank, received->data() + static_cast<size_t>(rank) * count, count));
  }
  queued.behind = [=, own = queued.comm->rank] {
    auto* sum = static_cast<std::byte*>(target);
    std::memmove(sum, source, count);
    for (size_t i = 0; i < received->size(); ++i) {
      if (i / count != static_cast<size_t>(own)) sum[i % count] = std::max(sum[i % count], (*received)[i]);
    }
  };
  return give_or_group(stream, std::move(queued));
}
