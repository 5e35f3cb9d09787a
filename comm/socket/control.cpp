// Processes that meet at a TCP port, where rank 0 listens: texts go to rank 0 and come back from there.
#include "comm/process/control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "comm/socket/channel.h"
#include "comm/socket/stream.h"
#include "comm/transport.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto answer_time = std::chrono::seconds(2);
constexpr std::string_view confirmation = "met";
constexpr std::string_view greeting = "zrt ranks 3";

class SocketControl final : public Control {
 public:
  SocketControl(SocketPlace place, milliseconds start_time) : place_(std::move(place)), start_time_(start_time) {
    const SocketTime deadline = steady_clock::now() + start_time;
    for (int r = 1; r < place_.world; ++r) others_.push_back(r);
    if (place_.world > 1) place_.rank == 0 ? gather(deadline) : join(deadline);
  }

  std::string_view name() const override { return "socket"; }
  int rank() const override { return place_.rank; }
  int world() const override { return place_.world; }

  // Rank 0 says that it is here, and the others give it time from then on: a rank that is missing is named by rank 0,
  // which alone knows it, however much earlier the others came. A text may need rank 0 to read it before it fits.
  std::vector<std::string> exchange(const std::string& text, milliseconds timeout) override {
    if (place_.rank == 0) return collect(text, timeout);
    std::vector<std::string> texts(static_cast<size_t>(place_.world));
    std::string missing;
    const SocketTime begin = end_of(timeout);
    require(timeout, [&] { return peer(0).receive_text(missing, begin); });
    const SocketTime end = end_of(timeout) + answer_time;
    require(timeout, [&] { return peer(0).send_text(text, end) && peer(0).receive_text(missing, end); });
    if (!missing.empty()) throw core::CommError(missing);
    for (std::string& one : texts) require(timeout, [&] { return peer(0).receive_text(one, end); });
    return texts;
  }

  // The rank with the higher number connects to the other one.
  std::vector<std::unique_ptr<Channel>> make_channels(const std::vector<int>& peers, milliseconds timeout) override {
    if (!listener_) listener_ = listen_anywhere();
    const int round = ++rounds_;
    const auto places = exchange(fmt::format("{} {}", address_, port_of(*listener_)), timeout);
    const SocketTime deadline = steady_clock::now() + std::min<milliseconds>(timeout, std::chrono::hours(24));
    std::map<int, Socket> sockets;
    for (const int peer : peers) {
      if (peer > place_.rank) continue;
      const std::string& place = places[static_cast<size_t>(peer)];
      const size_t space = place.find(' ');
      std::optional<Socket> socket = connect_to(place.substr(0, space), std::stoi(place.substr(space)), deadline);
      if (!socket || !socket->send_text(channel_hello(place_.rank, round), deadline)) {
        throw core::CommError(
            fmt::format("rank {} cannot reach rank {} at {}; a firewall between them must let ranks "
                        "connect to each other",
                        place_.rank, peer, place));
      }
      sockets[peer] = std::move(*socket);
    }
    while (sockets.size() < peers.size()) {
      std::optional<Socket> socket = accept_from(*listener_, deadline);
      if (!socket) {
        std::vector<int> missing = peers;
        std::erase_if(missing, [&](int peer) { return sockets.count(peer) > 0; });
        throw core::CommError(fmt::format(
            "rank{} {} of other hosts did not connect to rank {} within {} ms. Look for an earlier error there, or "
            "for a firewall between the hosts, or raise run.timeout_seconds",
            missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), place_.rank, timeout.count()));
      }
      std::string said;
      try {
        if (!socket->receive_text(said, std::min(deadline, steady_clock::now() + answer_time))) continue;
      } catch (const core::CommError&) {
        continue;  // no rank of zrt
      }
      for (const int peer : peers) {
        if (peer > place_.rank && said == channel_hello(peer, round)) sockets[peer] = std::move(*socket);
      }
    }
    std::vector<std::unique_ptr<Channel>> channels;
    channels.reserve(peers.size());
    for (const int peer : peers) channels.push_back(make_socket_channel(std::move(sockets[peer]), peer));
    exchange("connected", timeout);  // whoever comes next is of the next round
    return channels;
  }

  void finish() override { peers_.clear(); }
  // The launcher ends the others.
  [[noreturn]] void abort(int code) override { _exit(code); }

 private:
  Socket& peer(int rank) { return peers_[place_.rank == 0 ? static_cast<size_t>(rank) : 0]; }

  static SocketTime end_of(milliseconds timeout) {
    return steady_clock::now() + std::min<milliseconds>(timeout, std::chrono::hours(24 * 365));
  }

  // Rank 0's part of an exchange.
  std::vector<std::string> collect(const std::string& text, milliseconds timeout) {
    std::vector<std::string> texts(static_cast<size_t>(place_.world));
    texts[0] = text;
    const SocketTime deadline = end_of(timeout);
    std::vector<int> late;
    std::string missing;
    // Calls `step` for each, also behind one that fails.
    const auto each = [&](const std::vector<int>& ranks, const auto& step) {
      for (const int r : ranks) {
        try {
          if (!step(r, peer(r))) late.push_back(r);
        } catch (const core::CommError& error) {
          if (missing.empty()) missing = ended(r, error.what());
        }
      }
      if (missing.empty() && !late.empty()) missing = timed_out(timeout, late);
    };
    each(others_, [&](int, Socket& socket) { return socket.send_text("", deadline); });
    for (std::vector<int> left = others_; missing.empty() && !left.empty();) {
      const std::vector<int> come = come_first(left, deadline);
      if (come.empty()) missing = timed_out(timeout, left);
      each(come, [&](int r, Socket& socket) {  // behind one that has ended nobody is waited for
        return !missing.empty() || socket.receive_text(texts[static_cast<size_t>(r)], deadline);
      });
      std::erase_if(left, [&](int r) { return std::binary_search(come.begin(), come.end(), r); });
    }
    if (!missing.empty()) {
      const std::string message = missing;
      const SocketTime soon = steady_clock::now() + milliseconds(100);
      each(others_, [&](int, Socket& socket) { return socket.send_text(message, soon); });
      throw core::CommError(message);
    }
    const SocketTime answered = deadline + answer_time / 2;
    each(others_, [&](int, Socket& socket) {
      return socket.send_text("", answered) &&
             std::all_of(texts.begin(), texts.end(), [&](auto& t) { return socket.send_text(t, answered); });
    });
    if (!missing.empty()) throw core::CommError(missing);
    return texts;
  }

  // Returns the ranks that have sent something or have ended; none at the deadline. Thus an end is seen at once,
  // however late others are.
  std::vector<int> come_first(const std::vector<int>& ranks, SocketTime deadline) {
    std::vector<const Socket*> sockets;
    sockets.reserve(ranks.size());
    for (const int r : ranks) sockets.push_back(&peer(r));
    std::vector<int> come;
    for (const size_t i : wait_for_any(sockets, deadline)) come.push_back(ranks[i]);
    return come;
  }

  template <class Step>
  void require(milliseconds timeout, const Step& step) {
    try {
      if (step()) return;
    } catch (const core::CommError& error) {
      throw core::CommError(ended(0, error.what()));
    }
    throw core::CommError(timed_out(timeout, {0}));
  }

  std::string ended(int rank, const std::string& why) const {
    return fmt::format(
        "rank {} has ended, or cannot be reached, in an exchange between all {} processes: {}. Look for its own "
        "message",
        rank, place_.world, why);
  }

  std::string timed_out(milliseconds timeout, const std::vector<int>& late) const {
    return fmt::format(
        "an exchange between all {} processes timed out after {} ms on rank {}, which waited for rank{} {}. Look for "
        "an earlier error on {}, or raise run.timeout_seconds",
        place_.world, timeout.count(), place_.rank, late.size() > 1 ? "s" : "", fmt::join(late, ", "),
        late.size() > 1 ? "them" : "it");
  }

  std::string hello(int rank) const { return fmt::format("{}/{}/{}/{}", greeting, place_.key, rank, place_.world); }

  std::string channel_hello(int rank, int round) const { return fmt::format("{}/channel {}", hello(rank), round); }

  // Rank 0: everyone who knows the key and the number of ranks has a place.
  void gather(SocketTime deadline) {
    Socket listener = place_.listener >= 0 ? Socket(place_.listener) : listen();
    peers_.resize(static_cast<size_t>(place_.world));
    for (int missing = place_.world - 1; missing > 0;) {
      std::optional<Socket> socket = accept_from(listener, deadline);
      if (!socket) throw core::CommError(missing_text());
      std::string said;
      try {
        if (!socket->receive_text(said, std::min(deadline, steady_clock::now() + answer_time))) continue;
      } catch (const core::CommError&) {
        continue;  // no rank of zrt
      }
      for (int r = 1; r < place_.world; ++r) {
        if (said != hello(r) || peers_[static_cast<size_t>(r)] || !confirms(*socket, deadline)) continue;
        address_ = own_address(*socket);
        peers_[static_cast<size_t>(r)] = std::move(*socket);
        --missing;
        break;
      }
    }
  }

  // A rank that had no answer in time has left this connection and made another one.
  bool confirms(Socket& socket, SocketTime deadline) const {
    std::string said;
    const SocketTime answer = std::min(deadline, steady_clock::now() + answer_time);
    try {
      return socket.send_text(hello(0), answer) && socket.receive_text(said, answer) && said == confirmation;
    } catch (const core::CommError&) {
      return false;
    }
  }

  Socket listen() {
    for (int port = place_.port; port < port_end(); ++port) {
      if (auto socket = listen_at(port)) return std::move(*socket);
    }
    throw core::CommError(fmt::format("ports {} to {} are all taken; give rank 0 another one (MASTER_PORT)",
                                      place_.port, port_end() - 1));
  }

  std::string missing_text() const {
    std::string list;
    for (int r = 1; r < place_.world; ++r) {
      if (!peers_[static_cast<size_t>(r)]) list += fmt::format("{}{}", list.empty() ? "" : ", ", r);
    }
    return fmt::format("ranks {} did not reach rank 0 within {} s; look for their own messages", list, seconds());
  }

  static bool confirm(Socket& socket, SocketTime deadline) {
    try {
      return socket.send_text(std::string(confirmation), deadline);
    } catch (const core::CommError&) {
      return false;
    }
  }

  // The others: rank 0 listens at the first port from the given one on that was free there.
  void join(SocketTime deadline) {
    do {
      for (int port = place_.port; port < (place_.exact_port ? place_.port + 1 : port_end()); ++port) {
        const SocketTime answer = std::min(deadline, steady_clock::now() + answer_time);
        std::optional<Socket> socket = connect_to(place_.address, port, answer);
        std::string said;
        try {
          if (!socket || !socket->send_text(hello(place_.rank), answer) || !socket->receive_text(said, answer))
            continue;
        } catch (const core::CommError&) {
          continue;  // somebody else's port
        }
        if (said != hello(0) || !confirm(*socket, answer)) continue;
        address_ = own_address(*socket);
        peers_.push_back(std::move(*socket));
        return;
      }
      std::this_thread::sleep_for(milliseconds(50));
    } while (steady_clock::now() < deadline);
    throw core::CommError(fmt::format("rank {} found no rank 0 of this run at {}, port {}{}, within {} s", place_.rank,
                                      place_.address, place_.port,
                                      place_.exact_port ? "" : fmt::format(" to {}", port_end() - 1), seconds()));
  }

  int64_t seconds() const { return std::chrono::ceil<std::chrono::seconds>(start_time_).count(); }

  int port_end() const { return std::min(place_.port + ports_tried, 1 << 16); }

  static constexpr int ports_tried = 16;
  const SocketPlace place_;
  const milliseconds start_time_;
  std::vector<int> others_;         // than rank 0
  std::vector<Socket> peers_;       // of rank 0: by rank; of others: rank 0
  std::string address_;             // of this host, as the others reach it
  std::optional<Socket> listener_;  // for channels
  int rounds_ = 0;                  // of channels made so far, the same on all ranks
};

}  // namespace

std::unique_ptr<Control> make_socket_control(const SocketPlace& place, milliseconds start_time) {
  return std::make_unique<SocketControl>(place, start_time);
}

std::unique_ptr<Transport> make_socket_transport(const SocketPlace& place) {
  return make_process_transport(make_socket_control(place, std::chrono::minutes(2)));
}

}  // namespace zrt::comm
