#include "comm/mpi/library.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "core/error.h"

namespace zrt::comm {
using std::chrono::steady_clock;

bool poll_mpi(const std::function<bool()>& done, std::chrono::milliseconds timeout) {
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
  // Open MPI asks the receiver before it sends what is larger than this. Naps between polls make that exchange slow: a
  // link of 1 Gbit/s was half idle. Frames in flight are few, so they may go at once.
  for (const char* name : {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_max_send_size"}) {
    setenv(name, std::to_string(2 * frame_bytes).c_str(), 0);
  }
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
  // The lock is not taken: another thread may be stuck with it, and this process ends here anyway.
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
  const bool all = poll_mpi(
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

}  // namespace zrt::comm
