#include "comm/mpi/library.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <thread>

#include "core/error.h"

namespace zrt::comm {
namespace {

using std::chrono::steady_clock;

// Polls with growing naps. `done` is called under the lock.
bool poll_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) {
  const auto deadline =
      steady_clock::now() + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
  auto nap = std::chrono::microseconds(20);
  while (true) {
    {
      const auto lock = lock_mpi();
      if (done()) return true;
    }
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, std::chrono::microseconds(1000));
  }
}

}  // namespace

std::unique_lock<std::mutex> lock_mpi() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw core::CommError(fmt::format("{} failed: {}", call, std::string(text, static_cast<size_t>(length))));
}

void start_mpi() {
  const auto lock = lock_mpi();
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw core::CommError("the MPI library does not allow calls from several threads (MPI_THREAD_SERIALIZED)");
  }
}

void finish_mpi() {
  const auto lock = lock_mpi();
  MPI_Finalize();
}

void abort_mpi(int code) {
  // Not under the lock: another thread may be stuck with it, and this process ends here anyway.
  MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

int mpi_rank() {
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

int mpi_world() {
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

namespace {

// The arrival of one peer's text, whose length is not known before.
struct Incoming {
  bool started = false, arrived = false;
  MPI_Request request = MPI_REQUEST_NULL;
};

void receive_text(int peer, Incoming& incoming, std::string& text) {
  if (incoming.arrived) return;
  int flag = 0;
  if (!incoming.started) {
    MPI_Status status;
    check_mpi(MPI_Iprobe(peer, 0, MPI_COMM_WORLD, &flag, &status), "MPI_Iprobe");
    if (!flag) return;
    int bytes = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    text.resize(static_cast<size_t>(bytes));
    check_mpi(MPI_Irecv(text.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &incoming.request), "MPI_Irecv");
    incoming.started = true;
  }
  check_mpi(MPI_Test(&incoming.request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
  incoming.arrived = flag != 0;
}

}  // namespace

std::vector<std::string> exchange_texts(const std::string& text, std::chrono::milliseconds timeout) {
  const int rank = mpi_rank(), world = mpi_world();
  std::vector<std::string> texts(static_cast<size_t>(world));
  std::vector<Incoming> incoming(texts.size());
  std::vector<MPI_Request> sends;
  texts[static_cast<size_t>(rank)] = text;
  incoming[static_cast<size_t>(rank)].arrived = true;
  {
    const auto lock = lock_mpi();
    for (int peer = 0; peer < world; ++peer) {
      if (peer == rank) continue;
      check_mpi(MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                          &sends.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Isend");
    }
  }
  const bool all = poll_until(
      [&] {
        bool done = true;
        for (int peer = 0; peer < world; ++peer) {
          receive_text(peer, incoming[static_cast<size_t>(peer)], texts[static_cast<size_t>(peer)]);
          done = done && incoming[static_cast<size_t>(peer)].arrived;
        }
        int sent = 0;
        check_mpi(MPI_Testall(static_cast<int>(sends.size()), sends.data(), &sent, MPI_STATUSES_IGNORE), "MPI_Testall");
        return done && sent;
      },
      timeout);
  if (all) return texts;
  std::string missing;
  for (int peer = 0; peer < world; ++peer) {
    if (!incoming[static_cast<size_t>(peer)].arrived) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", peer);
  }
  throw core::CommError(fmt::format(
      "an exchange between all {} processes timed out after {} ms on rank {}; missing ranks: {}. Look for an "
      "earlier error on them, or raise run.timeout_seconds",
      world, timeout.count(), rank, missing.empty() ? "none, but they do not receive" : missing));
}

namespace {

class MpiChannel final : public Channel {
 public:
  MpiChannel(MPI_Comm group, int peer) : group_(group), peer_(peer), staging_(frames_in_flight * frame_bytes) {
    for (size_t i = 0; i < frames_in_flight; ++i) post(i);
  }
  ~MpiChannel() override {
    const auto lock = lock_mpi();
    for (MPI_Request& request : receives_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

  bool send(FrameKind kind, std::span<const std::byte> bytes) override {
    const auto lock = lock_mpi();
    MPI_Request& request = sends_[sent_ % frames_in_flight];
    int free = 0;
    check_mpi(MPI_Test(&request, &free, MPI_STATUS_IGNORE), "MPI_Test");
    if (!free) return false;
    check_mpi(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer_, static_cast<int>(kind), group_,
                        &request),
              "MPI_Isend");
    ++sent_;
    return true;
  }

  bool flushed() override {
    const auto lock = lock_mpi();
    int all = 0;
    check_mpi(MPI_Testall(frames_in_flight, sends_, &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    return all != 0;
  }

  std::optional<Frame> receive() override {
    if (!arrived_) {
      const auto lock = lock_mpi();
      int flag = 0;
      check_mpi(MPI_Test(&receives_[oldest_], &flag, &status_), "MPI_Test");
      if (!flag) return std::nullopt;
      arrived_ = true;
      check_mpi(MPI_Get_count(&status_, MPI_BYTE, &bytes_), "MPI_Get_count");
    }
    return Frame{static_cast<FrameKind>(status_.MPI_TAG), {buffer(oldest_), static_cast<size_t>(bytes_)}};
  }

  void pop() override {
    const auto lock = lock_mpi();
    arrived_ = false;
    post(oldest_);
    oldest_ = (oldest_ + 1) % frames_in_flight;
  }

 private:
  std::byte* buffer(size_t i) { return staging_.data() + i * frame_bytes; }
  void post(size_t i) {
    check_mpi(MPI_Irecv(buffer(i), frame_bytes, MPI_BYTE, peer_, MPI_ANY_TAG, group_, &receives_[i]), "MPI_Irecv");
  }

  MPI_Comm group_;
  int peer_;
  std::vector<std::byte> staging_;
  MPI_Request sends_[frames_in_flight] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Request receives_[frames_in_flight] = {};
  MPI_Status status_{};
  size_t sent_ = 0, oldest_ = 0;
  bool arrived_ = false;  // the oldest receive has completed
  int bytes_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Channel>> make_mpi_channels(const std::vector<int>& peers,
                                                        std::chrono::milliseconds timeout) {
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const auto lock = lock_mpi();
    check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &group, &request), "MPI_Comm_idup");
  }
  const bool made = poll_until(
      [&] {
        int flag = 0;
        check_mpi(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
        return flag != 0;
      },
      timeout);
  if (!made) throw core::CommError("not all processes made a group in time; look for an earlier error of another rank");
  const auto lock = lock_mpi();
  std::vector<std::unique_ptr<Channel>> channels;
  for (int peer : peers) channels.push_back(std::make_unique<MpiChannel>(group, peer));
  return channels;
}

}  // namespace zrt::comm
