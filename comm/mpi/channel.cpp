// Frames as MPI messages: the tag is the kind. A few receives are always posted, so what arrives early has a place.
#include <fmt/format.h>
#include <mpi.h>

#include <atomic>
#include <utility>

#include "comm/mpi/library.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

// Channels with frames that MPI has not let go. After an abort these may lie in memory that is gone, and any call of
// MPI might read them: then channels are left to the end of the process.
std::atomic<int> unflushed_channels{0};

class MpiChannel final : public Channel {
 public:
  MpiChannel(MPI_Comm group, int peer)
      : group_(group), peer_(peer), staging_(std::make_unique<std::byte[]>(frames_in_flight * frame_bytes)) {
    for (size_t i = 0; i < frames_in_flight; ++i) post(i);
  }
  ~MpiChannel() override {
    const auto lock = lock_mpi();
    if (unflushed_channels > 0) {
      (void)staging_.release();
      return;
    }
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
    if (!std::exchange(unflushed_, true)) ++unflushed_channels;
    return true;
  }

  bool flushed() override {
    if (!unflushed_) return true;
    const auto lock = lock_mpi();
    int all = 0;
    check_mpi(MPI_Testall(frames_in_flight, sends_, &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (all) {
      unflushed_ = false;
      --unflushed_channels;
    }
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
  std::byte* buffer(size_t i) { return staging_.get() + i * frame_bytes; }
  void post(size_t i) {
    check_mpi(MPI_Irecv(buffer(i), frame_bytes, MPI_BYTE, peer_, MPI_ANY_TAG, group_, &receives_[i]), "MPI_Irecv");
  }

  MPI_Comm group_;
  int peer_;
  std::unique_ptr<std::byte[]> staging_;
  MPI_Request sends_[frames_in_flight] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Request receives_[frames_in_flight] = {};
  MPI_Status status_{};
  size_t sent_ = 0, oldest_ = 0;
  bool unflushed_ = false;
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
  const bool made = poll_mpi(
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
