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
  // deepspeed, torchrun, horovodrun, MVAPICH, PRRTE and scripts; a name and a value each, beside what else they set.
  const std::vector<std::map<std::string, std::string>> started{
      {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}},
      {{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}},
      {{"WORLD_SIZE", "2"}},
      {{"RANK", "1"}},
      {{"LOCAL_RANK", "1"}},
      {{"LOCAL_RANK", "0"}, {"GROUP_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}},
      {{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}},
      {{"MV2_COMM_WORLD_SIZE", "2"}},
      {{"PMIX_RANK", "1"}}};
  for (const auto& variables : started) {
    INFO(variables.begin()->first);
    CHECK_THROWS_AS(detect(variables), core::UsageError);
    CHECK_THROWS_WITH(detect(variables), Catch::Contains("mpirun -n 2") && Catch::Contains("srun --mpi=pmix -n 2") &&
                                             Catch::Contains("--ranks 2"));
  }
  // A world of one is none; what others than launchers call RANK may be anything.
  CHECK_FALSE(detect({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK_FALSE(detect({{"LOCAL_RANK", "0"}, {"GROUP_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}, {"WORLD_SIZE", "1"}}));
  CHECK_FALSE(detect({{"RANK", "captain"}, {"WORLD_SIZE", ""}}));
}

TEST_CASE("variables for PyTorch do no harm under mpirun and srun, and torchrun below them is refused") {
  const std::map<std::string, std::string> script{{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}};
  for (std::map<std::string, std::string> variables :
       {std::map<std::string, std::string>{{"OMPI_COMM_WORLD_SIZE", "2"}},
        {{"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}}}) {
    variables.insert(script.begin(), script.end());
    CHECK(detect(variables)->world == 2);
    variables.insert({{"GROUP_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
    CHECK_THROWS_AS(detect(variables), core::UsageError);
  }
}

TEST_CASE("launchers that disagree, and numbers that are none, are refused") {
  CHECK_THROWS_WITH(detect({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMI_SIZE", "2"}}), Catch::Contains("disagree"));
  CHECK_THROWS_WITH(detect({{"OMPI_COMM_WORLD_SIZE", "four"}}), Catch::Contains("'four'"));
  CHECK_THROWS_WITH(detect({{"PMI_SIZE", "0"}}), Catch::Contains("PMI_SIZE is '0'"));
}

TEST_CASE("a transport that contradicts what is asked for is refused") {
  CHECK_THROWS_AS(make_transport("tcp", 1), core::UsageError);
  CHECK(make_transport("thread", 3)->world() == 3);
  CHECK_THROWS_WITH(make_transport("mpi", 2), Catch::Contains("mpirun -n 2"));
  CHECK_THROWS_AS(make_transport("nccl", 2), core::ConfigError);
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
