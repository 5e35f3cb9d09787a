#include "comm/thread_group.h"

#include <fmt/format.h>

#include "comm/thread/meeting.h"
#include "core/error.h"

namespace zrt::comm {

std::vector<std::unique_ptr<Communicator>> make_thread_group(const std::string& group, int size,
                                                             std::chrono::milliseconds timeout) {
  if (size < 1) {
    throw core::CommError(fmt::format("group {} cannot have {} ranks; legal is 1 or more", group, size));
  }
  auto meeting = std::make_shared<ThreadMeeting>(group, size, timeout);
  std::vector<std::unique_ptr<Communicator>> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(make_communicator(meeting, rank));
  return members;
}

}  // namespace zrt::comm
