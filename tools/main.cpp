#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <map>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/isa.h"
#include "core/log.h"
#include "tools/commands/command.h"
#include "tools/commands/ranks.h"
#include "zrt_version.h"

namespace {

constexpr const char* usage =
    "usage: zrt COMMAND …\n\n"
    "  train CONFIG       train a model; every rank's memory is planned, printed and measured\n"
    "  plan CONFIG        memory of every rank, communication and predicted time, without data or ranks\n"
    "  launch CONFIG      train, restarting a run that dies or hangs; ranks are threads or processes\n"
    "  ranks N COMMAND    a command as N processes of this host, one for each rank\n"
    "  checkpoint VERB    list, inspect, verify, export to and import from Hugging Face\n"
    "  data build FILE…   turn text into a Megatron .bin/.idx dataset; data tokenizer FILE… trains a tokenizer\n"
    "  eval RUN           loss, perplexity and bits per byte of a finished run on held-out data\n"
    "  generate RUN       text from a finished run\n"
    "  report RUN         one page of curves, memory and a step's timeline, from a run's files\n"
    "  config KEY         what a key of the configuration is: values, default, effect; a section's keys; all sections\n"
    "  bench WHAT         measure: train, offload, save, adam, comm, io, overlap, traffic, calibrate, predict or "
    "tune\n\n"
    "`zrt COMMAND --help` lists a command's options.\n";

// "avx2 (the processor has avx512, ZRT_MAX_ISA is avx2)"
std::string level_text() {
  using namespace zrt::core;
  const std::string level(isa_name(best_isa()));
  if (!isa_cap()) return level;
  return fmt::format("{} (the processor has {}, ZRT_MAX_ISA is {})", level, isa_name(detected_isa()),
                     isa_name(*isa_cap()));
}

// A dataset is a file or a thousand; shells allow 1,024 open ones until a program asks for more.
void allow_many_files() {
  rlimit limit{};
  constexpr rlim_t wanted = 1 << 16;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A page that was promised and cannot be had ends a process with a signal; its name alone says little.
void say_bus_error(int signal) {
  constexpr std::string_view text =
      "zrt: error: memory that this process was given is not there (Bus error): the machine or its container ran out "
      "of "
      "memory for shared pages, or a disk failed under a mapped file. Use fewer ranks or a smaller model, or raise the "
      "limit of memory.\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int run(const std::vector<std::string>& args) {
  using zrt::tools::Args;
  const std::map<std::string, int (*)(const Args&)> commands{{"train", zrt::tools::train_command},
                                                             {"plan", zrt::tools::plan_command},
                                                             {"launch", zrt::tools::launch_command},
                                                             {"ranks", zrt::tools::ranks_command},
                                                             {"checkpoint", zrt::tools::checkpoint_command},
                                                             {"data", zrt::tools::data_command},
                                                             {"eval", zrt::tools::eval_command},
                                                             {"generate", zrt::tools::generate_command},
                                                             {"report", zrt::tools::report_command},
                                                             {"config", zrt::tools::config_command},
                                                             {"bench", zrt::tools::bench_command}};
  if (args.empty())
    throw zrt::core::UsageError(
        "no command given; legal are train, plan, launch, ranks, checkpoint, data, eval, generate, report, config and "
        "bench");
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::cout << usage;
    return 0;
  }
  if (args[0] == "--version") {
    std::cout << fmt::format("zrt {}\ninstruction set: {}\n", ZRT_VERSION, level_text());
    return 0;
  }
  const auto found = commands.find(args[0]);
  if (found == commands.end()) {
    throw zrt::core::UsageError(
        fmt::format("'{}' is no command; legal are train, plan, launch, ranks, checkpoint, data, eval, generate, "
                    "report, config and bench",
                    args[0]));
  }
  const std::set<std::string> several{"train", "eval", "bench", "config"};  // run as one of several processes, too
  if (!several.count(args[0])) zrt::tools::need_single_process(args[0]);
  return found->second(Args(args.begin() + 1, args.end()));
}

}  // namespace

int main(int argc, char** argv) {
  // A write beyond `ulimit -f` then fails with a reason instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);  // whoever read our output may leave; a run goes on
  std::signal(SIGBUS, say_bus_error);
  allow_many_files();
  zrt::core::init_log();
  try {
    zrt::core::best_isa();  // refuses a processor that cannot run what follows
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return zrt::tools::report_error(error);
  }
}
