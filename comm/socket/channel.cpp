#include "comm/socket/channel.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace zrt::comm {
namespace {

struct Header {
  FrameKind kind;
  uint32_t bytes;
};

class SocketChannel final : public Channel {
 public:
  SocketChannel(Socket socket, int peer) : socket_(std::move(socket)), peer_(peer), staging_(frame_bytes) {}

  bool send(FrameKind kind, std::span<const std::byte> bytes) override {
    if (!flushed()) return false;
    out_ = {kind, static_cast<uint32_t>(bytes.size())};
    data_ = bytes.data();
    sent_ = 0, to_send_ = sizeof out_ + bytes.size();
    flushed();
    return true;
  }

  bool flushed() override {
    while (sent_ < to_send_) {
      const size_t of_header = std::min(sent_, sizeof out_), of_data = sent_ - of_header;
      iovec parts[2]{{reinterpret_cast<std::byte*>(&out_) + of_header, sizeof out_ - of_header},
                     {const_cast<std::byte*>(data_) + of_data, out_.bytes - of_data}};
      msghdr message{};
      message.msg_iov = parts, message.msg_iovlen = 2;
      const ssize_t count = sendmsg(socket_.file(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return false;
      if (count < 0) ended(errno);
      sent_ += static_cast<size_t>(count);
    }
    return true;
  }

  std::optional<Frame> receive() override {
    while (received_ < sizeof in_ || received_ < sizeof in_ + in_.bytes) {
      std::byte* to = received_ < sizeof in_ ? reinterpret_cast<std::byte*>(&in_) + received_
                                             : staging_.data() + (received_ - sizeof in_);
      const size_t wanted = received_ < sizeof in_ ? sizeof in_ - received_ : sizeof in_ + in_.bytes - received_;
      const ssize_t count = recv(socket_.file(), to, wanted, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return std::nullopt;
      if (count <= 0) ended(count == 0 ? 0 : errno);
      received_ += static_cast<size_t>(count);
      if (received_ == sizeof in_ && in_.bytes > frame_bytes) {
        throw core::CommError(
            fmt::format("rank {} announces a frame of {} bytes; legal are {}", peer_, in_.bytes, frame_bytes));
      }
    }
    return Frame{in_.kind, {staging_.data(), in_.bytes}};
  }

  void pop() override { received_ = 0, in_.bytes = 0; }

 private:
  [[noreturn]] void ended(int error) const {
    throw core::CommError(fmt::format("the connection to rank {} has ended{}{}: look for its own message", peer_,
                                      error == 0 ? "" : ": ", error == 0 ? "" : std::strerror(error)));
  }

  Socket socket_;
  const int peer_;
  Header out_{}, in_{};
  const std::byte* data_ = nullptr;
  size_t sent_ = 0, to_send_ = 0, received_ = 0;
  std::vector<std::byte> staging_;  // of the frame that arrives
};

}  // namespace

std::unique_ptr<Channel> make_socket_channel(Socket socket, int peer) {
  return std::make_unique<SocketChannel>(std::move(socket), peer);
}

}  // namespace zrt::comm
