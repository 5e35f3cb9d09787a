// A plan as a page.
#pragma once
#include "runtime/plan/plan.h"

namespace zrt::runtime {

std::string plan_page(const Plan& plan);  // one HTML page: lanes and memory over the time of a step

}  // namespace zrt::runtime
