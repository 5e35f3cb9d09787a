#include "runtime/config/pipeline.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::runtime {

std::string_view schedule_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
    case ScheduleKind::zb_h1:
      return "zb-h1";
  }
  return "";
}

std::string_view gathered_for_name(GatheredFor longer) {
  return longer == GatheredFor::use ? "use" : longer == GatheredFor::run ? "run" : "step";
}

void check_schedule(const Schedule& s) {
  for (const auto& [name, value] : {std::pair{"stages", s.stages},
                                    {"microbatches", s.microbatches},
                                    {"chunks of a stage", s.chunks},
                                    {"microbatches of a group", s.group}}) {
    if (value < 1) throw core::ConfigError(fmt::format("a pipeline of {} {}: there must be at least 1", value, name));
  }
  if (s.kind != ScheduleKind::interleaved) {
    if (s.chunks == 1) return;
    throw core::ConfigError(fmt::format("the schedule {} has one chunk a stage, not {}; interleaved has several",
                                        schedule_name(s.kind), s.chunks));
  }
  const int32_t rest = s.microbatches % s.group;
  if (s.group >= s.stages && s.group <= s.microbatches && (rest == 0 || rest >= s.stages)) return;
  throw core::ConfigError(fmt::format(
      "an interleaved pipeline of {} stages with {} microbatches cannot take them in groups of {}: {}. Groups "
      "have at least as many microbatches as there are stages, the last one too",
      s.stages, s.microbatches, s.group,
      s.group < s.stages         ? "that is less than the stages"
      : s.group > s.microbatches ? "there are not so many"
                                 : fmt::format("{} are left for the last one", rest)));
}

}  // namespace zrt::runtime
