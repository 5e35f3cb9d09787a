// TCP sockets that send and receive whole messages, each within a time.
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace zrt::comm {

using SocketTime = std::chrono::steady_clock::time_point;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  int file() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }

  // False at the deadline. Throw CommError when the other side has ended.
  bool send(const void* data, size_t bytes, SocketTime deadline);
  bool receive(void* data, size_t bytes, SocketTime deadline);
  // A text of any length.
  bool send_text(const std::string& text, SocketTime deadline);
  bool receive_text(std::string& text, SocketTime deadline);

 private:
  int file_ = -1;
};

// Returns the numbers of the sockets that have something to receive, or whose other side has ended. None of them at the
// deadline.
std::vector<size_t> wait_for_any(const std::vector<const Socket*>& sockets, SocketTime deadline);

// Listens at all addresses. None when the port is taken. Throws CommError.
std::optional<Socket> listen_at(int port);
// Listens at any free port, for processes of this machine; of any. Throw CommError.
Socket listen_on_loopback();
Socket listen_anywhere();
int port_of(const Socket& listener);
// The address of this end of a connection, and of the other one, as numbers.
std::string own_address(const Socket& connection);
std::string peer_address(const Socket& connection);
// None when nobody has come by the deadline.
std::optional<Socket> accept_from(const Socket& listener, SocketTime deadline);
// None where nobody listens. Throws CommError for an address that does not exist.
std::optional<Socket> connect_to(const std::string& address, int port, SocketTime deadline);

}  // namespace zrt::comm
