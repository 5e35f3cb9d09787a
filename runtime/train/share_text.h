// Texts between the ranks of a group, for what is rare and small.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace zrt::runtime {

std::vector<std::string> gather_texts(comm::Communicator& group, const std::string& own, const std::string& label);

// Runs `work` on a thread of its own and gathers what all ranks' work returned. It may take longer than the group's
// time-out, because the ranks tell each other every `beat` that they live. Throws CommError when one does not, and when
// this rank's work takes longer than `limit`; then it does not return before the work does.
std::vector<std::string> gather_results(comm::Communicator& group, const std::function<std::string()>& work,
                                        std::chrono::milliseconds beat, std::chrono::milliseconds limit,
                                        const std::string& label);

}  // namespace zrt::runtime
