// Puts into words what the system says about a failed transfer, and what a user can do about it.
#pragma once
#include <string>

namespace zrt::offload {

std::string io_reason(int error);  // "Input/output error: the disk failed; …"

}  // namespace zrt::offload
