// A partition cuts the ranks of a run into groups that communicate each by itself.
#pragma once
#include <string>
#include <vector>

namespace zrt::comm {

// The ranks of each group, in the order in which they count inside it. Every rank of the run is in exactly one group.
using Partition = std::vector<std::vector<int>>;

Partition one_group(int world);

// Throws CommError naming the group and the rank that is missing, named twice or not of the run.
void check_partition(const std::string& name, const Partition& partition, int world);

// "dp" for all ranks in order, else with those that are in it: "dp.inner[4-7]", "dp.outer[1,5,9]", and of many with a
// constant distance "dp.outer[1,5,…,61]".
std::string group_name(const std::string& name, const std::vector<int>& ranks, int world);

// Says where a rank of the run stands in a partition that was checked.
struct Seat {
  size_t group;
  int rank;  // within the group
};
Seat seat_of(const Partition& partition, int rank);

}  // namespace zrt::comm
