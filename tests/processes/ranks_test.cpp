// zrt ranks: the processes of a run on this host, without MPI. In a build with the emulated GPU each has one of its
// own, which the others read in place.
#include <cstdlib>
#include <regex>
#include <sstream>

#include "run_of_processes.h"

namespace zrt::ranks_test {
namespace {

using namespace testing;

TEST_CASE("processes of one host train to the bits of threads, whatever is divided among them") {
  const Prepared folder("ranks_bits");
  struct Case {
    int ranks;
    std::string sets;
  };
  std::vector<Case> cases{
      {2, "zero_optimization.stage=3"},
      {4, "zero_optimization.stage=2 parallel.tensor=2"},
      {4, "zero_optimization.stage=1 parallel.pipeline=2 parallel.schedule=zb-h1"},
  };
  if (ZRT_EMULATED) {
    cases.clear();  // the processor's run in another build
    cases.push_back({4, "zero_optimization.stage=2 parallel.tensor=2"});
    cases.push_back({8, "zero_optimization.stage=3 parallel.tensor=2 parallel.pipeline=2 bf16.enabled=true"});
    cases.push_back({2, "zero_optimization.stage=3 memory.placement=host"});
    cases.push_back({2, "zero_optimization.stage=2 memory.recompute=full fp16.enabled=true"});
  }
  int number = 0;
  for (const Case& c : cases) {
    const std::string sets = sets_of(c.sets);
    const std::string threads = fmt::format("threads{}", number), processes = fmt::format("processes{}", number++);
    const Result one = run_zrt(folder.run(threads, fmt::format("--ranks {}{}", c.ranks, sets)));
    INFO(c.ranks << " ranks, " << c.sets << "\n" << one.text);
    REQUIRE(one.code == 0);
    const Result several = run_zrt(fmt::format("ranks {} ", c.ranks) + folder.run(processes, sets));
    INFO(several.text);
    REQUIRE(several.code == 0);
    CHECK(state_of(folder / processes) == state_of(folder / threads));
    const auto memory = read_json(folder / (processes + "/memory.json"));
    REQUIRE(memory["ranks"].size() == static_cast<size_t>(c.ranks));
    check_measured_memory(folder / processes);
  }
}

TEST_CASE("with one queue for each GPU ranks that share blocks and stages end, in every schedule") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("ranks_queues");
  fs::create_directories(folder.path / "nvme");
  const std::string schedules[]{"interleaved --set parallel.virtual_pipeline=2", "zb-h1", "1f1b", "gpipe"};
  const std::string places[]{"device", "host", "nvme"};
  std::vector<std::string> cases;
  const bool all = std::getenv("ZRT_FULL_TESTS") != nullptr;
  for (size_t s = 0; s < 4; ++s) {
    for (size_t stage = 0; stage < 4; ++stage) {
      for (size_t p = 0; p < 3; ++p) {
        if (!all && (s != stage || s > 1 || p > 0)) continue;
        cases.push_back(fmt::format("{} --set zero_optimization.stage={} --set memory.placement={}", schedules[s],
                                    stage, places[p]));
      }
    }
  }
  std::string expected;
  int number = 0;
  for (const std::string& given : cases) {
    const std::string name = fmt::format("run{}", number++);
    const Result result = run_command(
        "ZRT_EMULATED_QUEUES=1 " + std::string(ZRT_BINARY_DIR) + "/zrt ranks 8 " +
        folder.run(name, fmt::format("--steps 1 --set data.validation=null --set model.sequence=16 --set "
                                     "model.preset=gpt2-tiny --set model.heads=4 --set model.layers=4 --set "
                                     "model.tied=false --set parallel.tensor=4 --set parallel.pipeline=2 --set "
                                     "parallel.reduce_every=1 --set memory.nvme_path={} --set parallel.schedule={}",
                                     folder / "nvme", given)));
    INFO(given << "\n" << result.text);
    REQUIRE(result.code == 0);
    if (expected.empty()) expected = state_of(folder / name);
    CHECK(state_of(folder / name) == expected);
  }
}

TEST_CASE("a rank that is killed is named, its run ends, and goes on to the bits of a run that was left alone") {
  const Prepared folder("ranks_killed", 12);
  const Result whole = run_zrt("ranks 3 " + folder.run("whole", "--set train_batch_size=9"));
  INFO(whole.text);
  REQUIRE(whole.code == 0);
  const std::string arguments =
      "ranks 3 " + folder.run("run", "--set train_batch_size=9 --set run.checkpoint_interval=4 --resume auto");
  const pid_t launcher = start_zrt(arguments, folder / "log");
  REQUIRE(comes_true([&] { return fs::exists(folder / "run/checkpoints/step_4/manifest.json"); }));
  const std::vector<pid_t> ranks = children_of(launcher);
  REQUIRE(ranks.size() == 3);
  kill(ranks[1], SIGKILL);
  CHECK(end_of(launcher) == 128 + SIGKILL);
  const std::string text = text_of(folder / "log");
  INFO(text);
  CHECK_THAT(text, Catch::Contains(fmt::format("rank 1 (process {}) ended with signal 9 (Killed)", ranks[1])));
  CHECK_THAT(text, Catch::Contains(fmt::format("rank 1 (process {}) has ended", ranks[1])));
  for (const pid_t rank : ranks) CHECK(kill(rank, 0) != 0);
  const Result again = run_zrt(arguments);
  INFO(again.text);
  REQUIRE(again.code == 0);
  CHECK(state_of(folder / "run") == state_of(folder / "whole"));
}

TEST_CASE("a rank that stands still is named when the time is over", "[long]") {
  // The hosts name it where these meet often; what streams have reached does where a host waits for its GPU.
  const std::string sets =
      GENERATE("zero_optimization.stage=0", "zero_optimization.stage=3", "zero_optimization.stage=1 parallel.tensor=2");
  const int count = sets.ends_with("tensor=2") ? 4 : 2;
  const Prepared folder("ranks_stopped", 100000);
  const pid_t launcher = start_zrt(
      fmt::format("ranks {} ", count) + folder.run("run",
                                                   "--set run.timeout_seconds=3 --set run.checkpoint_interval=2 "
                                                   "--set model.sequence=16" +
                                                       sets_of(sets)),
      folder / "log");
  REQUIRE(comes_true([&] { return fs::exists(folder / "run/checkpoints/step_2/manifest.json"); }));
  const std::vector<pid_t> ranks = children_of(launcher);
  REQUIRE(ranks.size() == static_cast<size_t>(count));
  kill(ranks[1], SIGSTOP);
  CHECK(end_of(launcher) != 0);
  const std::string text = text_of(folder / "log");
  INFO(sets << "\n" << text);
  CHECK_THAT(text, Catch::Contains("timed out after 3000 ms"));
  // A group numbers its ranks by itself.
  const bool named =
      std::regex_search(text, std::regex(fmt::format("waited for that of rank [01] \\(process {}\\)", ranks[1])));
  CHECK((named ||
         (text.find("group dp[1,3]") == std::string::npos ? text.find("missing ranks: 1")
                                                          : text.find("missing ranks: 0")) != std::string::npos));
  for (const pid_t rank : ranks) CHECK(kill(rank, 0) != 0);
}

TEST_CASE("processes that ask for NCCL without a GPU say why they end") {
  const Prepared folder("ranks_no_gpu");
  const Result result = run_command("ZRT_EMULATED_GPUS=0 " + std::string(ZRT_BINARY_DIR) + "/zrt ranks 2 " +
                                    folder.run("run", "--transport nccl"));
  INFO(result.text);
  CHECK(result.code == 2);
  CHECK_THAT(result.text, Catch::Contains("zrt: error: --device cuda: "));
}

TEST_CASE("one rank that is a process trains to the bits of one that is a thread") {
  const Prepared folder("ranks_one", 3);
  for (const std::string name : {"thread", "process"}) {
    const Result result = run_zrt((name == "thread" ? "" : "ranks 1 ") +
                                  folder.run(name, sets_of("model.sequence=16 data.validation=null")));
    INFO(result.text);
    REQUIRE(result.code == 0);
  }
  CHECK(state_of(folder / "process") == state_of(folder / "thread"));
}

TEST_CASE("processes that are asked to stop save and end, and those of a dead launcher end too", "[long]") {
  const Prepared folder("ranks_stop", 100000);
  const std::string arguments = "ranks 2 " + folder.run("run", "--set run.checkpoint_interval=1000 --resume auto");
  const auto stepped = [&] { return text_of(folder / "log").find("step 1/") != std::string::npos; };
  pid_t launcher = start_zrt(arguments, folder / "log");
  REQUIRE(comes_true(stepped));
  kill(launcher, SIGTERM);
  CHECK(end_of(launcher) == 3);
  INFO(text_of(folder / "log"));
  CHECK(fs::exists(folder / "run/checkpoints"));
  fs::remove(folder / "log");
  launcher = start_zrt(arguments + " --set run.log_interval=1", folder / "log");
  REQUIRE(comes_true(
      [&] { return children_of(launcher).size() == 2 && text_of(folder / "log").find("step ") != std::string::npos; }));
  const std::vector<pid_t> ranks = children_of(launcher);
  kill(launcher, SIGKILL);
  end_of(launcher);
  REQUIRE(comes_true([&] { return kill(ranks[0], 0) != 0 && kill(ranks[1], 0) != 0; }));
}

TEST_CASE("zrt launch starts a process for each rank without MPI, and again when one dies", "[long]") {
  const Prepared folder("ranks_launch", 12);
  const Result whole =
      run_zrt("train " + (folder / "config.json") + device() + " --ranks 2 --out " + (folder / "whole"));
  INFO(whole.text);
  REQUIRE(whole.code == 0);
  const pid_t launcher =
      start_zrt("launch " + (folder / "config.json") + device() + " --processes --ranks 2 --delay 0.1 --out " +
                    (folder / "run") + " --set run.checkpoint_interval=3",
                folder / "log");
  REQUIRE(comes_true([&] { return fs::exists(folder / "run/checkpoints/step_3/manifest.json"); }));
  const std::vector<pid_t> starter = children_of(launcher);
  REQUIRE(starter.size() == 1);
  const std::vector<pid_t> ranks = children_of(starter[0]);
  REQUIRE(ranks.size() == 2);
  kill(ranks[0], SIGKILL);
  CHECK(end_of(launcher) == 0);
  INFO(text_of(folder / "log"));
  CHECK(state_of(folder / "run") == state_of(folder / "whole"));
  CHECK_THAT(text_of(folder / "log"), Catch::Contains("1 restart"));
}

TEST_CASE("processes meet by the variables of PyTorch's launchers, on one host and as if on two", "[long]") {
  const Prepared folder("ranks_torchrun");
  const Result threads = run_zrt("train " + (folder / "config.json") + " --ranks 4 --out " + (folder / "threads"));
  REQUIRE(threads.code == 0);
  for (const std::string hosts : {"1", "2"}) {
    const std::string run = "run" + hosts;
    const std::string script =
        "P=$((20000 + $$ % 20000)); for r in 0 1 2 3; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=4 "
        "MASTER_ADDR=127.0.0.1 MASTER_PORT=$P TORCHELASTIC_USE_AGENT_STORE=True "
        "TORCHELASTIC_RUN_ID=a GROUP_RANK=0 LOCAL_WORLD_SIZE=4 ZRT_HOST_GROUP=$((r * " +
        hosts + " / 4)) " + std::string(ZRT_BINARY_DIR) + "/zrt train " + (folder / "config.json") +
        " --set zero_optimization.stage=3 --out " + (folder / run) + " & done; wait";
    const Result result = run_command("sh -c '" + script + "'");
    INFO(result.text);
    REQUIRE(fs::exists(folder / (run + "/summary.json")));
    CHECK(state_of(folder / run) == state_of(folder / "threads"));
  }
}

TEST_CASE("what zrt ranks cannot start is refused, and a refused configuration is said once") {
  const Prepared folder("ranks_refused");
  CHECK(run_zrt("ranks").code == 2);
  CHECK_THAT(run_zrt("ranks 0 train x").text, Catch::Contains("legal are 1 to 1024, and not '0'"));
  CHECK_THAT(run_zrt("ranks two train x").text, Catch::Contains("'two'"));
  CHECK_THAT(run_zrt("ranks 2").text, Catch::Contains("needs a command"));
  CHECK_THAT(run_zrt("ranks 2 plan x").text, Catch::Contains("zrt plan runs in one process"));
  const Result refused = run_zrt("ranks 3 " + folder.run("run", "--set model.preset=nope"));
  INFO(refused.text);
  CHECK(refused.code == 2);
  const size_t first = refused.text.find("is no preset");
  REQUIRE(first != std::string::npos);
  CHECK(refused.text.find("is no preset", first + 1) == std::string::npos);
  if (!ZRT_EMULATED) return;
  const Result few = run_command("ZRT_EMULATED_GPUS=2 " + std::string(ZRT_BINARY_DIR) + "/zrt ranks 3 " +
                                 folder.run("few", "--set train_batch_size=9"));
  CHECK_THAT(few.text, Catch::Contains("3 ranks on this host need a GPU each, and this process sees 2"));
  const Result same =
      run_command("ZRT_EMULATED_GPUS=1 " + std::string(ZRT_BINARY_DIR) + "/zrt ranks 2 " + folder.run("same", ""));
  CHECK_THAT(same.text, Catch::Contains("ranks 0 and 1 have the same GPU"));
}

TEST_CASE("a process that finds other data under the same name is named, whichever it is", "[long]") {
  const Prepared folder("ranks_data");
  for (const std::string host : {"one", "two"}) {
    fs::create_directories(folder.path / host);
    folder.write(host + ".txt", text_of(folder / "text.txt") + (host == "two" ? "and a line more\n" : ""));
    REQUIRE(run_zrt("data build --out " + (folder / (host + "/corpus")) + " " + (folder / (host + ".txt"))).code == 0);
  }
  const std::string script = "P=$((20000 + $$ % 20000)); for r in 0 1 2; do h=one; [ $r = 2 ] && h=two; (cd " +
                             folder.path.string() + "/$h; RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$P " +
                             std::string(ZRT_BINARY_DIR) + "/zrt train " + (folder / "config.json") +
                             " --set data.train=corpus --set data.validation=null --set train_batch_size=9 --out " +
                             (folder / "run") + ") & done; wait";
  const Result result = run_command("sh -c '" + script + "'");
  CHECK_THAT(result.text, Catch::Contains("the data differs between process 0 and process 2"));
}

// Starts a line on a host as ssh does, for hosts that are this one: what it starts lives on when it is killed, and
// loses its input then.
std::string agent(const Folder& folder) {
  folder.write("agent.sh",
               "#!/bin/sh\nhost=$1; shift\nexec 3<&0\nZRT_HOST_GROUP=$host setsid sh -c \"$*\" <&3 &\nwait $!\n");
  fs::permissions(folder / "agent.sh", fs::perms::owner_all);
  return folder / "agent.sh";
}

TEST_CASE("zrt ranks and zrt launch start the processes of several hosts, which end with the first that fails",
          "[long]") {
  const Prepared folder("ranks_hosts", 12);
  folder.write("hosts", "localhost slots=2  # the first\n\n127.0.0.1 slots=1\n");
  const std::string train = "train " + (folder / "config.json") + " --set train_batch_size=9 --out ";
  const std::string over = "ranks --hosts " + (folder / "hosts") + " --agent " + agent(folder) + " ";
  const Result threads = run_zrt(train + (folder / "threads") + " --ranks 3");
  REQUIRE(threads.code == 0);
  const Result hosts = run_zrt(over + train + (folder / "hosts_run"));
  INFO(hosts.text);
  REQUIRE(hosts.code == 0);
  CHECK(state_of(folder / "hosts_run") == state_of(folder / "threads"));
  // A rank of the second host is killed; the run is started again over all hosts.
  const pid_t launcher = start_zrt("launch " + (folder / "config.json") + " --hosts " + (folder / "hosts") +
                                       " --agent " + agent(folder) + " --delay 0.1 --out " + (folder / "run") +
                                       " --set train_batch_size=9 --set run.checkpoint_interval=2",
                                   folder / "log");
  REQUIRE(comes_true([&] { return fs::exists(folder / "run/checkpoints/step_2/manifest.json"); }));
  const auto of = [](pid_t pid) { return children_of(pid); };
  const std::vector<pid_t> agents = of(of(launcher).at(0));
  REQUIRE(agents.size() == 2);
  const pid_t victim = of(of(agents[1]).at(0)).at(0);
  kill(victim, SIGKILL);
  CHECK(end_of(launcher) == 0);
  INFO(text_of(folder / "log"));
  CHECK_THAT(text_of(folder / "log"), Catch::Contains(fmt::format("rank 2 (process {}) ended with signal 9", victim)) &&
                                          Catch::Contains("host 127.0.0.1 (process"));
  CHECK(state_of(folder / "run") == state_of(folder / "threads"));
}

TEST_CASE("the launcher of several hosts ends when all of them have, so that the next run finds the folder free",
          "[long]") {
  const Prepared folder("ranks_hosts_end", 100000);
  folder.write("hosts", "localhost slots=1\n127.0.0.1 slots=1\n");
  folder.write("slow.sh",
               "#!/bin/sh\nhost=$1; shift\nZRT_HOST_GROUP=$host sh -c \"$*\"\ncode=$?\n[ $host = localhost ] && sleep "
               "2\necho $host >>" +
                   (folder / "ended") + "\nexit $code\n");
  fs::permissions(folder / "slow.sh", fs::perms::owner_all);
  const pid_t launcher =
      start_zrt("ranks --hosts " + (folder / "hosts") + " --agent " + (folder / "slow.sh") + " train " +
                    (folder / "config.json") + " --set run.log_interval=1 --out " + (folder / "run"),
                folder / "log");
  REQUIRE(comes_true([&] { return text_of(folder / "log").find("tokens/s") != std::string::npos; }));
  pid_t at = children_of(launcher).at(1);
  for (std::vector<pid_t> next; !(next = children_of(at)).empty();) at = next[0];  // its rank
  kill(at, SIGKILL);
  CHECK(end_of(launcher) != 0);
  INFO(text_of(folder / "log"));
  CHECK_THAT(text_of(folder / "ended"), Catch::Contains("localhost") && Catch::Contains("127.0.0.1"));
}

TEST_CASE("processes of several hosts that are asked to stop save, and end when their launcher is killed", "[long]") {
  const Prepared folder("ranks_hosts_stop", 100000);
  folder.write("hosts", "localhost slots=1\n127.0.0.1 slots=1\n");
  const std::string over = "ranks --hosts " + (folder / "hosts") + " --agent " + agent(folder) + " train " +
                           (folder / "config.json") + " --resume auto --set run.log_interval=1 --out " +
                           (folder / "run");
  const auto stepped = [&] { return text_of(folder / "log").find("tokens/s") != std::string::npos; };
  pid_t launcher = start_zrt(over, folder / "log");
  REQUIRE(comes_true(stepped));
  kill(launcher, SIGUSR1);
  REQUIRE(comes_true([&] { return text_of(folder / "log").find(": saved ") != std::string::npos; }));
  CHECK(kill(launcher, 0) == 0);
  kill(launcher, SIGTERM);
  CHECK(end_of(launcher) == 3);
  fs::remove(folder / "log");
  launcher = start_zrt(over, folder / "log");
  REQUIRE(comes_true(stepped));
  std::vector<pid_t> ranks;
  for (const pid_t host : children_of(launcher)) ranks.push_back(children_of(children_of(host).at(0)).at(0));
  REQUIRE(ranks.size() == 2);
  kill(launcher, SIGKILL);
  end_of(launcher);
  CHECK(comes_true([&] { return kill(ranks[0], 0) != 0 && kill(ranks[1], 0) != 0; }));
}

TEST_CASE("a file of hosts that is wrong is refused with its line") {
  const Prepared folder("ranks_hostfile");
  const auto said = [&](const std::string& text) {
    folder.write("hosts", text);
    return run_zrt("ranks --hosts " + (folder / "hosts") + " " + folder.run("run", "")).text;
  };
  CHECK_THAT(said("a slots=2\nb slots=none\n"),
             Catch::Contains("hosts:2: 'b slots=none'") && Catch::Contains("no number of slots from 1 to 1024"));
  CHECK_THAT(said("a slots=0\n"), Catch::Contains("hosts:1"));
  CHECK_THAT(said("a 4\n"), Catch::Contains("hosts:1"));
  CHECK_THAT(said("a slots=1 more\n"), Catch::Contains("there is more behind the slots"));
  CHECK_THAT(said("a\na slots=2\n"), Catch::Contains("hosts:2") && Catch::Contains("the host comes twice"));
  CHECK_THAT(said("-oProxyCommand=x\n"), Catch::Contains("cannot begin with a dash"));
  CHECK_THAT(said("# nobody\n"), Catch::Contains("lists no host"));
  CHECK_THAT(said("worker-0:2\n"), Catch::Contains("hosts:1: 'worker-0:2': a colon does not give slots, or a port"));
  CHECK_THAT(said("[::1]:2\n"), Catch::Contains("a colon does not give slots"));
  CHECK_THAT(run_zrt("ranks --hosts " + folder.path.string() + " train x").text, Catch::Contains("cannot be read"));
  CHECK_THAT(said("\xEF\xBB\xBF# nobody\n"), Catch::Contains("lists no host"));
  CHECK_THAT(run_zrt("ranks --hosts nowhere train x").text, Catch::Contains("nowhere cannot be read"));
  CHECK_THAT(run_zrt("ranks --agent ssh train x").text, Catch::Contains("goes together with --hosts"));
  folder.write("hosts", "localhost slots=2\n");
  CHECK_THAT(run_zrt("launch " + (folder / "config.json") + " --ranks 3 --hosts " + (folder / "hosts")).text,
             Catch::Contains("--ranks is 3 but the hosts have 2 slots"));
}

TEST_CASE("zrt starts where there is no MPI, and says under mpirun what is missing") {
  const std::string zrt = std::string(ZRT_BINARY_DIR) + "/zrt";
  const Result libraries = run_command("ldd " + zrt);
  REQUIRE(libraries.code == 0);
  CHECK(libraries.text.find("libmpi") == std::string::npos);
  // A program with another library in its place beside it.
  const Prepared folder("ranks_no_mpi");
  fs::copy_file(zrt, folder.path / "zrt");
  folder.write("libzrt_mpi.so", "no library");
  const std::string train =
      (folder / "zrt") + " train " + (folder / "config.json") + " --steps 1 --out " + (folder / "run");
  const Result refused = run_command("OMPI_COMM_WORLD_SIZE=2 " + train);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text,
             Catch::Contains("MPI cannot be loaded: ") && Catch::Contains("zrt ranks N, which needs none"));
  CHECK(run_command(train).code == 0);
}

}  // namespace
}  // namespace zrt::ranks_test
