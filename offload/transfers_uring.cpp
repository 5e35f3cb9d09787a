#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "offload/transfers.h"

namespace zrt::offload {
namespace {

constexpr uint64_t largest_pinned = 1 << 30;  // of one registered buffer, by the kernel's rule

class UringTransfers : public Transfers {
 public:
  UringTransfers(int descriptor, unsigned depth, int& error) : descriptor_(descriptor) {
    error = -io_uring_queue_init(depth, &ring_, 0);
    open_ = error == 0;
  }
  ~UringTransfers() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  void start(unsigned slot, const Transfer& t) override {
    io_uring_sqe* request = broken_ ? nullptr : io_uring_get_sqe(&ring_);
    if (request == nullptr) refuse("takes no more requests", 0);
    const auto bytes = static_cast<unsigned>(t.bytes);
    if (const int buffer = pinned_buffer(t); buffer >= 0) {
      t.writes ? io_uring_prep_write_fixed(request, descriptor_, t.data, bytes, t.offset, buffer)
               : io_uring_prep_read_fixed(request, descriptor_, t.data, bytes, t.offset, buffer);
    } else {
      t.writes ? io_uring_prep_write(request, descriptor_, t.data, bytes, t.offset)
               : io_uring_prep_read(request, descriptor_, t.data, bytes, t.offset);
    }
    io_uring_sqe_set_data64(request, slot);
    int taken = io_uring_submit(&ring_);
    for (int tries = 0; (taken == -EINTR || taken == -EAGAIN) && tries < 1000; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the kernel is short of memory
      taken = io_uring_submit(&ring_);
    }
    if (taken < 0) refuse("refuses a request", -taken);
  }

  Done wait() override {
    io_uring_cqe* completion = nullptr;
    int error = io_uring_wait_cqe(&ring_, &completion);
    while (error == -EINTR || error == -EAGAIN) error = io_uring_wait_cqe(&ring_, &completion);
    if (error < 0) refuse("cannot be waited for", -error);
    const Done done{static_cast<unsigned>(io_uring_cqe_get_data64(completion)), completion->res};
    io_uring_cqe_seen(&ring_, completion);
    return done;
  }

  int pin(const std::vector<Memory>& memory) override {
    if (!pinned_.empty()) io_uring_unregister_buffers(&ring_);
    pinned_.clear();
    for (const Memory& m : memory) {
      for (uint64_t at = 0; at < m.bytes; at += largest_pinned) {
        pinned_.push_back({m.data + at, std::min(largest_pinned, m.bytes - at)});
      }
    }
    std::sort(pinned_.begin(), pinned_.end(), [](const iovec& a, const iovec& b) { return a.iov_base < b.iov_base; });
    if (pinned_.empty()) return 0;
    const int error = -io_uring_register_buffers(&ring_, pinned_.data(), static_cast<unsigned>(pinned_.size()));
    if (error != 0) pinned_.clear();
    return error;
  }

 private:
  // The one that holds all of the transfer's memory, or -1.
  int pinned_buffer(const Transfer& t) const {
    const auto after = std::upper_bound(pinned_.begin(), pinned_.end(), t.data,
                                        [](const std::byte* data, const iovec& b) { return data < b.iov_base; });
    if (after == pinned_.begin()) return -1;
    const iovec& buffer = after[-1];
    const std::byte* end = static_cast<std::byte*>(buffer.iov_base) + buffer.iov_len;
    return t.data + t.bytes <= end ? static_cast<int>(after - pinned_.begin()) - 1 : -1;
  }

  // No start() succeeds after this: it might carry out what was queued, with memory that is no longer ours.
  [[noreturn]] void refuse(const char* what, int error) {
    broken_ = true;
    throw core::DataError(
        fmt::format("io_uring {}{}{}", what, error == 0 ? "" : ": ", error == 0 ? "" : std::strerror(error)));
  }

  int descriptor_;
  io_uring ring_{};
  bool open_ = false, broken_ = false;
  std::vector<iovec> pinned_;  // by address
};

}  // namespace

std::unique_ptr<Transfers> make_uring_transfers(int descriptor, unsigned depth, int& error) {
  auto transfers = std::make_unique<UringTransfers>(descriptor, depth, error);
  if (error != 0) transfers.reset();
  return transfers;
}

}  // namespace zrt::offload
