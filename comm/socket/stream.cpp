#include "comm/socket/stream.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace zrt::comm {
namespace {

// False at the deadline, or when it has passed and none is ready.
bool any_ready(std::span<pollfd> watched, SocketTime deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto wait = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000));
    const int found = poll(watched.data(), static_cast<nfds_t>(watched.size()), wait);
    if (found > 0) return true;
    if (found == 0 && left.count() <= 0) return false;
    if (found < 0 && errno != EINTR) throw core::CommError(fmt::format("poll failed: {}", std::strerror(errno)));
  }
}

bool ready(int file, short events, SocketTime deadline) {
  pollfd watched{file, events, 0};
  return any_ready({&watched, 1}, deadline);
}

void set(int file, int level, int option) {
  const int on = 1;
  setsockopt(file, level, option, &on, sizeof on);
}

std::string numbers(const sockaddr_storage& place, socklen_t bytes) {
  char host[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&place), bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  const std::string text = host;
  constexpr std::string_view mapped = "::ffff:";  // an address of IPv4 at a socket of both
  return text.starts_with(mapped) ? text.substr(mapped.size()) : text;
}

[[noreturn]] void ended(int error) {
  throw core::CommError(error == 0 ? "the connection was closed" : std::strerror(error));
}

}  // namespace

Socket::~Socket() {
  if (file_ >= 0) close(file_);
}
Socket::Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

bool Socket::send(const void* data, size_t bytes, SocketTime deadline) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    if (!ready(file_, POLLOUT, deadline)) return false;
    const ssize_t sent = ::send(file_, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) ended(errno);
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool Socket::receive(void* data, size_t bytes, SocketTime deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!ready(file_, POLLIN, deadline)) return false;
    const ssize_t got = recv(file_, at, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) ended(got == 0 ? 0 : errno);
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool Socket::send_text(const std::string& text, SocketTime deadline) {
  const uint64_t bytes = text.size();
  return send(&bytes, sizeof bytes, deadline) && send(text.data(), text.size(), deadline);
}

bool Socket::receive_text(std::string& text, SocketTime deadline) {
  uint64_t bytes = 0;
  if (!receive(&bytes, sizeof bytes, deadline)) return false;
  constexpr uint64_t most = uint64_t{1} << 32;
  if (bytes > most)
    throw core::CommError(fmt::format("a text of {} bytes was announced; that is no rank of zrt", bytes));
  text.resize(bytes);
  return receive(text.data(), bytes, deadline);
}

std::vector<size_t> wait_for_any(const std::vector<const Socket*>& sockets, SocketTime deadline) {
  std::vector<pollfd> watched;
  watched.reserve(sockets.size());
  for (const Socket* socket : sockets) watched.push_back({socket->file(), POLLIN, 0});
  std::vector<size_t> found;
  if (!any_ready(watched, deadline)) return found;
  for (size_t i = 0; i < watched.size(); ++i) {
    if (watched[i].revents != 0) found.push_back(i);
  }
  return found;
}

std::optional<Socket> listen_at(int port) {
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage place{};
  socklen_t bytes = sizeof(sockaddr_in6);
  if (socket) {
    const int off = 0;
    setsockopt(socket.file(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto& six = reinterpret_cast<sockaddr_in6&>(place);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<uint16_t>(port));
  } else {  // a machine without IPv6
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto& four = reinterpret_cast<sockaddr_in&>(place);
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<uint16_t>(port));
    bytes = sizeof(sockaddr_in);
  }
  set(socket.file(), SOL_SOCKET, SO_REUSEADDR);
  if (bind(socket.file(), reinterpret_cast<sockaddr*>(&place), bytes) == 0 && listen(socket.file(), SOMAXCONN) == 0) {
    return socket;
  }
  if (errno == EADDRINUSE || errno == EACCES) return std::nullopt;
  throw core::CommError(fmt::format("no socket can listen at port {}: {}", port, std::strerror(errno)));
}

Socket listen_on_loopback() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(socket.file(), reinterpret_cast<sockaddr*>(&place), sizeof place) != 0 ||
      listen(socket.file(), SOMAXCONN) != 0) {
    throw core::CommError(fmt::format("no socket can listen on this machine: {}", std::strerror(errno)));
  }
  return socket;
}

Socket listen_anywhere() {
  if (auto socket = listen_at(0)) return std::move(*socket);
  throw core::CommError("no port of this machine is free");
}

int port_of(const Socket& listener) {
  sockaddr_storage place{};
  socklen_t bytes = sizeof place;
  getsockname(listener.file(), reinterpret_cast<sockaddr*>(&place), &bytes);
  return ntohs(place.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(place).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(place).sin_port);
}

std::string own_address(const Socket& connection) {
  sockaddr_storage place{};
  socklen_t bytes = sizeof place;
  getsockname(connection.file(), reinterpret_cast<sockaddr*>(&place), &bytes);
  return numbers(place, bytes);
}

std::string peer_address(const Socket& connection) {
  sockaddr_storage place{};
  socklen_t bytes = sizeof place;
  getpeername(connection.file(), reinterpret_cast<sockaddr*>(&place), &bytes);
  return numbers(place, bytes);
}

std::optional<Socket> accept_from(const Socket& listener, SocketTime deadline) {
  while (ready(listener.file(), POLLIN, deadline)) {
    Socket socket(accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;  // it has gone again
    set(socket.file(), IPPROTO_TCP, TCP_NODELAY);
    return socket;
  }
  return std::nullopt;
}

std::optional<Socket> connect_to(const std::string& address, int port, SocketTime deadline) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (const int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0) {
    throw core::CommError(fmt::format("the address '{}' of rank 0 cannot be found: {}", address, gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  for (const addrinfo* place = found; place; place = place->ai_next) {
    Socket socket(::socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    if (connect(socket.file(), place->ai_addr, place->ai_addrlen) != 0) {
      if (errno != EINPROGRESS || !ready(socket.file(), POLLOUT, deadline)) continue;
      int error = 0;
      socklen_t bytes = sizeof error;
      getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &error, &bytes);
      if (error != 0) continue;
    }
    set(socket.file(), IPPROTO_TCP, TCP_NODELAY);
    return socket;
  }
  return std::nullopt;
}

}  // namespace zrt::comm
