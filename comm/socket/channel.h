// Frames over a TCP connection, for ranks of several machines.
#pragma once
#include <memory>

#include "comm/process/channel.h"
#include "comm/socket/stream.h"

namespace zrt::comm {

// `peer` is the rank at the other end; calls throw CommError once it has ended.
std::unique_ptr<Channel> make_socket_channel(Socket socket, int peer);

}  // namespace zrt::comm
