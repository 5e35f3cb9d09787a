#include "comm/launch.h"

#include <map>

#include "catch.h"
#include "core/error.h"

namespace zrt::comm::launch_test {
namespace {

std::optional<Launch> detect(const std::map<std::string, std::string>& variables) {
  return detect_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("the launcher and its number of processes are found in the environment") {
  CHECK_FALSE(detect({}));
  CHECK(detect({{"OMPI_COMM_WORLD_SIZE", "4"}})->world == 4);
  CHECK(detect({{"PMI_SIZE", "3"}})->launcher == "PMI");
  CHECK(detect({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "5"}})->world == 8);
  // mpirun within a Slurm job: its daemons inherit other counts.
  CHECK(detect({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}})
            ->world == 4);
}

TEST_CASE("a batch script outside srun is a process of its own") {
  CHECK_FALSE(detect({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "77"}}));
}

TEST_CASE("a step of Slurm counts its own tasks, not those of the job") {
  CHECK(detect({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}})
            ->world == 1);
}

TEST_CASE("one of several processes that know nothing of each other is refused, and told what to use") {
  // deepspeed, torchrun, horovodrun, MVAPICH, PRRTE, jsrun, Flux, PALS, ALPS and scripts; a name and a value each,
  // beside what else they set.
  const std::vector<std::map<std::string, std::string>> started{
      {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}},
      {{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}},
      {{"WORLD_SIZE", "2"}},
      {{"RANK", "1"}},
      {{"LOCAL_RANK", "1"}},
      {{"LOCAL_RANK", "0"}, {"GROUP_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}},
      {{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}},
      {{"MV2_COMM_WORLD_SIZE", "2"}},
      {{"PMIX_RANK", "1"}},
      {{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "2"}},
      {{"JSM_NAMESPACE_RANK", "1"}},
      {{"FLUX_JOB_SIZE", "2"}, {"FLUX_TASK_RANK", "0"}},
      {{"FLUX_TASK_RANK", "1"}},
      {{"PALS_LOCAL_SIZE", "2"}, {"PALS_RANKID", "0"}},
      {{"PALS_RANKID", "1"}},
      {{"MV2_COMM_WORLD_RANK", "1"}},
      {{"ALPS_APP_PE", "1"}}};
  for (const auto& variables : started) {
    INFO(variables.begin()->first);
    CHECK_THROWS_AS(detect(variables), core::UsageError);
    CHECK_THROWS_WITH(detect(variables), Catch::Contains("mpirun -n 2") && Catch::Contains("srun --mpi=pmix -n 2") &&
                                             Catch::Contains("zrt launch --ranks 2"));
  }
  // A world of one is none; what others than launchers call RANK may be anything.
  CHECK_FALSE(detect({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK_FALSE(detect({{"LOCAL_RANK", "0"}, {"GROUP_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}, {"WORLD_SIZE", "1"}}));
  CHECK_FALSE(detect({{"RANK", "captain"}, {"WORLD_SIZE", ""}}));
  CHECK_FALSE(detect({{"LOCAL_RANK", "-1"}, {"WORLD_SIZE", "-1"}}));
  CHECK_FALSE(detect({{"FLUX_JOB_SIZE", "1"}, {"FLUX_TASK_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "1"}}));
}

TEST_CASE("a launcher's variable that is no number is refused by its name and value") {
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "PMI_RANK", "PMIX_RANK", "HOROVOD_SIZE",
                           "JSM_NAMESPACE_SIZE", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "PALS_RANKID"}) {
    for (const std::string value : {"x", "2x", " 2", "2.0", "-2", "99999999999"}) {
      INFO(name << "='" << value << "'");
      CHECK_THROWS_AS(detect({{name, value}}), core::UsageError);
      CHECK_THROWS_WITH(detect({{name, value}}), Catch::Contains(name + (" is '" + value + "'")) &&
                                                     Catch::Contains("would each train by itself"));
    }
  }
  // Such a variable does no harm beside a launcher that zrt understands.
  CHECK(detect({{"OMPI_COMM_WORLD_SIZE", "2"}, {"WORLD_SIZE", "x"}})->world == 2);
}

TEST_CASE("processes of zrt ranks and of PyTorch's launchers find where to meet") {
  const std::map<std::string, std::string> own{
      {"ZRT_RANK", "0"},    {"ZRT_WORLD_SIZE", "3"}, {"ZRT_ADDRESS", "127.0.0.1"}, {"ZRT_PORT", "4000"},
      {"ZRT_RUN_KEY", "k"}, {"ZRT_LISTENER", "7"},   {"OMPI_COMM_WORLD_SIZE", "2"}};
  const auto launch = detect(own);
  CHECK(launch->launcher == "zrt ranks");
  CHECK(launch->world == 3);
  REQUIRE(launch->meeting);
  CHECK(launch->meeting->listener == 7);
  CHECK(launch->meeting->port == 4000);
  CHECK(launch->meeting->exact_port);
  CHECK(launch->meeting->key == "k");

  std::map<std::string, std::string> torchrun{{"RANK", "1"},
                                              {"LOCAL_RANK", "1"},
                                              {"WORLD_SIZE", "2"},
                                              {"MASTER_ADDR", "host"},
                                              {"MASTER_PORT", "29500"},
                                              {"GROUP_RANK", "0"},
                                              {"LOCAL_WORLD_SIZE", "2"},
                                              {"TORCHELASTIC_RUN_ID", "job"},
                                              {"TORCHELASTIC_RESTART_COUNT", "4"}};
  CHECK(detect(torchrun)->launcher == "torchrun");
  CHECK(detect(torchrun)->meeting->rank == 1);
  CHECK(detect(torchrun)->meeting->address == "host");
  CHECK(detect(torchrun)->meeting->port == 29500);
  CHECK(detect(torchrun)->meeting->key == "job.4");  // a process of an earlier start finds nobody
  CHECK_FALSE(detect(torchrun)->meeting->exact_port);
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // its agent has the port
  CHECK(detect(torchrun)->meeting->port == 29501);
  for (const char* name : {"GROUP_RANK", "LOCAL_WORLD_SIZE"}) torchrun.erase(name);
  CHECK(detect(torchrun)->launcher == "a launcher of PyTorch's variables");
  torchrun["WORLD_SIZE"] = "1", torchrun["RANK"] = "0", torchrun["LOCAL_RANK"] = "0";
  CHECK_FALSE(detect(torchrun));
  CHECK_THROWS_WITH(detect({{"ZRT_WORLD_SIZE", "2"}, {"ZRT_RANK", "one"}}), Catch::Contains("ZRT_RANK to 'one'"));
  torchrun["WORLD_SIZE"] = "2";
  for (const char* port : {"0", "70000"}) {
    torchrun["MASTER_PORT"] = port;
    CHECK_THROWS_WITH(detect(torchrun),
                      Catch::Contains(std::string("MASTER_PORT is ") + port + "; legal are the ports"));
  }
}

TEST_CASE("variables for PyTorch do no harm under mpirun and srun, and torchrun below them needs its own") {
  const std::map<std::string, std::string> script{{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}};
  for (std::map<std::string, std::string> variables :
       {std::map<std::string, std::string>{{"OMPI_COMM_WORLD_SIZE", "2"}},
        {{"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}}}) {
    variables.insert(script.begin(), script.end());
    CHECK(detect(variables)->world == 2);
    variables.insert({{"GROUP_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
    CHECK_THROWS_AS(detect(variables), core::UsageError);
    variables.insert({{"MASTER_ADDR", "host"}, {"MASTER_PORT", "1"}});
    CHECK(detect(variables)->launcher == "torchrun");
  }
}

TEST_CASE("launchers that disagree, and numbers that are none, are refused") {
  CHECK_THROWS_WITH(detect({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMI_SIZE", "2"}}), Catch::Contains("disagree"));
  CHECK_THROWS_WITH(detect({{"OMPI_COMM_WORLD_SIZE", "four"}}), Catch::Contains("'four'"));
  CHECK_THROWS_WITH(detect({{"PMI_SIZE", "0"}}), Catch::Contains("PMI_SIZE is '0'"));
}

TEST_CASE("a variable of PyTorch's launchers that is no number is named, and a port with none behind it") {
  std::map<std::string, std::string> all{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  const auto with = [&](const std::string& name, const std::string& value) {
    auto changed = all;
    changed[name] = value;
    return changed;
  };
  for (const std::string value : {"abc", "-1", "29500x", "99999999999"}) {
    CHECK_THROWS_WITH(detect(with("MASTER_PORT", value)), Catch::Contains("MASTER_PORT is '" + value + "'"));
  }
  CHECK_THROWS_WITH(detect(with("RANK", "x")), Catch::Contains("RANK is 'x'"));
  CHECK_THROWS_WITH(detect(with("RANK", "5")), Catch::Contains("RANK is 5 and WORLD_SIZE 2; legal ranks are 0 to 1"));
  all["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK_THROWS_WITH(detect(with("MASTER_PORT", "65535")), Catch::Contains("MASTER_PORT is 65535, the last port"));
}

TEST_CASE("a transport that contradicts what is asked for is refused") {
  CHECK_THROWS_AS(make_transport("tcp", 1), core::UsageError);
  CHECK(make_transport("thread", 3)->world() == 3);
  CHECK_THROWS_WITH(make_transport("mpi", 2), Catch::Contains("mpirun -n 2"));
  CHECK_THROWS_AS(make_transport("nccl", 2), core::ConfigError);
  CHECK_THROWS_WITH(make_transport("socket", 2), Catch::Contains("none started this one"));
  CHECK_THROWS_AS(make_thread_transport(0), core::UsageError);
}

TEST_CASE("what must be equal everywhere is equal in one process") {
  const auto transport = make_thread_transport(2);
  CHECK_NOTHROW(require_equal(*transport, "the configuration", "text", std::chrono::seconds(1)));
  CHECK(transport->exchange("text", std::chrono::seconds(1)) == std::vector<std::string>{"text"});
  CHECK(transport->leads());
}

}  // namespace
}  // namespace zrt::comm::launch_test
