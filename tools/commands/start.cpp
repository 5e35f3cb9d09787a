#include <charconv>
#include <filesystem>
#include <iostream>

#include "core/error.h"
#include "runtime/train/launch/local_ranks.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"

namespace zrt::tools {
namespace {

constexpr const char* ranks_usage =
    "usage: zrt ranks N COMMAND …\n"
    "       zrt ranks --hosts FILE [--agent CMD] COMMAND …\n\n"
    "Starts N processes of `zrt COMMAND …` on this host, each one rank of one run: what mpirun -n N does, without "
    "MPI.\n"
    "On GPUs each process takes one of its own. The first process that fails is named, and ends the others. Commands\n"
    "that can run so are train, eval and bench. `zrt launch` starts a run in this way, and again when it fails.\n\n"
    "--hosts FILE   a line for each host: \"worker-0 slots=8\"; starts so many processes on each\n"
    "--agent CMD    what starts a command line on a host (ssh): it is given the host's name and the line. The program\n"
    "               and the files of the run must have the same paths on all hosts\n";

int on_hosts(const Args& args, const std::vector<std::string>& program) {
  std::string file, agent = "ssh";
  size_t at = 0;
  for (; at + 1 < args.size() && (args[at] == "--hosts" || args[at] == "--agent"); at += 2) {
    (args[at] == "--hosts" ? file : agent) = args[at + 1];
  }
  if (file.empty()) throw core::UsageError("zrt ranks --agent goes together with --hosts FILE");
  if (at >= args.size()) throw core::UsageError("zrt ranks needs a command to run; legal are train, eval and bench");
  if (command_words(agent).empty()) throw core::UsageError("--agent is empty; the default is ssh");
  std::vector<std::string> command = program;
  command.insert(command.end(), args.begin() + static_cast<std::ptrdiff_t>(at), args.end());
  return runtime::run_on_hosts(command, runtime::read_hosts(file), command_words(agent));
}

}  // namespace

int ranks_command(const Args& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    std::cout << ranks_usage;
    return args.empty() ? 2 : 0;
  }
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string()};
  if (args[0] == "--hosts" || args[0] == "--agent") return on_hosts(args, command);
  int ranks = 0;
  const auto [end, error] = std::from_chars(args[0].data(), args[0].data() + args[0].size(), ranks);
  constexpr int most = 1024;
  if (error != std::errc() || end != args[0].data() + args[0].size() || ranks < 1 || ranks > most) {
    throw core::UsageError("zrt ranks needs a number of processes first; legal are 1 to 1024, and not '" + args[0] +
                           "'");
  }
  if (args.size() < 2) throw core::UsageError("zrt ranks needs a command to run; legal are train, eval and bench");
  command.insert(command.end(), args.begin() + 1, args.end());
  return runtime::has_share() ? runtime::run_share(command) : runtime::run_local_ranks(command, ranks);
}

}  // namespace zrt::tools
