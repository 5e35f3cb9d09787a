#include "runtime/train/launch/local_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>

#include "comm/launch.h"
#include "comm/socket/stream.h"
#include "core/error.h"
#include "runtime/train/launch/process_set.h"

extern char** environ;

namespace zrt::runtime {
namespace {

// A host's share of a run over several.
constexpr const char *first_variable = "ZRT_SHARE_FIRST", *count_variable = "ZRT_SHARE_RANKS",
                     *of_variable = "ZRT_SHARE_OF", *meeting_variable = "ZRT_SHARE_ADDRESS",
                     *meeting_port_variable = "ZRT_SHARE_PORT", *run_variable = "ZRT_SHARE_KEY";

std::string random_key() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// The place where the ranks of a run meet.
struct Meeting {
  int world;
  std::string address;
  int port;
  std::string key;
};

std::map<std::string, std::string> variables_of(const Meeting& meeting) {
  return {{comm::world_variable, std::to_string(meeting.world)},
          {comm::address_variable, meeting.address},
          {comm::port_variable, std::to_string(meeting.port)},
          {comm::key_variable, meeting.key}};
}

void start_ranks(ProcessSet& processes, const std::vector<std::string>& command, int first, int count,
                 const Meeting& meeting, int listener = -1) {
  for (int rank = first; rank < first + count; ++rank) {
    std::map<std::string, std::string> place = variables_of(meeting);
    place[comm::rank_variable] = std::to_string(rank);
    if (listener >= 0) place[comm::listener_variable] = std::to_string(listener);
    // Rank 0 alone inherits it.
    if (listener >= 0) fcntl(listener, F_SETFD, rank == 0 ? 0 : FD_CLOEXEC);
    processes.start({fmt::format("rank {}", rank), command, place});
  }
}

// For a shell of another host.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string passed_variables() {
  std::string text;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view setting = *variable;
    for (const std::string_view prefix : {"ZRT_", "NCCL_", "CUDA_", "OMP_"}) {
      if (setting.starts_with(prefix)) text += quoted(std::string(setting)) + " ";
    }
  }
  return text;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) throw core::UsageError(fmt::format("{} is not set, though {} is", name, count_variable));
  return value;
}

int number(const char* name) {
  try {
    return std::stoi(variable(name));
  } catch (const std::logic_error&) {
    throw core::UsageError(fmt::format("{} is '{}', which is no number", name, variable(name)));
  }
}

}  // namespace

int run_local_ranks(const std::vector<std::string>& command, int ranks) {
  ProcessSet processes;
  // Taken here, so that no other program can have the port meanwhile.
  const comm::Socket listener = comm::listen_on_loopback();
  start_ranks(processes, command, 0, ranks, {ranks, "127.0.0.1", port_of(listener), random_key()}, listener.file());
  return processes.run(false);
}

int run_on_hosts(const std::vector<std::string>& command, const std::vector<Host>& hosts,
                 const std::vector<std::string>& agent) {
  ProcessSet processes;
  // Only the first host knows which of its ports are free: ranks try sixteen from here on.
  std::random_device device;
  const int port = std::uniform_int_distribution(20000, 60000)(device);
  const Meeting meeting{ranks_of(hosts), hosts.front().name, port, random_key()};
  int first = 0;
  for (const Host& host : hosts) {
    const std::map<std::string, std::string> place{{first_variable, std::to_string(first)},
                                                   {count_variable, std::to_string(host.slots)},
                                                   {of_variable, std::to_string(meeting.world)},
                                                   {meeting_variable, meeting.address},
                                                   {meeting_port_variable, std::to_string(meeting.port)},
                                                   {run_variable, meeting.key}};
    std::string line =
        fmt::format("cd {} && exec env {}", quoted(std::filesystem::current_path().string()), passed_variables());
    for (const auto& [name, value] : place) line += quoted(fmt::format("{}={}", name, value)) + " ";
    for (size_t i = 0; i < command.size(); ++i) {
      line += quoted(command[i]) + " ";
      if (i == 0) line += fmt::format("ranks {} ", host.slots);
    }
    std::vector<std::string> words = agent;
    words.insert(words.end(), {host.name, line});
    processes.start({fmt::format("host {}", host.name), words, {}, true});
    first += host.slots;
  }
  return processes.run(false);
}

bool has_share() {
  return std::getenv(count_variable) != nullptr;
}

int run_share(const std::vector<std::string>& command) {
  const Meeting meeting{number(of_variable), variable(meeting_variable), number(meeting_port_variable),
                        variable(run_variable)};
  const int first = number(first_variable), count = number(count_variable);
  unsetenv(count_variable);  // ranks have none
  ProcessSet processes;
  start_ranks(processes, command, first, count, meeting);
  return processes.run(true);
}

}  // namespace zrt::runtime
