// A lane as a worker thread.
#pragma once
#include "core/stream.h"

namespace zrt::core {

std::unique_ptr<Stream> make_cpu_stream(std::string name, int threads);

}  // namespace zrt::core
