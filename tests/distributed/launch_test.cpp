#include "distributed/launch.h"

#include "attend/input_error.h"

#include <gmock/gmock.h>

#include <map>

namespace attend::distributed {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Launch> launch_with(const Variables& variables) {
  return launch_of([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(LaunchOf, WithoutALauncherIsEmpty) {
  EXPECT_FALSE(launch_with({}));
  EXPECT_FALSE(launch_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})) << "without srun";
}

TEST(LaunchOf, ReadsTheVariablesOfEachLauncher) {
  const Variables address{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  for (Variables variables :
       {Variables{
            {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}},
        Variables{{"SLURM_PROCID", "3"},
                  {"SLURM_STEP_NUM_TASKS", "8"},
                  {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                  {"SLURM_LOCALID", "2"}},
        Variables{{"OMPI_COMM_WORLD_RANK", "3"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}}) {
    variables.insert(address.begin(), address.end());
    const auto launch = launch_with(variables);
    ASSERT_TRUE(launch) << variables.begin()->first;
    EXPECT_EQ(launch->rank, 3);
    EXPECT_EQ(launch->world_size, 8);
    EXPECT_EQ(launch->local_world_size, 4);
    EXPECT_EQ(launch->local_rank, 2);
    EXPECT_EQ(launch->address, "node1");
    EXPECT_EQ(launch->port, 29500);
    EXPECT_FALSE(launch->has_store);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    EXPECT_TRUE(launch_with(variables)->has_store);
  }
}

TEST(LaunchOf, ReadsOpenMpiBeforeSlurm) {
  const auto launch = launch_with({{"MASTER_ADDR", "node1"},
                                   {"MASTER_PORT", "29500"},
                                   {"SLURM_PROCID", "1"},  // of the daemon of mpirun on this node
                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                   {"OMPI_COMM_WORLD_RANK", "5"},
                                   {"OMPI_COMM_WORLD_SIZE", "8"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->world_size, 8);
  EXPECT_EQ(launch->local_world_size, 4);
}

TEST(LaunchOf, ReadsTheJob) {
  const Variables address{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  for (auto [job, variables] :
       {std::pair(std::string(),
                  Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SLURM_JOB_ID", "7"}}),
        std::pair(std::string(),
                  Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}}),
        std::pair(std::string("a"),
                  Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "a"}}),
        std::pair(std::string("7.0"), Variables{{"SLURM_PROCID", "1"},
                                                {"SLURM_STEP_NUM_TASKS", "2"},
                                                {"SLURM_JOB_ID", "7"},
                                                {"SLURM_STEP_ID", "0"}}),
        std::pair(std::string("prterun-1"), Variables{{"OMPI_COMM_WORLD_RANK", "1"},
                                                      {"OMPI_COMM_WORLD_SIZE", "2"},
                                                      {"PMIX_NAMESPACE", "prterun-1"}})}) {
    variables.insert(address.begin(), address.end());
    EXPECT_EQ(launch_with(variables)->job, job);
  }
}

TEST(LaunchOf, LocalRankIsThatOfEqualMachinesUnlessSet) {
  Variables variables{{"RANK", "5"},
                      {"WORLD_SIZE", "8"},
                      {"LOCAL_WORLD_SIZE", "4"},
                      {"MASTER_ADDR", "node1"},
                      {"MASTER_PORT", "29500"}};
  EXPECT_EQ(launch_with(variables)->local_rank, 1);
  variables["LOCAL_RANK"] = "2";
  EXPECT_EQ(launch_with(variables)->local_rank, 2);
  variables["LOCAL_RANK"] = "4";
  EXPECT_THAT(
      [&] { launch_with(variables); },
      testing::ThrowsMessage<InputError>(testing::AllOf(
          testing::HasSubstr("LOCAL_RANK"), testing::HasSubstr("'4'"), testing::HasSubstr("3"))));
  variables.erase("LOCAL_WORLD_SIZE");
  EXPECT_EQ(launch_with(variables)->local_rank, 4);
}

TEST(LaunchOf, NeedsRankAndWorldSize) {
  for (const auto* name : {"RANK", "WORLD_SIZE"}) {
    EXPECT_THAT(
        [&] {
          launch_with({{name, "1"}, {"OMPI_COMM_WORLD_RANK", "1"}});
        },
        testing::ThrowsMessage<InputError>(
            testing::AllOf(testing::HasSubstr(" RANK "), testing::HasSubstr(" WORLD_SIZE "))))
        << name;
  }
}

TEST(LaunchOf, NeedsRankAndWorldSizeOfEachLauncher) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    EXPECT_THAT(
        [&] {
          launch_with({{names[0], "1"}});
        },
        testing::ThrowsMessage<InputError>(
            testing::AllOf(testing::HasSubstr(names[0]), testing::HasSubstr(names[1]))));
  }
  EXPECT_EQ(launch_with({{"SLURM_PROCID", "0"}}), std::nullopt) << "a batch script";
}

TEST(LaunchOf, ASingleProcessNeedsNoAddress) {
  Variables variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  EXPECT_EQ(launch_with(variables)->world_size, 1);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_THAT([&] { launch_with(variables); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("MASTER_ADDR")))
      << "the address of the launcher's store";
}

TEST(LaunchOf, ReadsTheTasksOfItsNodeInAStepOfSlurm) {
  Variables variables{{"MASTER_ADDR", "node1"},
                      {"MASTER_PORT", "29500"},
                      {"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "12"},
                      {"SLURM_STEP_TASKS_PER_NODE", "3,2(x3),1(x3)"},
                      {"SLURM_NTASKS_PER_NODE", "64"}};  // of the job, which may have other steps
  EXPECT_EQ(launch_with(variables)->local_world_size, 3) << "node 0";
  for (const auto& [node, tasks] : {std::pair("0", 3), std::pair("1", 2), std::pair("3", 2),
                                    std::pair("4", 1), std::pair("6", 1)}) {
    variables["SLURM_NODEID"] = node;
    EXPECT_EQ(launch_with(variables)->local_world_size, tasks) << node;
  }
  variables["SLURM_STEP_NUM_TASKS"] = variables["SLURM_STEP_TASKS_PER_NODE"] = "1";
  EXPECT_EQ(launch_with(variables)->world_size, 1) << "srun -n 1 in a job of more tasks";
}

/// Expects that a list of tasks per node is refused on node 3.
void expect_slurm_error(const std::string& tasks) {
  const Variables variables{{"MASTER_ADDR", "a"},  {"MASTER_PORT", "1"},
                            {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"},
                            {"SLURM_NODEID", "3"}, {"SLURM_STEP_TASKS_PER_NODE", tasks}};
  EXPECT_THAT([&] { launch_with(variables); }, testing::ThrowsMessage<InputError>(testing::AllOf(
                                                   testing::HasSubstr("SLURM_STEP_TASKS_PER_NODE"),
                                                   testing::HasSubstr("'" + tasks + "'"))))
      << tasks;
}

TEST(LaunchOf, NamesWrongVariables) {
  const auto expect_error = [](Variables variables, const std::string& name,
                               const std::string& value) {
    variables.insert(
        {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}});
    EXPECT_THAT([&] { launch_with(variables); },
                testing::ThrowsMessage<InputError>(
                    testing::AllOf(testing::HasSubstr(name), testing::HasSubstr(value))));
  };
  expect_error({{"RANK", "2"}}, "RANK", "'2'");
  expect_error({{"RANK", "-1"}}, "RANK", "'-1'");
  expect_error({{"RANK", "1x"}}, "RANK", "'1x'");
  expect_error({{"WORLD_SIZE", ""}}, "WORLD_SIZE", "''");
  expect_error({{"WORLD_SIZE", "0"}}, "WORLD_SIZE", "'0'");
  expect_error({{"MASTER_PORT", "65536"}}, "MASTER_PORT", "'65536'");
  expect_error({{"MASTER_ADDR", ""}}, "MASTER_ADDR", "WORLD_SIZE");
  for (const std::string tasks : {"", "x", "0", "9", "2(x3", "2(3)", "2(x3)1", "2(x1),1"}) {
    expect_slurm_error(tasks);
  }
}

}  // namespace
}  // namespace attend::distributed
