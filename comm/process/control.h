// Lets the processes of a run agree, whatever carries their data: each is one rank, started by a launcher. Each process
// has one, which one thread at a time uses, but for abort.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/process/channel.h"

namespace zrt::comm {

class Control {
 public:
  virtual ~Control() = default;
  virtual std::string_view name() const = 0;  // "mpi", "socket"
  virtual int rank() const = 0;
  virtual int world() const = 0;

  // Every process's text, in rank order. Collective. Throws CommError when one does not come within `timeout`.
  virtual std::vector<std::string> exchange(const std::string& text, std::chrono::milliseconds timeout) = 0;
  // Channels to `peers`, which are on other machines, separate from all made before. Collective over all processes.
  virtual std::vector<std::unique_ptr<Channel>> make_channels(const std::vector<int>& peers,
                                                              std::chrono::milliseconds timeout) = 0;
  // Is called after the first exchange of all processes.
  virtual void started(std::chrono::milliseconds) {}
  virtual void finish() = 0;  // all have said good-bye
  [[noreturn]] virtual void abort(int code) = 0;
};

// Connects processes by sockets; all must have come within `start_time`.
struct SocketPlace;
std::unique_ptr<Control> make_socket_control(const SocketPlace& place, std::chrono::milliseconds start_time);

// The ranks' transport over `control`: ranks of one machine share memory, others send each other frames.
class Transport;
std::unique_ptr<Transport> make_process_transport(std::unique_ptr<Control> control);

}  // namespace zrt::comm
