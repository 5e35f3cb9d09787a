// Texts between the ranks of a group, for what is rare and small.
#pragma once
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace zrt::runtime {

std::vector<std::string> gather_texts(comm::Communicator& group, const std::string& own, const std::string& label);
std::string broadcast_text(comm::Communicator& group, const std::string& of_root, const std::string& label);

}  // namespace zrt::runtime
