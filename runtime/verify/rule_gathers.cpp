#include <fmt/format.h>

#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {
namespace {

bool brings_together(OpKind kind) {
  return gathers(kind) || kind == OpKind::gather_parts || kind == OpKind::share_control;
}

}  // namespace

void GatherRule::read() {
  const bool brings = brings_together(walk_.op().kind);
  for (const Access& access : walk_.op().accesses) {
    Content& content = walk_.at(access);
    const bool in_place = brings && access.use == Use::update;
    if (access.use != Use::write && !in_place) content.unread = false;
    if (!brings || access.use == Use::read || !content.unread) continue;
    walk_.fail(access, fmt::format("{} has brought the same together there, {}, and nobody has read it since",
                                   walk_.name(content.changed), walk_.among(walk_.set.group(walk_.op()).axes)));
  }
}

void GatherRule::write() {
  const bool brings = brings_together(walk_.op().kind);
  for (const Access& access : walk_.op().accesses) {
    if (access.use != Use::read) walk_.at(access).unread = brings;
  }
}

}  // namespace zrt::runtime::verification
